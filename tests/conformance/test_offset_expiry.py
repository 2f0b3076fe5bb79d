"""Section 6 of the catalogue: when committed offsets, and with them groups, are forgotten (EX)."""

import pytest

from slackwater.group.coordinator.records import (
    CommittedOffset,
    GroupMetadata,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupState, OffsetsRemoved
from slackwater.group.messages import JoinProtocol

from .room import GROUP, HOST, Room, offering, subscription

RETENTION_MS = 100_000
SWEEP_MS = 10_000
E = GroupState.EMPTY
S = GroupState.STABLE


@pytest.fixture
def room() -> Room:
    """A coordinator with a short memory."""
    return Room(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=SWEEP_MS)


def topics(room: Room) -> set[str]:
    """The topics in which the group has offsets."""
    return {fetched.topic for fetched in room.fetch()}


def to_next_sweep(room: Room, started_ms: int) -> None:
    """Let time pass to the next sweep after now."""
    room.pass_ms(SWEEP_MS - (room.now_ms - started_ms) % SWEEP_MS)


@pytest.mark.proves("EX-01")
def test_empty_group_retention_starts_when_empty(room: Room) -> None:
    started_ms = room.now_ms
    (a,) = room.settled("a")
    a.commit(5)
    room.pass_ms(90_000, beating=[a])
    to_next_sweep(room, started_ms)
    a.leave()
    emptied_ms = room.now_ms
    room.pass_ms(RETENTION_MS - 1)
    assert topics(room) == {"t"}, "the commit is older than the retention, the empty group is not"
    before = room.events.mark()
    room.pass_ms(1)

    assert room.now_ms - emptied_ms == RETENTION_MS
    assert GROUP not in room.coordinator.groups
    (expired,) = room.events.since(before, EventKind.OFFSETS_EXPIRED)
    assert (expired.group, expired.detail) == (GROUP, OffsetsRemoved(count=1))


@pytest.mark.proves("EX-01")
def test_commit_to_empty_group_does_not_extend_retention(room: Room) -> None:
    started_ms = room.now_ms
    (a,) = room.settled("a")
    a.commit(5)
    to_next_sweep(room, started_ms)
    a.leave()
    room.pass_ms(RETENTION_MS - SWEEP_MS)
    room.commit_simply(7)
    room.pass_ms(SWEEP_MS)

    assert GROUP not in room.coordinator.groups


@pytest.mark.proves("EX-01", "ST-02")
def test_retention_since_empty_is_counted_across_a_restart(room: Room) -> None:
    started_ms = room.now_ms
    (a,) = room.settled("a")
    a.commit(5)
    to_next_sweep(room, started_ms)
    a.leave()
    room.pass_ms(RETENTION_MS - SWEEP_MS)
    room.restart()
    room.pass_ms(SWEEP_MS)

    assert GROUP not in room.coordinator.groups


@pytest.mark.proves("EX-01")
def test_empty_group_without_timestamp_counts_from_commit(room: Room) -> None:
    now_ms = room.now_ms
    room.log = [
        GroupMetadata(GROUP, StoredGroup("consumer", 3, None, None, -1, ())),
        CommittedOffset(GROUP, "old", 0, StoredOffset(1, -1, "", now_ms - 95_000)),
        CommittedOffset(GROUP, "new", 0, StoredOffset(1, -1, "", now_ms)),
    ]
    room.restart()
    room.pass_ms(SWEEP_MS)
    assert topics(room) == {"new"}
    room.pass_ms(RETENTION_MS)

    assert GROUP not in room.coordinator.groups


@pytest.mark.proves("EX-02")
def test_stable_group_expires_unsubscribed_topics_only(room: Room) -> None:
    (a,) = room.settled("a", protocols=offering("range", topics=["t", "u"]))
    for topic in ("t", "u", "former"):
        a.commit(5, topic=topic)
    room.pass_ms(RETENTION_MS - SWEEP_MS, beating=[a])
    assert topics(room) == {"t", "u", "former"}
    before = room.events.mark()
    room.pass_ms(2 * SWEEP_MS, beating=[a])

    assert topics(room) == {"t", "u"}
    assert [event.detail for event in room.events.since(before, EventKind.OFFSETS_EXPIRED)] == [OffsetsRemoved(count=1)]
    tombstones = [record for record in room.log if isinstance(record, CommittedOffset) and record.value is None]
    assert tombstones == [CommittedOffset(GROUP, "former", 0, None)]


@pytest.mark.proves("EX-02")
def test_recent_commit_keeps_unsubscribed_topic(room: Room) -> None:
    (a,) = room.settled("a")
    for offset in range(5):
        a.commit(offset, topic="former")
        room.pass_ms(50_000, beating=[a])

    assert topics(room) == {"former"}


@pytest.mark.proves("EX-03")
@pytest.mark.parametrize("stage", ["preparing", "completing"])
def test_rebalancing_group_forgets_nothing(room: Room, stage: str) -> None:
    a, b = room.settled("a", "b", rebalance_timeout_ms=1_000_000)
    a.commit(5, topic="former")
    a.join()
    if stage == "completing":
        b.join()
    room.pass_ms(2 * RETENTION_MS, beating=[a, b])

    assert topics(room) == {"former"}
    assert room.state.value == ("PreparingRebalance" if stage == "preparing" else "CompletingRebalance")


@pytest.mark.proves("EX-03")
def test_live_group_of_another_type_forgets_nothing(room: Room) -> None:
    (a,) = room.settled("a", protocol_type="connect", protocols=(JoinProtocol("default", b"\x00"),))
    a.commit(5, topic="former")
    room.pass_ms(2 * RETENTION_MS, beating=[a])

    assert topics(room) == {"former"}


@pytest.mark.proves("EX-04")
def test_simple_groups_offsets_expire_by_their_commit_time(room: Room) -> None:
    room.commit_simply(1, topic="old")
    room.pass_ms(50_000)
    room.commit_simply(1, topic="new")
    room.pass_ms(50_000 - 1)
    assert topics(room) == {"old", "new"}
    room.pass_ms(1)
    assert topics(room) == {"new"}
    room.pass_ms(50_000)

    assert GROUP not in room.coordinator.groups


@pytest.mark.proves("EX-05")
def test_explicit_expiry_stamp_is_obeyed_to_the_millisecond(room: Room) -> None:
    room.log = [
        CommittedOffset(GROUP, "due", 0, StoredOffset(1, -1, "", room.now_ms, room.now_ms + SWEEP_MS)),
        CommittedOffset(GROUP, "later", 0, StoredOffset(1, -1, "", room.now_ms, room.now_ms + SWEEP_MS + 1)),
    ]
    room.restart()
    room.pass_ms(SWEEP_MS)

    assert topics(room) == {"later"}


@pytest.mark.proves("EX-07")
def test_group_without_members_and_offsets_is_deleted(room: Room) -> None:
    started_ms = room.now_ms
    (a,) = room.settled("a")
    a.leave()
    to_next_sweep(room, started_ms)

    assert GROUP not in room.coordinator.groups
    assert room.log[-1] == GroupMetadata(GROUP, None)
    (deleted,) = room.events.of(EventKind.GROUP_DELETED)
    assert (deleted.group, deleted.time_ms) == (GROUP, room.now_ms)


@pytest.mark.proves("EX-07")
def test_group_is_deleted_with_its_last_offset(room: Room) -> None:
    room.commit_simply(1)
    room.pass_ms(RETENTION_MS)

    assert GROUP not in room.coordinator.groups
    assert room.log[-2:] == [CommittedOffset(GROUP, "t", 0, None), GroupMetadata(GROUP, None)]


@pytest.mark.proves("EX-07")
def test_pending_member_does_not_keep_empty_group(room: Room) -> None:
    a = room.member("a", session_timeout_ms=600_000)
    a.ask_to_join()
    room.pass_ms(SWEEP_MS)

    assert GROUP not in room.coordinator.groups
    assert a.ask_to_join().answer.error is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("EX-07")
def test_group_with_members_is_kept_without_offsets(room: Room) -> None:
    (a,) = room.settled("a")
    room.pass_ms(5 * SWEEP_MS, beating=[a])

    assert (room.state, a.heartbeat()) == (S, Error.NONE)


@pytest.mark.proves("EX-07")
def test_failed_expiration_is_retried(room: Room) -> None:
    room.commit_simply(1)
    room.pass_ms(RETENTION_MS - 1)
    room.fail_next_write(Error.NOT_ENOUGH_REPLICAS)
    room.pass_ms(1)
    assert topics(room) == {"t"}
    assert room.state is E
    room.pass_ms(SWEEP_MS)

    assert GROUP not in room.coordinator.groups


@pytest.mark.proves("EX-07", "SE-02")
def test_failed_expiration_restores_no_expired_member(room: Room) -> None:
    a, b = room.settled("a", "b")
    room.hold_writes()
    room.pass_ms(60_000)
    room.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert [a.heartbeat(), b.heartbeat()] == [Error.UNKNOWN_MEMBER_ID] * 2
    room.pass_ms(600_000)
    assert GROUP not in room.coordinator.groups


@pytest.mark.proves("EX-09")
@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x01\x00\x09t"], ids=["none", "short", "cut"])
def test_unreadable_subscription_keeps_all_topics(room: Room, metadata: bytes) -> None:
    member = StoredMember("a", None, "a", HOST, 1_800_000, 60_000, metadata, b"")
    room.log = [
        GroupMetadata(GROUP, StoredGroup("consumer", 3, "range", "a", room.now_ms, (member,))),
        CommittedOffset(GROUP, "any", 0, StoredOffset(1, -1, "", room.now_ms)),
    ]
    room.restart()
    room.pass_ms(2 * RETENTION_MS)

    assert (room.state, topics(room)) == (S, {"any"})


@pytest.mark.proves("EX-09", "EX-02")
def test_newer_subscription_version_is_readable(room: Room) -> None:
    newer = b"\x00\x63" + subscription("t")[2:] + b"what version 99 adds"
    (a,) = room.settled("a", protocols=(JoinProtocol("range", newer),))
    a.commit(1)
    a.commit(1, topic="former")
    room.pass_ms(RETENTION_MS + SWEEP_MS, beating=[a])

    assert topics(room) == {"t"}


@pytest.mark.proves("EX-10")
def test_topic_deletion_removes_offsets_in_all_groups(room: Room) -> None:
    (a,) = room.settled("a")
    a.commit(1)
    a.commit(2, topic="gone")
    a.commit(3, topic="gone", partition=1)
    room.commit_simply(4, topic="gone", group_id="other")
    room.commit_simply(5, topic="stays", group_id="other")
    before = room.events.mark()
    room.do(room.coordinator.on_topics_deleted(["gone"], room.now_ms))

    assert [(fetched.topic, fetched.offset) for fetched in room.fetch()] == [("t", 1)]
    assert [(fetched.topic, fetched.offset) for fetched in room.fetch(group_id="other")] == [("stays", 5)]
    tombstones = {record for record in room.log if isinstance(record, CommittedOffset) and record.value is None}
    assert tombstones == {
        CommittedOffset(GROUP, "gone", 0, None),
        CommittedOffset(GROUP, "gone", 1, None),
        CommittedOffset("other", "gone", 0, None),
    }
    told = {(event.group, event.detail) for event in room.events.since(before, EventKind.OFFSETS_DELETED)}
    assert told == {(GROUP, OffsetsRemoved(count=2)), ("other", OffsetsRemoved(count=1))}


@pytest.mark.proves("EX-10")
def test_deleting_topic_without_offsets_writes_nothing(room: Room) -> None:
    room.commit_simply(1)
    written = len(room.appended)
    room.do(room.coordinator.on_topics_deleted(["elsewhere"], room.now_ms))

    assert len(room.appended) == written
    assert room.offset() == 1


def test_no_sweep_touches_a_shard_that_is_elsewhere(room: Room) -> None:
    room.commit_simply(1)
    room.unload(1)
    written = len(room.appended)
    room.pass_ms(3 * RETENTION_MS)

    assert len(room.appended) == written
