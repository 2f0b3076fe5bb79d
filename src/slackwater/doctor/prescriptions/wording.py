"""What libraries call differently, in the texts of remedies.

Invariants:
- Remedies have Kafka's setting names; a text gets the names of the library when it is rendered.
- A text for an unknown library fits all libraries.
"""

import re
from collections.abc import Mapping
from typing import Final

from slackwater.doctor.prescriptions.libraries import (
    LIBRDKAFKA,
    OWN,
    PROPERTIES,
    SPARK,
    WITH_UNDERSCORES,
    WITHOUT_POLL_TIMER,
)
from slackwater.doctor.prescriptions.values import PERCENT_REASON, RECORDS_PERCENT

_CLIENT_SETTING: Final = re.compile(
    rf"(?<![\w.])(?:{'|'.join(re.escape(name) for name, lines in PROPERTIES.items() if OWN in lines)})(?![\w]|\.\w)"
)
_MAX_POLL_INTERVAL: Final = "max.poll.interval.ms"
_DEPLOY_TWICE: Final = "deploy twice (first both assignors, then this one alone)"
_STOP_ONCE: Final = "stop all members once"


def wording(library: str | None, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the placeholders that depend on the library."""
    return {
        "fewer_records": _fewer_records(library),
        "percent_note": _percent_note(library, values),
        "poll_note": (
            "; with poll(), which returns one message at a time, only a faster handler helps"
            if library == LIBRDKAFKA
            else ""
        ),
        "assignor_change": _assignor_change(library),
    }


def with_setting_names(text: str, library: str | None) -> str:
    """Return a text with the settings of clients as the library calls them."""
    if library in WITH_UNDERSCORES:
        return _CLIENT_SETTING.sub(lambda match: match[0].replace(".", "_"), text)
    if library in WITHOUT_POLL_TIMER:  # the only limit for a batch is the rebalance timeout
        return text.replace(_MAX_POLL_INTERVAL, "the rebalance timeout")
    return text


def _fewer_records(library: str | None) -> str:
    if library == LIBRDKAFKA:
        return "handle fewer messages per consume() call"
    if library == SPARK:
        return "read fewer records per micro-batch"
    if library in WITHOUT_POLL_TIMER:
        return "handle fewer messages at a time"
    return "fetch fewer records per poll()"


def _percent_note(library: str | None, values: Mapping[str, str]) -> str:
    """Return what percentage of its present value a setting should have; empty if that is not needed."""
    if RECORDS_PERCENT not in values or library == OWN:  # our consumer logs every setting that is not the default
        return ""
    noun = "number" if library == LIBRDKAFKA else "value"
    return f": {values[RECORDS_PERCENT]} % of the present {noun} ({values[PERCENT_REASON]})"


def _assignor_change(library: str | None) -> str:
    if library is None:
        return f"{_DEPLOY_TWICE} or, with {LIBRDKAFKA}, {_STOP_ONCE}"
    return _STOP_ONCE if library == LIBRDKAFKA else _DEPLOY_TWICE
