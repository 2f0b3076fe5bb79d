"""Errors that a library returns to the application without logging them.

A join that is rejected for lack of a common assignor leaves no line in the broker's log. librdkafka (without debug) and
sarama return the error to the application, which prints it in its own format. Only the library's words are matched,
anywhere in a line.
"""

from typing import Final

from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

_REFUSED: Final = {"error": "INCONSISTENT_GROUP_PROTOCOL"}

APPLICATIONS: Final = Family(
    name="applications",
    source=EventSource.CLIENT_LOG,
    markers=(
        "Inconsistent group protocol",
        "INCONSISTENT_GROUP_PROTOCOL",
        "group protocol type is incompatible with the other members",
    ),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=(
        Template(
            "librdkafka's error",
            "all",
            "Inconsistent group protocol",
            "Broker: Inconsistent group protocol[[<*>]]",
            EventKind.JOIN_REFUSED,
            _REFUSED,
        ),
        Template(
            "librdkafka's code",
            "all",
            "INCONSISTENT_GROUP_PROTOCOL",
            "INCONSISTENT_GROUP_PROTOCOL[[<*>]]",
            EventKind.JOIN_REFUSED,
            _REFUSED,
        ),
        Template(
            "sarama's error",
            "all",
            "group protocol type is incompatible with the other members",
            "kafka server: The provider group protocol type is incompatible with the other members[[<*>]]",
            EventKind.JOIN_REFUSED,
            _REFUSED,
        ),
    ),
)
