"""Encodes and decodes the keys and values of `__transaction_state` in Kafka's formats.

Value: v0 producer id and epoch, timeout, state, partitions, times; v1 is flexible and adds, as tagged fields, the
previous producer id (0), the next one (1) and the transaction version of the client (2).

Invariants:
- The first two bytes of a key and of a value are its version. The version of a key is the type of the record; 0 is the
  only one. Others are skipped by the caller (None).
- Values are encoded in version 1, as Kafka does since transaction version 1.
- Bytes after a complete message and unknown tagged fields are ignored, as in Kafka.
"""

from typing import Final, NamedTuple

from slackwater.wire.fields import FieldReader, FieldWriter

KEY_VERSION: Final = 0
NEWEST_VERSION: Final = 1
_PREVIOUS_ID_TAG: Final = 0
_NEXT_ID_TAG: Final = 1
_CLIENT_VERSION_TAG: Final = 2
_UNSET: Final = -1


class TransactionValue(NamedTuple):
    """The state of a transactional id. Partitions are None in the state Empty."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None
    update_timestamp_ms: int
    start_timestamp_ms: int
    previous_producer_id: int = _UNSET
    next_producer_id: int = _UNSET
    client_version: int = 0


def decode_key(data: bytes) -> str | None:
    """Decode the transactional id of a record's key; None for another type of record."""
    reader = FieldReader(data, "key in __transaction_state")
    return reader.string("transactional_id") if reader.int16() == KEY_VERSION else None


def encode_key(transactional_id: str) -> bytes:
    """Encode a record's key."""
    writer = FieldWriter("key in __transaction_state")
    writer.int16(KEY_VERSION)
    writer.string(transactional_id, "transactional_id")
    return writer.done()


def decode_value(data: bytes) -> TransactionValue:
    """Decode a record's value."""
    reader = FieldReader(data, "transaction in __transaction_state")
    version = reader.int16()
    if not 0 <= version <= NEWEST_VERSION:
        raise reader.error(f"unsupported version {version}; supported are 0 to {NEWEST_VERSION}")
    reader.flexible = version >= 1
    producer_id = reader.int64()
    producer_epoch = reader.int16()
    timeout_ms = reader.int32()
    state = reader.int8()
    topics = reader.nullable_array("partitions")
    partitions = None if topics is None else tuple(_topic(reader) for _ in range(topics))
    update_timestamp_ms = reader.int64()
    start_timestamp_ms = reader.int64()
    tagged = reader.tagged_fields()
    return TransactionValue(
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        partitions,
        update_timestamp_ms,
        start_timestamp_ms,
        _tagged_int(tagged, _PREVIOUS_ID_TAG, _UNSET),
        _tagged_int(tagged, _NEXT_ID_TAG, _UNSET),
        _tagged_int(tagged, _CLIENT_VERSION_TAG, 0),
    )


def encode_value(value: TransactionValue) -> bytes:
    """Encode a record's value."""
    writer = FieldWriter("transaction in __transaction_state", flexible=True)
    writer.int16(NEWEST_VERSION)
    writer.int64(value.producer_id)
    writer.int16(value.producer_epoch)
    writer.int32(value.timeout_ms)
    writer.int8(value.state)
    writer.array(None if value.partitions is None else len(value.partitions))
    for topic, partitions in value.partitions or ():
        writer.string(topic, "topic")
        writer.array(len(partitions))
        for partition in partitions:
            writer.int32(partition)
        writer.tagged_fields({})
    writer.int64(value.update_timestamp_ms)
    writer.int64(value.start_timestamp_ms)
    tagged: dict[int, bytes] = {}
    if value.previous_producer_id != _UNSET:
        tagged[_PREVIOUS_ID_TAG] = value.previous_producer_id.to_bytes(8, "big", signed=True)
    if value.next_producer_id != _UNSET:
        tagged[_NEXT_ID_TAG] = value.next_producer_id.to_bytes(8, "big", signed=True)
    if value.client_version:
        tagged[_CLIENT_VERSION_TAG] = value.client_version.to_bytes(2, "big", signed=True)
    writer.tagged_fields(tagged)
    return writer.done()


def _topic(reader: FieldReader) -> tuple[str, tuple[int, ...]]:
    topic = reader.string("topic")
    partitions = tuple(reader.int32() for _ in range(reader.array("partition_ids")))
    reader.tagged_fields()
    return topic, partitions


def _tagged_int(tagged: dict[int, bytes], tag: int, default: int) -> int:
    return int.from_bytes(tagged[tag], "big", signed=True) if tag in tagged else default
