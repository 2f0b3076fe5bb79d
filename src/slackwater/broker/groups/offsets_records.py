"""The coordinator's records as keys and values of `__consumer_offsets`, and back.

Rules kept here
- `decode_record` undoes `encode_record`: a restart reads what was written.
- What an older or newer Kafka wrote is read as well; a record of a kind the core does not have is None, to be skipped
  (CO-11).
- A value of None is a tombstone on both sides.
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
    GroupMember,
    GroupValue,
    OffsetValue,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_lasting_offset,
    encode_offset_key,
    encode_offset_value,
)


def encode_records(records: Iterable[CoordinatorRecord]) -> list[tuple[bytes, bytes | None]]:
    """The keys and values of records; offsets that are nothing but a number, which most are, in half the time."""
    found: list[tuple[bytes, bytes | None]] = []
    for record in records:
        if record.__class__ is CommittedOffset:
            group_id, topic, partition, stored = record
            if stored is not None and stored[4] is None:
                offset, leader_epoch, metadata, commit_ms, _ = stored
                value = encode_lasting_offset(offset, leader_epoch, metadata, commit_ms)
                found.append((encode_offset_key(group_id, topic, partition), value))
                continue
        found.append(encode_record(record))
    return found


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """The key and the value under which a record is stored."""
    if isinstance(record, GroupMetadata):
        group = record.value
        return encode_key(GroupKey(record.group_id)), None if group is None else encode_group_value(_group_value(group))
    key = encode_offset_key(record.group_id, record.topic, record.partition)
    return key, None if record.value is None else _offset_value(record.value)


def decode_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """The record stored under a key, or None if it is of a kind the core does not have."""
    found = decode_key(key)
    if isinstance(found, UnknownKey):
        return None
    if isinstance(found, GroupKey):
        return GroupMetadata(found.group, None if value is None else _stored_group(decode_group_value(value)))
    offset = None if value is None else _stored_offset(decode_offset_value(value))
    return CommittedOffset(found.group, found.topic, found.partition, offset)


def _offset_value(stored: StoredOffset) -> bytes:
    offset, leader_epoch, metadata = stored.offset, stored.leader_epoch, stored.metadata
    if stored.expire_timestamp_ms is None:
        return encode_lasting_offset(offset, leader_epoch, metadata, stored.commit_timestamp_ms)
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
            GroupMember(
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
                # JG-27: a member stored without a rebalance timeout has its session timeout.
                member.session_timeout_ms if member.rebalance_timeout_ms == -1 else member.rebalance_timeout_ms,
                member.subscription,
                member.assignment,
            )
            for member in value.members
        ),
    )
