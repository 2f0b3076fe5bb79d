"""Records of the transaction coordinator as bytes of `__transaction_state`."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.broker.transactions.transaction_records import decode_record, encode_record
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import StoredTransaction, TransactionRecord, TransactionState
from slackwater.wire.errors import WireError

int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
stored = st.builds(
    StoredTransaction,
    int64,
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(TransactionState),
    previous_producer_id=int64,
    next_producer_id=int64,
    partitions=st.frozensets(st.builds(TopicPartition, text, st.integers(0, 9)), max_size=9),
    start_timestamp_ms=int64,
    update_timestamp_ms=int64,
    client_version=st.integers(0, 2**15 - 1),
)


@given(text, stored)
def test_every_state_is_restored(transactional_id: str, value: StoredTransaction) -> None:
    if value.state is TransactionState.EMPTY:  # it has no partitions
        value = replace(value, partitions=frozenset())
    record = TransactionRecord(transactional_id, value)

    assert decode_record(*encode_record(record)) == record


def test_tombstone() -> None:
    record = TransactionRecord("a", None)

    assert decode_record(*encode_record(record)) == record


def test_unknown_records_are_none() -> None:
    assert decode_record(b"\x00\x09\x00\x01a", b"") is None


def test_unknown_state() -> None:
    key, value = encode_record(TransactionRecord("a", StoredTransaction(1, 0, 1, TransactionState.DEAD)))
    assert value is not None
    broken = value.replace(b"\x06\x01", b"\x09\x01", 1)

    with pytest.raises(WireError, match="unknown state 9"):
        decode_record(key, broken)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_decode_or_raise_wire_error(key: bytes, value: bytes) -> None:
    with suppress(WireError):
        decode_record(b"\x00\x00" + key, b"\x00\x01" + value)
