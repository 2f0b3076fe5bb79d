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
