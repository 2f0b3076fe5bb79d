"""Decodes records of KIP-848 consumer groups in `__consumer_offsets`: group epochs and members.

The version of a key is the type of the record: 3 group epoch, 5 member, 6 epoch of the target assignment, 7 target
assignment of a member, 8 current assignment of a member. Keys are not flexible; values have version 0 and are flexible.

Invariants:
- These records are only read. Bytes after a complete message are ignored, as in Kafka.
"""

from typing import Final, NamedTuple

from slackwater.wire.errors import WireError
from slackwater.wire.fields import FieldReader

GROUP_EPOCH_KEY: Final = 3
MEMBER_KEY: Final = 5
TARGET_EPOCH_KEY: Final = 6
_VALUE_VERSION: Final = 0


class ConsumerGroupKey(NamedTuple):
    """A group, or one of its members."""

    version: int
    group: str
    member_id: str | None


class ConsumerGroupMember(NamedTuple):
    """A member, as it joined."""

    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    rebalance_timeout_ms: int


def decode_consumer_group_key(data: bytes) -> ConsumerGroupKey | None:
    """Decode a record's key; None for other types of records."""
    reader = FieldReader(data, "key in __consumer_offsets")
    version = reader.int16()
    if version in (GROUP_EPOCH_KEY, TARGET_EPOCH_KEY):
        return ConsumerGroupKey(version, reader.string("group"), None)
    if version == MEMBER_KEY:
        return ConsumerGroupKey(version, reader.string("group"), reader.string("member_id"))
    return None


def decode_epoch(data: bytes) -> int:
    """Decode the epoch of a group or of its target assignment."""
    return _reader(data, "epoch in __consumer_offsets").int32()


def decode_member(data: bytes) -> ConsumerGroupMember:
    """Decode a member."""
    reader = _reader(data, "member in __consumer_offsets")
    return ConsumerGroupMember(
        reader.nullable_string("group_instance_id"),
        reader.nullable_string("rack_id"),
        reader.string("client_id"),
        reader.string("client_host"),
        tuple(reader.string("subscribed_topics") for _ in range(reader.array("subscribed_topics"))),
        reader.nullable_string("subscribed_regex"),
        reader.int32(),
    )


def _reader(data: bytes, what: str) -> FieldReader:
    reader = FieldReader(data, what)
    version = reader.int16()
    if version != _VALUE_VERSION:
        raise WireError(f"{what}: unsupported version {version}; supported is {_VALUE_VERSION}.")
    reader.flexible = True
    return reader
