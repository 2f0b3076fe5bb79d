"""Encoding of the coordinator's records as keys and values of `__consumer_offsets`.

Invariants:
- `decode_record` reverses `encode_record`.
- Records of older and newer Kafka versions are read as well; an unknown kind of record is None and is skipped (CO-11).
- A null value is a tombstone.
"""

from collections.abc import Iterable

from slackwater.group.coordinator.records import (
    CommittedOffset,
    CoordinatorRecord,
    GroupMetadata,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from slackwater.wire.internal_topics.consumer_offsets import (
    GroupKey,
    GroupValue,
    MemberMetadata,
    OffsetValue,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_offset_key,
    encode_offset_value,
    encode_offset_without_expiry,
)


def encode_records(records: Iterable[CoordinatorRecord]) -> list[tuple[bytes, bytes | None]]:
    """Encode records; offsets without an expiry, which most are, take half the time."""
    pairs: list[tuple[bytes, bytes | None]] = []
    for record in records:
        if record.__class__ is CommittedOffset:
            group_id, topic, partition, stored = record
            if stored is not None and stored[4] is None:
                offset, leader_epoch, metadata, commit_ms, _ = stored
                value = encode_offset_without_expiry(offset, leader_epoch, metadata, commit_ms)
                pairs.append((encode_offset_key(group_id, topic, partition), value))
                continue
        pairs.append(encode_record(record))
    return pairs


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record."""
    if isinstance(record, GroupMetadata):
        group = record.value
        return encode_key(GroupKey(record.group_id)), None if group is None else encode_group_value(_group_value(group))
    key = encode_offset_key(record.group_id, record.topic, record.partition)
    return key, None if record.value is None else _offset_value(record.value)


def decode_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """Return the record of a key and value, or None if its kind is unknown."""
    decoded = decode_key(key)
    if isinstance(decoded, UnknownKey):
        return None
    if isinstance(decoded, GroupKey):
        return GroupMetadata(decoded.group, None if value is None else _stored_group(decode_group_value(value)))
    offset = None if value is None else _stored_offset(decode_offset_value(value))
    return CommittedOffset(decoded.group, decoded.topic, decoded.partition, offset)


def _offset_value(stored: StoredOffset) -> bytes:
    offset, leader_epoch, metadata = stored.offset, stored.leader_epoch, stored.metadata
    if stored.expire_timestamp_ms is None:
        return encode_offset_without_expiry(offset, leader_epoch, metadata, stored.commit_timestamp_ms)
    return encode_offset_value(
        OffsetValue(offset, leader_epoch, metadata, stored.commit_timestamp_ms, stored.expire_timestamp_ms)
    )


def _stored_offset(value: OffsetValue) -> StoredOffset:
    return StoredOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp_ms,
        None if value.expire_timestamp_ms == -1 else value.expire_timestamp_ms,
    )


def _group_value(stored: StoredGroup) -> GroupValue:
    return GroupValue(
        stored.protocol_type,
        stored.generation_id,
        stored.protocol_name,
        stored.leader,
        stored.state_timestamp_ms,
        tuple(
            MemberMetadata(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.subscription,
                member.assignment,
            )
            for member in stored.members
        ),
    )


def _stored_group(value: GroupValue) -> StoredGroup:
    return StoredGroup(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp_ms,
        tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                # JG-27: a member stored without a rebalance timeout uses its session timeout.
                member.session_timeout_ms if member.rebalance_timeout_ms == -1 else member.rebalance_timeout_ms,
                member.subscription,
                member.assignment,
            )
            for member in value.members
        ),
    )
