"""Encodes and decodes the keys and values of `__consumer_offsets` in Kafka's formats.

Offset value: v0 offset, metadata, commit timestamp; v1 adds the expiration, v2 removes it, v3 adds the leader epoch, v4
is flexible and adds the topic id as tagged field 0.
Group value: v0 generation and members; v1 adds the rebalance timeout, v2 the state timestamp, v3 the instance id; v4 is
flexible.

Invariants:
- The first two bytes of a key and of a value are its version, counted separately. The version of a key is the type of
  the record: 0 and 1 an offset, 2 a classic group (CO-12). Others (3 to 8 KIP-848 groups, then share, streams groups)
  are an `UnknownKey`, which the caller skips (CO-11).
- All value versions are decoded. Values are encoded in version 3, which every Kafka since 2.1 reads; an offset with an
  expiration in version 1, the only one that has the field (CO-12).
- Bytes after a complete message are ignored, as in Kafka.
"""

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from slackwater.wire.errors import WireError
from slackwater.wire.fields import FieldReader, FieldWriter

OFFSET_KEY_VERSIONS: Final = (0, 1)
GROUP_KEY_VERSION: Final = 2
NEWEST_OFFSET_VERSION: Final = 4
NEWEST_GROUP_VERSION: Final = 4
WRITTEN_VERSION: Final = 3
EXPIRING_OFFSET_VERSION: Final = 1
MAX_CACHED_KEYS: Final = 16_384
_FLEXIBLE_FROM: Final = 4
_TOPIC_ID_TAG: Final = 0
_TOPIC_ID_BYTES: Final = 16
_WITHOUT_METADATA: Final = struct.Struct(">hqihq")
_LENGTH: Final = struct.Struct(">h")
_NULL_AND_LENGTH: Final = struct.Struct(">hh")
_TIMEOUTS: Final = struct.Struct(">iii")  # and the length of the subscription
_SIZE: Final = struct.Struct(">i")
_MAX_FAST_CHARACTERS: Final = 1_000  # of a member's ids and host


class OffsetKey(NamedTuple):
    """The key of a group's offset in one partition."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """The key of a classic group."""

    group: str


class UnknownKey(NamedTuple):
    """A key of another type; only the version is read."""

    version: int


class OffsetValue(NamedTuple):
    """A committed offset. A leader epoch or expiration of -1 is not set."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes | None = None


class MemberMetadata(NamedTuple):
    """A member of a generation. A rebalance timeout of -1 is not stored."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(NamedTuple):
    """A generation of a classic group. A state timestamp of -1 is not stored."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberMetadata, ...]


def decode_key(data: bytes) -> OffsetKey | GroupKey | UnknownKey:
    """Decode a record's key."""
    reader = FieldReader(data, "key in __consumer_offsets")
    version = reader.int16()
    if version in OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string("group"), reader.string("topic"), reader.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string("group"))
    return UnknownKey(version)


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    """Encode a record's key."""
    writer = FieldWriter("key in __consumer_offsets")
    if isinstance(key, OffsetKey):
        writer.int16(OFFSET_KEY_VERSIONS[-1])
        writer.string(key.group, "group")
        writer.string(key.topic, "topic")
        writer.int32(key.partition)
    else:
        writer.int16(GROUP_KEY_VERSION)
        writer.string(key.group, "group")
    return writer.done()


@lru_cache(maxsize=MAX_CACHED_KEYS)
def encode_offset_key(group: str, topic: str, partition: int) -> bytes:
    """Encode an `OffsetKey`. Cached, because commits repeat the same keys."""
    return encode_key(OffsetKey(group, topic, partition))


def decode_offset_value(data: bytes) -> OffsetValue:
    """Decode the value of an `OffsetKey`."""
    reader = FieldReader(data, "offset in __consumer_offsets")
    version = _version(reader, NEWEST_OFFSET_VERSION)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string("metadata")
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == EXPIRING_OFFSET_VERSION else -1
    topic_id = reader.tagged_fields().get(_TOPIC_ID_TAG)
    if topic_id is not None and len(topic_id) != _TOPIC_ID_BYTES:
        raise reader.error(f"topic_id has {len(topic_id)} bytes, but must have {_TOPIC_ID_BYTES}")
    return OffsetValue(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id)


def encode_offset_value(value: OffsetValue, version: int | None = None) -> bytes:
    """Encode an offset. Other versions omit the fields they do not have."""
    if version is None:
        version = WRITTEN_VERSION if value.expire_timestamp_ms == -1 else EXPIRING_OFFSET_VERSION
    writer = _writer("offset in __consumer_offsets", version, NEWEST_OFFSET_VERSION)
    writer.int64(value.offset)
    if version >= 3:
        writer.int32(value.leader_epoch)
    writer.string(value.metadata, "metadata")
    writer.int64(value.commit_timestamp_ms)
    if version == EXPIRING_OFFSET_VERSION:
        writer.int64(value.expire_timestamp_ms)
    writer.tagged_fields({} if value.topic_id is None else {_TOPIC_ID_TAG: value.topic_id})
    return writer.done()


def encode_offset_without_expiry(offset: int, leader_epoch: int, metadata: str, commit_timestamp_ms: int) -> bytes:
    """Encode an offset without expiration: the bytes of `encode_offset_value`, faster if there is no metadata."""
    if metadata:
        return encode_offset_value(OffsetValue(offset, leader_epoch, metadata, commit_timestamp_ms))
    return _WITHOUT_METADATA.pack(WRITTEN_VERSION, offset, leader_epoch, 0, commit_timestamp_ms)


def decode_group_value(data: bytes) -> GroupValue:
    """Decode the value of a `GroupKey`."""
    reader = FieldReader(data, "group in __consumer_offsets")
    version = _version(reader, NEWEST_GROUP_VERSION)
    protocol_type = reader.string("protocol_type")
    generation = reader.int32()
    protocol = reader.nullable_string("protocol")
    leader = reader.nullable_string("leader")
    current_state_timestamp_ms = reader.int64() if version >= 2 else -1
    members = tuple(_member(reader, version) for _ in range(reader.array("members")))
    reader.tagged_fields()
    return GroupValue(protocol_type, generation, protocol, leader, current_state_timestamp_ms, members)


def encode_group_value(value: GroupValue, version: int = WRITTEN_VERSION) -> bytes:
    """Encode a generation. Other versions omit the fields they do not have."""
    writer = _writer("group in __consumer_offsets", version, NEWEST_GROUP_VERSION)
    writer.string(value.protocol_type, "protocol_type")
    writer.int32(value.generation)
    writer.string(value.protocol, "protocol")
    writer.string(value.leader, "leader")
    if version >= 2:
        writer.int64(value.current_state_timestamp_ms)
    writer.array(len(value.members))
    if version == WRITTEN_VERSION and (members := _encode_members_fast(value.members)) is not None:
        writer.parts += members
        return writer.done()
    for member in value.members:
        writer.string(member.member_id, "member_id")
        if version >= 3:
            writer.string(member.group_instance_id, "group_instance_id")
        writer.string(member.client_id, "client_id")
        writer.string(member.client_host, "client_host")
        if version >= 1:
            writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.binary(member.subscription)
        writer.binary(member.assignment)
        writer.tagged_fields({})
    writer.tagged_fields({})
    return writer.done()


def _encode_members_fast(members: tuple[MemberMetadata, ...]) -> list[bytes] | None:
    """Encode members in version 3 in half the time; None if one has an instance id, long or non-ASCII text.

    A rebalance encodes all members of a group while the group waits.
    """
    out: list[bytes] = []
    add = out.append
    for member_id, instance_id, client_id, host, rebalance_ms, session_ms, subscription, assignment in members:
        texts = member_id + client_id + host
        if instance_id is not None or len(texts) > _MAX_FAST_CHARACTERS or not texts.isascii():
            return None
        add(_LENGTH.pack(len(member_id)))
        add(member_id.encode())
        add(_NULL_AND_LENGTH.pack(-1, len(client_id)))
        add(client_id.encode())
        add(_LENGTH.pack(len(host)))
        add(host.encode())
        add(_TIMEOUTS.pack(rebalance_ms, session_ms, len(subscription)))
        add(subscription)
        add(_SIZE.pack(len(assignment)))
        add(assignment)
    return out


def _member(reader: FieldReader, version: int) -> MemberMetadata:
    member_id = reader.string("member_id")
    group_instance_id = reader.nullable_string("group_instance_id") if version >= 3 else None
    client_id = reader.string("client_id")
    client_host = reader.string("client_host")
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = reader.binary("subscription")
    assignment = reader.binary("assignment")
    reader.tagged_fields()
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _version(reader: FieldReader, newest: int) -> int:
    version = reader.int16()
    if not 0 <= version <= newest:
        raise reader.error(f"unsupported version {version}; supported are 0 to {newest}")
    reader.flexible = version >= _FLEXIBLE_FROM
    return version


def _writer(what: str, version: int, newest: int) -> FieldWriter:
    if not 0 <= version <= newest:
        raise WireError(f"{what}: unsupported version {version}; supported are 0 to {newest}.")
    writer = FieldWriter(what, flexible=version >= _FLEXIBLE_FROM)
    writer.int16(version)
    return writer
