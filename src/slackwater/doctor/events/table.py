"""The schema of the event table into which every history is read.

Invariants:
- The table has the columns of `GroupEvent` (group/events.py). An `OtherEventKind` is a kind for events of brokers,
  topics and clients that no group event covers.
- `detail` is one struct of nullable fields for all kinds (`DETAIL`). A field has the same type in every kind. An
  unknown value is null.
- Detail fields have the names of `GroupEvent`'s details, except where one name has two meanings:
  `GenerationRecorded.members` is `member_ids`, `Progress.partitions` is `count`, and the number of members is the
  column `members`.
- `member` is a member id, `client` a client id. The readers fill in `group` and `client` where the rest of the same
  file identifies them without doubt (spark/doctor/history/attribution.py).
- `state_before` is the state in the log line: the state in which a member joined.

Fields of `detail` by kind:
- rebalance_started: reason (Kafka's text), client_reason (the client's part of it), culprit (a member id), member_ids
  (all culprits), old_generation; the column `trigger` is derived from the two reasons
- generation_formed: group_protocol (classic, or consumer for KIP-848, where the generation is the group epoch), leader
- rebalance_completed: leader, static_members, group_protocol, duration_ms (KIP-848: of the assignor)
- member_joined, member_rejoined: group_protocol, session_timeout_ms, rebalance_timeout_ms, assignors, topics, reason,
  metadata_changed, client_software; from a client: generation, assignor, leader
- member_left: reason (the client's), by, pending, why (`temporarily`, KIP-848), session_timeout_ms,
  rebalance_timeout_ms, assignors
- member_expired, member_dropped, member_unsynced: timer, timer_ms (one row per member)
- member_replaced: old_member, rebalance_needed · member_fenced: operation, holder
- leader_changed: leader, old_leader, why
- rebalance_failed, join_refused, heartbeat_refused, commit_refused: error, why
- session_lost: error or why, duration_ms (how long no heartbeat succeeded)
- join_requested: reason · poll_overrun: limit_ms, over_ms · coordinator_found, coordinator_lost: node, why
- partitions_assigned, partitions_revoked, partitions_lost: partitions (`topic-0`), count
- generation_recorded: member_ids, assignment, gap, protocol, leader, group_protocol · group_loaded: members, epoch
- progress: commits, offsets_advanced, count (of partitions)
- member_recorded (one per member of a recorded generation): session_timeout_ms, rebalance_timeout_ms, topics,
  partitions, group_protocol · member_gone: a KIP-848 member's record was deleted
- topics_changed (logged by Slackwater's coordinator): why (the trigger), topics
- topic_created: topic, count · partition_created, partition_deleted: topic, partition · topic_deleted: topic
- broker_started, client_started: version, node · broker_stopping: node · broker_setting, client_setting: setting, value
- client_subscribed: topics, or a pattern in reason · client_failed: error, why · client_closed
- group_converted: why (from), group_protocol (to)
- coordinator_elected, coordinator_resigned, coordinator_loaded: partition (of __consumer_offsets), epoch, node
"""

from enum import StrEnum
from typing import Final


class OtherEventKind(StrEnum):
    """Kinds of events that are not group events."""

    TOPIC_CREATED = "topic_created"
    TOPIC_DELETED = "topic_deleted"
    PARTITION_CREATED = "partition_created"
    PARTITION_DELETED = "partition_deleted"
    BROKER_STARTED = "broker_started"
    BROKER_STOPPING = "broker_stopping"
    BROKER_SETTING = "broker_setting"
    COORDINATOR_ELECTED = "coordinator_elected"
    COORDINATOR_RESIGNED = "coordinator_resigned"
    COORDINATOR_LOADED = "coordinator_loaded"
    GROUP_CONVERTED = "group_converted"
    TOPICS_CHANGED = "topics_changed"
    CLIENT_STARTED = "client_started"
    CLIENT_CLOSED = "client_closed"
    CLIENT_FAILED = "client_failed"
    CLIENT_SUBSCRIBED = "client_subscribed"
    CLIENT_SETTING = "client_setting"
    MEMBER_RECORDED = "member_recorded"
    MEMBER_GONE = "member_gone"


CLUSTER_KINDS: Final = (
    OtherEventKind.TOPIC_CREATED,
    OtherEventKind.TOPIC_DELETED,
    OtherEventKind.PARTITION_CREATED,
    OtherEventKind.PARTITION_DELETED,
    OtherEventKind.BROKER_STARTED,
    OtherEventKind.BROKER_STOPPING,
)
"""Events of the brokers and topics of a cluster; they concern all its groups."""

TEXT: Final = "string"
LIST: Final = "array<string>"
LONG: Final = "bigint"
FLAG: Final = "boolean"
ASSIGNMENT: Final = "array<struct<member:string,partitions:array<string>>>"

COLUMNS: Final[dict[str, str]] = {
    "time_ms": LONG,
    "cluster": TEXT,
    "group": TEXT,
    "kind": TEXT,
    "trigger": TEXT,
    "generation": LONG,
    "state_before": TEXT,
    "state_after": TEXT,
    "member": TEXT,
    "instance": TEXT,
    "client": TEXT,
    "host": TEXT,
    "protocol_type": TEXT,
    "assignor": TEXT,
    "members": LONG,
}
"""The columns of the event table before `detail`, with their Spark types."""

DETAIL: Final[dict[str, str]] = {
    "reason": TEXT,
    "client_reason": TEXT,
    "error": TEXT,
    "why": TEXT,
    "operation": TEXT,
    "by": TEXT,
    "pending": FLAG,
    "culprit": TEXT,
    "member_ids": LIST,
    "old_member": TEXT,
    "holder": TEXT,
    "leader": TEXT,
    "old_leader": TEXT,
    "static_members": LONG,
    "old_generation": LONG,
    "epoch": LONG,
    "group_protocol": TEXT,
    "protocol": TEXT,
    "assignors": LIST,
    "session_timeout_ms": LONG,
    "rebalance_timeout_ms": LONG,
    "timeout_ms": LONG,
    "timer": TEXT,
    "timer_ms": LONG,
    "last_heard_ms": LONG,
    "duration_ms": LONG,
    "join_phase_ms": LONG,
    "callback_ms": LONG,
    "limit_ms": LONG,
    "over_ms": LONG,
    "until_ms": LONG,
    "waiting_for": LIST,
    "initial_delay": FLAG,
    "metadata_changed": FLAG,
    "client_software": TEXT,
    "rebalance_needed": FLAG,
    "node": TEXT,
    "topics": LIST,
    "topic": TEXT,
    "partition": LONG,
    "partitions": LIST,
    "count": LONG,
    "assignment": ASSIGNMENT,
    "gap": LONG,
    "commits": LONG,
    "offsets_advanced": LONG,
    "setting": TEXT,
    "value": TEXT,
    "version": TEXT,
}
"""The fields of `detail`, with their Spark types."""

UNUSED_BY_RULES: Final = frozenset(
    {
        "state_after",
        "protocol_type",
        "template",
        "holder",
        "leader",
        "old_leader",
        "static_members",
        "epoch",
        "timeout_ms",
        "timer",
        "timer_ms",
        "last_heard_ms",
        "join_phase_ms",
        "callback_ms",
        "until_ms",
        "initial_delay",
        "metadata_changed",
        "rebalance_needed",
        "count",
        "assignment",
        "gap",
        "commits",
    }
)
"""Columns and fields that no rule uses: they stay in the event table and are not sent to the rules."""

EVIDENCE: Final[dict[str, str]] = {
    "source": TEXT,
    "evidence": TEXT,
    "file": TEXT,
    "position": LONG,
    "template": TEXT,
    "text": TEXT,
}
"""Where an event comes from: its source, `file:position`, the two parts of that, the template's name, and the line."""
