"""Encoding of the transaction coordinator's records as keys and values of `__transaction_state`.

Invariants:
- `decode_record` reverses `encode_record`, except for the last producer epoch, which is not written (TX-23).
- Other kinds of records are None and are skipped. A null value is a tombstone.
"""

from itertools import groupby
from typing import Final

from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import StoredTransaction, TransactionRecord, TransactionState
from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.transaction_state import (
    TransactionValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

# Kafka's numbers of the states.
_STATES: Final = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
    TransactionState.DEAD,
)
_NUMBERS: Final = {state: number for number, state in enumerate(_STATES)}


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record."""
    key = encode_key(record.transactional_id)
    return key, None if record.value is None else encode_value(_value(record.value))


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Return the record of a key and value; None for an unknown kind of record. Raises WireError."""
    transactional_id = decode_key(key)
    if transactional_id is None:
        return None
    return TransactionRecord(transactional_id, None if value is None else _stored(decode_value(value)))


def _value(stored: StoredTransaction) -> TransactionValue:
    partitions = tuple(
        (topic, tuple(partition.partition for partition in of_topic))
        for topic, of_topic in groupby(sorted(stored.partitions), key=lambda partition: partition.topic)
    )
    return TransactionValue(
        stored.producer_id,
        stored.producer_epoch,
        stored.timeout_ms,
        _NUMBERS[stored.state],
        None if stored.state is TransactionState.EMPTY else partitions,
        stored.update_timestamp_ms,
        stored.start_timestamp_ms,
        stored.previous_producer_id,
        stored.next_producer_id,
        stored.client_version,
    )


def _stored(value: TransactionValue) -> StoredTransaction:
    if not 0 <= value.state < len(_STATES):
        raise WireError(f"transaction in __transaction_state: unknown state {value.state}.")
    return StoredTransaction(
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        _STATES[value.state],
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        partitions=frozenset(
            TopicPartition(topic, partition) for topic, partitions in value.partitions or () for partition in partitions
        ),
        start_timestamp_ms=value.start_timestamp_ms,
        update_timestamp_ms=value.update_timestamp_ms,
        client_version=value.client_version,
    )
