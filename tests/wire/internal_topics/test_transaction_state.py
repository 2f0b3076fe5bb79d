"""The formats of `__transaction_state`, compared with the bytes of Kafka's classes, and invalid bytes."""

import json
from pathlib import Path

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.transaction_state import (
    TransactionValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

# Written by `org.apache.kafka.coordinator.transaction.generated` of Kafka 4.3.1.
JAVA: dict[str, str] = json.loads((Path(__file__).parents[2] / "data" / "transaction_state_java.json").read_text())
VALUE = TransactionValue(
    1234567890123,
    32766,
    60_000,
    2,
    (("orders", (0, 7)), ("ü", (3,))),
    1700000000500,
    1700000000000,
    1234567890123,
    1234567890124,
    2,
)
EMPTY = TransactionValue(1, 0, 1, 0, None, 5, -1)


def java(name: str) -> bytes:
    return bytes.fromhex(JAVA[name])


@pytest.mark.proves("TX-51")
def test_key() -> None:
    assert encode_key("zahlung-é") == java("key v0")
    assert decode_key(java("key v0")) == "zahlung-é"
    assert decode_key(b"\x00\x01\x00\x01a") is None


@pytest.mark.proves("TX-51")
def test_value_of_each_version() -> None:
    assert encode_value(VALUE) == java("value v1")
    assert decode_value(java("value v1")) == VALUE
    assert decode_value(java("value v0")) == VALUE._replace(
        previous_producer_id=-1, next_producer_id=-1, client_version=0
    )


@pytest.mark.proves("TX-51")
def test_value_without_partitions() -> None:
    assert encode_value(EMPTY) == java("empty v1")
    assert decode_value(java("empty v1")) == decode_value(java("empty v0")) == EMPTY


def test_unknown_version() -> None:
    with pytest.raises(WireError, match="unsupported version 2; supported are 0 to 1"):
        decode_value(b"\x00\x02" + java("value v1")[2:])


def test_truncated_value() -> None:
    for size in range(len(java("value v1"))):
        with pytest.raises(WireError):
            decode_value(java("value v1")[:size])
