"""Log lines of kafkajs: JSON, or the same wording in a plain line."""

from typing import Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

_GROUP_AND_MEMBER: Final = '"groupId":"<group>","memberId":"<member>"'

KAFKAJS: Final = Family(
    name="kafkajs",
    source=EventSource.CLIENT_LOG,
    markers=('"logger":"kafkajs"',),
    prefix=r'^(.*?)"logger":"kafkajs","message":"',
    prefix_slots=("head",),
    words=("[ConsumerGroup]", "[Runner]", "[Consumer]"),
    tries_later_families=True,
    templates=(
        Template(
            "joined",
            "2.0+",
            "Consumer has joined the group",
            f'[ConsumerGroup] Consumer has joined the group",{_GROUP_AND_MEMBER},"leaderId":"<leader>","isLeader":<*>,'
            '"memberAssignment":{<partitions>},"groupProtocol":"<assignor>","duration":<duration_ms>}',
            EventKind.MEMBER_JOINED,
        ),
        Template(
            "rebalancing",
            "1.0+",
            "The group is rebalancing, re-joining",
            f'[Runner] The group is rebalancing, re-joining",{_GROUP_AND_MEMBER},<*>',
            EventKind.HEARTBEAT_REFUSED,
            {"error": "REBALANCE_IN_PROGRESS"},
        ),
        Template(
            "not known",
            "1.0+",
            "The coordinator is not aware of this member, re-joining",
            f'[Runner] The coordinator is not aware of this member, re-joining the group",{_GROUP_AND_MEMBER},<*>',
            EventKind.SESSION_LOST,
            {"error": "UNKNOWN_MEMBER_ID"},
        ),
        Template(
            "join refused",
            "1.0+",
            "[Connection] Response JoinGroup",
            '[Connection] Response JoinGroup(<*>","broker":"<node>","clientId":"<client>","error":"<error>",<*>',
            EventKind.JOIN_REFUSED,
        ),
        Template(
            "sync failed",
            "1.0+",
            "[Connection] Response SyncGroup",
            '[Connection] Response SyncGroup(<*>","broker":"<node>","clientId":"<client>","error":"<error>",<*>',
            EventKind.REBALANCE_FAILED,
            {"operation": "sync-group"},
        ),
        Template(
            "heartbeat refused",
            "1.0+",
            "[Connection] Response Heartbeat",
            '[Connection] Response Heartbeat(<*>","broker":"<node>","clientId":"<client>","error":"<error>",<*>',
            EventKind.HEARTBEAT_REFUSED,
        ),
        Template(
            "commit refused",
            "1.0+",
            "[Connection] Response OffsetCommit",
            '[Connection] Response OffsetCommit(<*>","broker":"<node>","clientId":"<client>","error":"<error>",<*>',
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "started",
            "1.0+",
            '"[Consumer] Starting"',
            '[Consumer] Starting","groupId":"<group>"}',
            OtherEventKind.CLIENT_STARTED,
        ),
        Template(
            "stopped",
            "1.0+",
            '"[Consumer] Stopped"',
            '[Consumer] Stopped","groupId":"<group>"}',
            OtherEventKind.CLIENT_CLOSED,
        ),
        Template(
            "crashed",
            "1.0+",
            "[Consumer] Crash: ",
            '[Consumer] Crash: <error>: <why>","groupId":"<group>",<*>',
            OtherEventKind.CLIENT_FAILED,
        ),
        Template(
            "restarting",
            "1.0+",
            "[Consumer] Restarting the consumer",
            "[Consumer] Restarting the consumer <*>",
            None,
        ),
    ),
)

KAFKAJS_TEXT: Final = Family(
    name="kafkajs through another logger",
    source=EventSource.CLIENT_LOG,
    markers=(
        "The group is rebalancing, re-joining",
        "The coordinator is not aware of this member, re-joining",
        "onsumer has joined the group",
        "Response Heartbeat(",
        "Response JoinGroup(",
        "Response SyncGroup(",
        "Response OffsetCommit(",
        "Response GroupCoordinator(",
        "[Consumer] ",
        "Crash: KafkaJS",
    ),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=(
        Template(
            "joined",
            "1.0+",
            "onsumer has joined the group",
            "Consumer has joined the group",
            EventKind.MEMBER_JOINED,
        ),
        Template(
            "rebalancing",
            "1.0+",
            "The group is rebalancing, re-joining",
            "The group is rebalancing, re-joining",
            EventKind.HEARTBEAT_REFUSED,
            {"error": "REBALANCE_IN_PROGRESS"},
        ),
        Template(
            "not known",
            "1.0+",
            "The coordinator is not aware of this member, re-joining",
            "The coordinator is not aware of this member, re-joining",
            EventKind.SESSION_LOST,
            {"error": "UNKNOWN_MEMBER_ID"},
        ),
        Template(
            "join refused",
            "1.0+",
            "Response JoinGroup(",
            "Response JoinGroup(",
            EventKind.JOIN_REFUSED,
        ),
        Template(
            "sync failed",
            "1.0+",
            "Response SyncGroup(",
            "Response SyncGroup(",
            EventKind.REBALANCE_FAILED,
            {"operation": "sync-group"},
        ),
        Template(
            "heartbeat refused",
            "1.0+",
            "Response Heartbeat(",
            "Response Heartbeat(",
            EventKind.HEARTBEAT_REFUSED,
        ),
        Template(
            "commit refused",
            "1.0+",
            "Response OffsetCommit(",
            "Response OffsetCommit(",
            EventKind.COMMIT_REFUSED,
        ),
        Template(
            "coordinator not found",
            "1.0+",
            "Response GroupCoordinator(",
            "Response GroupCoordinator(",
            EventKind.COORDINATOR_LOST,
        ),
        Template("started", "1.0+", "[Consumer] Starting", "[Consumer] Starting", OtherEventKind.CLIENT_STARTED),
        Template("stopped", "1.0+", "[Consumer] Stopped", "[Consumer] Stopped", OtherEventKind.CLIENT_CLOSED),
        Template("crashed", "1.0+", "Crash: KafkaJS", "Crash: KafkaJS<error>: <why>", OtherEventKind.CLIENT_FAILED),
    ),
)
"""The same wording in the lines of winston, pino, bunyan, of console.log, and of log creators of applications."""
