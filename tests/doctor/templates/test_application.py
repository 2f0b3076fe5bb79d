"""Errors that applications print themselves, because their library does not log them."""

import pytest

from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import TemplateSet
from slackwater.group.events import EventKind, EventSource

TEMPLATES = TemplateSet(FAMILIES)


SARAMA = "kafka server: The provider group protocol type is incompatible with the other members"


@pytest.mark.parametrize(
    "text",
    [
        "ERROR worker: Consumer error: Broker: Inconsistent group protocol",
        'KafkaError{code=INCONSISTENT_GROUP_PROTOCOL,val=23,str="JoinGroup: Broker: Inconsistent group protocol"}',
        "fatal: Kafka error INCONSISTENT_GROUP_PROTOCOL (23)",
        "while joining group orders: Broker: Inconsistent group protocol",
        f"Error from consumer: {SARAMA}.",
        f"consume: {SARAMA}",
    ],
)
def test_application_log_shows_inconsistent_protocol(text: str) -> None:
    values = TEMPLATES.read(f"2026-05-01 10:00:00,123 {text}")
    assert values is not None
    assert (values["kind"], values["error"]) == (EventKind.JOIN_REFUSED, "INCONSISTENT_GROUP_PROTOCOL")
    assert values["source"] == EventSource.CLIENT_LOG
    assert values["head"].startswith("2026")


@pytest.mark.parametrize(
    "text",
    [
        "payment 81 declined, errorCode=25",
        '{"level":"info","msg":"request done","error_code": 16,"path":"/v1"}',
        "kafka_consumer rebalance_in_progress=0 rebalance_total=7",
        "HTTP 500: errorCode: 27",
        "Committed offset 25 of partition 16 for 27 records",
        "Group booking 12 has reached its maximum size",
    ],
)
def test_lines_of_other_programs_are_no_failures(text: str) -> None:
    values = TEMPLATES.read(f"2026-05-01 10:00:00,123 {text}") or {}
    assert not values.get("kind")
