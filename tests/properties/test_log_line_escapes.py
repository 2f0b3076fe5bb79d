"""The doctor reads the events and ids that the broker logged, whatever characters the ids contain."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.broker.groups.log_lines import CoordinatorLogLines
from slackwater.cli.broker import LINE
from slackwater.client.consumer.log_lines import LogLines
from slackwater.doctor.history.lines import find_lines
from slackwater.doctor.history.log_events import LogReader
from slackwater.doctor.templates.broker import COORDINATOR
from slackwater.escaping import get_logger
from slackwater.group.errors import Error
from slackwater.group.events import (
    LEADER_FAILED_TO_JOIN,
    CoordinatorChanged,
    EventKind,
    EventSource,
    GenerationFormed,
    GroupEvent,
    GroupLifecycle,
    GroupState,
    JoinRequested,
    LeaderChanged,
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    PartitionsChanged,
    RebalanceStarted,
    RequestRefused,
    Trigger,
)
from slackwater.group.messages import JoinGroup, JoinGroupResponse, LeaveGroup, LeavingMember
from slackwater.group.topic_partition import TopicPartition
from tests.conformance.coordinator_harness import join_protocols

CONTROL: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x2070),
    0xFEFF,
)
UNSAFE: Final = tuple(map(chr, CONTROL))
FORGED: Final = (
    "a\n[2026-05-01 10:00:00,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=3] Member m in group "
    "victim has failed, removing it from the group. (org.apache.kafka.X)\nb"
)
IDS: Final = st.text(st.sampled_from([*UNSAFE, *"\\\\xu0159afn", "é", "東"]), min_size=1, max_size=12)
PLAIN: Final = ("groupid", "memberid", "instanceid", "otherid", "reasontext")


def coordinator_events(group: str, member: str, instance: str, other: str, reason: str) -> list[GroupEvent]:
    """One event of every kind with a log line, with these ids."""

    def event(kind: EventKind, detail: Any = None, **values: Any) -> GroupEvent:
        common: dict[str, Any] = {"member": member, "generation": 3, "members": 2, "state_after": GroupState.STABLE}
        return GroupEvent(
            time_ms=1, group=group, kind=kind, detail=detail, source=EventSource.COORDINATOR, **common | values
        )

    started = f"removing member {member} on heartbeat expiration."
    return [
        event(EventKind.GROUP_LOADED, GroupLifecycle(members=2)),
        event(EventKind.MEMBER_ID_ISSUED),
        event(EventKind.PENDING_MEMBER_EXPIRED),
        event(EventKind.MEMBER_JOINED),
        event(EventKind.MEMBER_JOINED, instance=instance),
        event(EventKind.MEMBER_REPLACED, MemberReplaced(old_member=other, rebalance_needed=False), instance=instance),
        event(EventKind.MEMBER_FENCED, MemberFenced(operation="Heartbeat", holder=other), instance=instance),
        event(EventKind.MEMBER_LEFT, MemberLeft(by="itself", reason=reason)),
        event(EventKind.MEMBER_LEFT, MemberLeft(by="itself", reason=reason, pending=True)),
        event(EventKind.MEMBER_EXPIRED),
        event(EventKind.MEMBER_DROPPED),
        event(EventKind.MEMBER_DROPPED, member=other),
        event(
            EventKind.REBALANCE_STARTED,
            RebalanceStarted(
                culprit=member, old_generation=2, timeout_ms=1, initial_delay=False, reason=started, topics=("t",)
            ),
            trigger=Trigger.SESSION_TIMEOUT,
        ),
        event(EventKind.LEADER_CHANGED, LeaderChanged(old_leader=other, why=LEADER_FAILED_TO_JOIN)),
        event(EventKind.GENERATION_FORMED, GenerationFormed(other, "range", 0, 5)),
        event(EventKind.REBALANCE_COMPLETED),
        event(EventKind.GROUP_EMPTIED),
        event(EventKind.GROUP_UNLOADED),
    ]


@contextmanager
def log_file() -> Iterator[io.StringIO]:
    """What a handler with the broker's format writes for the loggers of this package."""
    out = io.StringIO()
    handler, logger = logging.StreamHandler(out), logging.getLogger("slackwater")
    handler.setFormatter(logging.Formatter(LINE))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield out
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def read(text: str) -> list[dict[str, Any]]:
    """The rows that the doctor reads, without those columns that the time and the position of a line decide."""
    rows = LogReader({}, "UTC").read("server.log", find_lines(text.encode())).to_pylist()
    ignored = ("time_ms", "position", "text", "file")
    return [{name: value for name, value in row.items() if value is not None and name not in ignored} for row in rows]


def replaced(value: Any, ids: dict[str, str]) -> Any:
    """A value of the plain rows with the other ids in place of the plain ones."""
    if isinstance(value, list):
        return [replaced(item, ids) for item in value]
    if not isinstance(value, str):
        return value
    for plain, other in ids.items():
        value = value.replace(plain, other)
    return value


def broker_log(*ids: str) -> str:
    log = get_logger("slackwater.broker.groups.coordinator_shell")
    with log_file() as out:
        for line in CoordinatorLogLines(1, 3).render(coordinator_events(*ids)):
            log.info(line)
    return out.getvalue()


def consumer_log(group: str, member: str, instance: str, other: str, reason: str) -> str:
    """The lines of a consumer with these ids."""

    def event(kind: EventKind, detail: Any) -> GroupEvent:
        return GroupEvent(
            time_ms=1,
            group=group,
            kind=kind,
            detail=detail,
            source=EventSource.MEMBER,
            member=member,
            client=other,
            generation=3,
        )

    join = JoinGroup(group, member, None, "consumer", join_protocols("range"), 1, 1)
    lines = LogLines(other, group, instance)
    with log_file() as out:
        lines.log_start({"group.id": group, "client.rack": other}, ["range"])
        lines.log_subscription([reason])
        lines.log_pattern_subscription(reason)
        lines.log_event(event(EventKind.COORDINATOR_FOUND, CoordinatorChanged(node="host:9092 (id: 1)")))
        lines.log_event(event(EventKind.JOIN_REQUESTED, JoinRequested(reason=reason)))
        lines.log_event(event(EventKind.PARTITIONS_ASSIGNED, PartitionsChanged((TopicPartition("t", 0),))))
        lines.log_event(event(EventKind.HEARTBEAT_REFUSED, RequestRefused("UNKNOWN_MEMBER_ID", 3)))
        lines.log_request(join, None)
        lines.log_request(join, JoinGroupResponse(Error.NONE, member_id=member, generation_id=3, protocol_name="range"))
        lines.log_request(LeaveGroup(group, (LeavingMember(member, None, reason),)), None)
        lines.log_close()
    return out.getvalue()


@pytest.mark.parametrize("log_of", [broker_log, consumer_log])
@given(ids=st.tuples(IDS, IDS, IDS, IDS, IDS))
@example(ids=("g\n1", "m\r\n2", "i\x1b[2J", "o\u2028\u202e", "r\\x0a\x0a"))
@example(ids=("\\x5c", "\\", "\\\\u000a", "\\u000A", "\\x"))
def test_doctor_reads_the_ids_that_were_logged(log_of: Any, ids: tuple[str, ...]) -> None:
    plain_log, log = log_of(*PLAIN), log_of(*ids)

    assert log.count("\n") == plain_log.count("\n")
    assert not set(log) & set(UNSAFE) - {"\n"}
    expected = [
        {name: replaced(value, dict(zip(PLAIN, ids, strict=True))) for name, value in row.items()}
        for row in read(plain_log)
    ]
    assert len(expected) >= 7
    assert read(log) == expected


def parts_of_lines() -> Iterator[str]:
    """Parts of the coordinator's lines about the group `victim`, up to different ends."""
    for template in COORDINATOR.templates:
        wording = re.sub(r"\[\[|\]\]", "", template.wording).replace("<group>", "victim").replace("<*>", "x")
        line = re.sub("<[a-z_]+>", "m", re.sub("<(old_generation|generation|members|static_members)>", "5", wording))
        if "victim" in line:
            start = line.index("victim")
            parts = {line, line[start:], line[start : line.rfind(" ")], line[start : line.rfind("(") + 1]}
            yield from parts - {"", "victim"}


@pytest.mark.parametrize("place", range(4))
def test_id_with_the_words_of_a_line_forges_no_event(place: int) -> None:
    ids = [(*PLAIN[:place], part, *PLAIN[place + 1 :]) for part in parts_of_lines()]
    assert len(ids) > 100
    rows = read("".join(broker_log(*row) for row in ids))

    assert len(rows) == len(ids) * len(read(broker_log(*PLAIN)))
    assert all(row.get("group") != "victim" for row in rows)


@pytest.mark.parametrize("log_of", [broker_log, consumer_log])
@pytest.mark.parametrize("place", range(len(PLAIN)))
@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_id_with_a_whole_log_line_forges_no_event(log_of: Any, place: int, line_break: str) -> None:
    ids = list(PLAIN)
    ids[place] = FORGED.replace("\n", line_break)
    log = log_of(*ids)

    assert len(log.splitlines()) == len(log_of(*PLAIN).splitlines())
    assert all(row.get("group") != "victim" for row in read(log))
