"""Records of `__consumer_offsets` to the columns of rows: generations, their members, and commits.

Invariants:
- A record that cannot be decoded becomes a row of kind UNDECODABLE with the error.
- The epoch of a KIP-848 group is its generation. Its member records hold the client id of each member id.
"""

from typing import Any, Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.group.assignors.consumer_protocol import MalformedMetadata, decode_assignment, decode_subscription
from slackwater.group.events import EventKind
from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.consumer_groups import (
    GROUP_EPOCH_KEY,
    MEMBER_KEY,
    ConsumerGroupKey,
    decode_consumer_group_key,
    decode_epoch,
    decode_member,
)
from slackwater.wire.internal_topics.consumer_offsets import (
    GroupKey,
    GroupValue,
    MemberMetadata,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)

MINUTE_MS: Final = 60_000
"""Commits are summed up by group and minute."""
UNDECODABLE: Final = "undecodable"
COMMIT: Final = "commit"
RecordRow = dict[str, Any]


def decode(key: bytes | None, value: bytes | None) -> list[RecordRow]:
    """Return the rows of one record; a record of another kind has none."""
    if key is None:
        return []
    try:
        classic = decode_key(key)
        if isinstance(classic, OffsetKey):
            return _commit(classic, value)
        if isinstance(classic, GroupKey):
            return _group(classic, value)
        consumer = decode_consumer_group_key(key)
        return [] if consumer is None else _consumer_group(consumer, value)
    except WireError as error:
        return [{"kind": UNDECODABLE, "error": str(error)}]


def _commit(key: OffsetKey, value: bytes | None) -> list[RecordRow]:
    if value is None:
        return []
    committed = decode_offset_value(value).offset
    topic = {"topic": key.topic, "topic_partition": key.partition, "committed": committed}
    return [{"kind": COMMIT, "group": key.group, **topic}]


def _group(key: GroupKey, value: bytes | None) -> list[RecordRow]:
    if value is None:
        return [{"kind": EventKind.GROUP_DELETED, "group": key.group}]
    recorded = decode_group_value(value)
    owned = {member.member_id: _assigned(member) for member in recorded.members}
    generation = {
        "kind": EventKind.GENERATION_RECORDED,
        "group": key.group,
        "generation": recorded.generation,
        "protocol_type": recorded.protocol_type,
        "protocol": recorded.protocol,
        "leader": recorded.leader,
        "members": len(recorded.members),
        "member_ids": list(owned),
        "assignment": [{"member": member, "partitions": partitions} for member, partitions in owned.items()],
        "group_protocol": "classic",
    }
    return [generation, *(_member(key.group, recorded, member, owned[member.member_id]) for member in recorded.members)]


def _member(group: str, recorded: GroupValue, member: MemberMetadata, partitions: list[str]) -> RecordRow:
    return {
        "kind": OtherEventKind.MEMBER_RECORDED,
        "group": group,
        "generation": recorded.generation,
        "protocol": recorded.protocol,
        "member": member.member_id,
        "client": member.client_id,
        "host": member.client_host,
        "instance": member.group_instance_id,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": None if member.rebalance_timeout_ms < 0 else member.rebalance_timeout_ms,
        "topics": _subscribed(member),
        "partitions": partitions,
        "group_protocol": "classic",
    }


def _assigned(member: MemberMetadata) -> list[str]:
    try:
        return (
            [str(partition) for partition in decode_assignment(member.assignment).partitions]
            if member.assignment
            else []
        )
    except MalformedMetadata:
        return []


def _subscribed(member: MemberMetadata) -> list[str] | None:
    try:
        return sorted(decode_subscription(member.subscription).topics)
    except MalformedMetadata:
        return None


def _consumer_group(key: ConsumerGroupKey, value: bytes | None) -> list[RecordRow]:
    row: RecordRow = {"group": key.group, "member": key.member_id, "group_protocol": "consumer"}
    if key.version == GROUP_EPOCH_KEY:
        if value is None:
            return [{**row, "kind": EventKind.GROUP_DELETED}]
        return [{**row, "kind": EventKind.GENERATION_RECORDED, "generation": decode_epoch(value)}]
    if key.version != MEMBER_KEY:
        return []
    if value is None:
        return [{**row, "kind": OtherEventKind.MEMBER_GONE}]
    member = decode_member(value)
    details = {
        "client": member.client_id,
        "host": member.client_host,
        "instance": member.group_instance_id,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "topics": list(member.subscribed_topics),
    }
    return [{**row, "kind": OtherEventKind.MEMBER_RECORDED, **details}]
