"""What applications print of errors that their library does not log."""

import pytest

from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import TemplateSet
from slackwater.group.events import EventKind, EventSource

RECOGNISER = TemplateSet(FAMILIES)


SARAMA = "kafka server: The provider group protocol type is incompatible with the other members"


@pytest.mark.parametrize(
    "said",
    [
        "ERROR worker: Consumer error: Broker: Inconsistent group protocol",
        'KafkaError{code=INCONSISTENT_GROUP_PROTOCOL,val=23,str="JoinGroup: Broker: Inconsistent group protocol"}',
        "fatal: Kafka error INCONSISTENT_GROUP_PROTOCOL (23)",
        "while joining group orders: Broker: Inconsistent group protocol",
        f"Error from consumer: {SARAMA}.",
        f"consume: {SARAMA}",
    ],
)
def test_application_log_shows_inconsistent_protocol(
    said: str,
) -> None:
    found = RECOGNISER.read(f"2026-05-01 10:00:00,123 {said}")
    assert found is not None
    assert (found["kind"], found["error"]) == (EventKind.JOIN_REFUSED, "INCONSISTENT_GROUP_PROTOCOL")
    assert found["source"] == EventSource.CLIENT_LOG
    assert found["head"].startswith("2026")
