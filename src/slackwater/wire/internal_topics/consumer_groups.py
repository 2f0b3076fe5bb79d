"""The records of KIP-848's consumer groups in `__consumer_offsets`: those that tell who is in a group, and its epoch.

Rules kept here
- A key's version says what the record is: 3 a group's epoch, 5 a member, 6 the epoch of its target assignment, 7 a
  member's target, 8 what a member has. Keys are plain; values are version 0 and flexible.
- Read, and never written. Bytes that follow a whole message are left unread, as Kafka leaves them.
"""

from typing import Final, NamedTuple

from slackwater.wire.errors import WireError
from slackwater.wire.fields import FieldReader

GROUP_EPOCH_KEY: Final = 3
MEMBER_KEY: Final = 5
TARGET_EPOCH_KEY: Final = 6
_NEWEST_VALUE: Final = 0


class ConsumerGroupKey(NamedTuple):
    """A group, or one of its members."""

    version: int
    group: str
    member_id: str | None


class ConsumerGroupMember(NamedTuple):
    """What a member said of itself when it joined."""

    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    rebalance_timeout_ms: int


def decode_consumer_group_key(data: bytes) -> ConsumerGroupKey | None:
    """Read a record's key; None where it is no record that is read here."""
    reader = FieldReader(data, "key in __consumer_offsets")
    version = reader.int16()
    if version in (GROUP_EPOCH_KEY, TARGET_EPOCH_KEY):
        return ConsumerGroupKey(version, reader.string("group"), None)
    if version == MEMBER_KEY:
        return ConsumerGroupKey(version, reader.string("group"), reader.string("member_id"))
    return None


def decode_epoch(data: bytes) -> int:
    """Read the epoch of a group, or of its target assignment."""
    return _reader(data, "epoch in __consumer_offsets").int32()


def decode_member(data: bytes) -> ConsumerGroupMember:
    """Read a member."""
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
    if version != _NEWEST_VALUE:
        raise WireError(f"{what}: version {version} is not {_NEWEST_VALUE}.")
    reader.flexible = True
    return reader
