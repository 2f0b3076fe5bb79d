"""Section 6 of the catalogue: expiration of offsets and groups (EX)."""

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

from .coordinator_harness import GROUP, HOST, CoordinatorHarness, join_protocols, subscription

RETENTION_MS = 100_000
CHECK_MS = 10_000
E = GroupState.EMPTY
S = GroupState.STABLE


@pytest.fixture
def harness() -> CoordinatorHarness:
    """A coordinator with a short retention time."""
    return CoordinatorHarness(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)


def topics(harness: CoordinatorHarness) -> set[str]:
    """Return the topics for which the group has offsets."""
    return {fetched.topic for fetched in harness.fetch()}


def advance_to_next_check(harness: CoordinatorHarness, started_ms: int) -> None:
    """Advance time to the next retention check."""
    harness.advance_ms(CHECK_MS - (harness.now_ms - started_ms) % CHECK_MS)


@pytest.mark.proves("EX-01")
def test_empty_group_retention_starts_when_empty(harness: CoordinatorHarness) -> None:
    started_ms = harness.now_ms
    (a,) = harness.stable_group("a")
    a.commit(5)
    harness.advance_ms(90_000, heartbeating=[a])
    advance_to_next_check(harness, started_ms)
    a.leave()
    emptied_ms = harness.now_ms
    harness.advance_ms(RETENTION_MS - 1)
    assert topics(harness) == {"t"}, "the retention time starts when the group becomes empty"
    before = harness.events.mark()
    harness.advance_ms(1)

    assert harness.now_ms - emptied_ms == RETENTION_MS
    assert GROUP not in harness.coordinator.groups
    (expired,) = harness.events.since(before, EventKind.OFFSETS_EXPIRED)
    assert (expired.group, expired.detail) == (GROUP, OffsetsRemoved(count=1))


@pytest.mark.proves("EX-01")
def test_commit_to_empty_group_does_not_extend_retention(harness: CoordinatorHarness) -> None:
    started_ms = harness.now_ms
    (a,) = harness.stable_group("a")
    a.commit(5)
    advance_to_next_check(harness, started_ms)
    a.leave()
    harness.advance_ms(RETENTION_MS - CHECK_MS)
    harness.commit_simple(7)
    harness.advance_ms(CHECK_MS)

    assert GROUP not in harness.coordinator.groups


@pytest.mark.proves("EX-01", "ST-02")
def test_retention_of_empty_group_survives_restart(harness: CoordinatorHarness) -> None:
    started_ms = harness.now_ms
    (a,) = harness.stable_group("a")
    a.commit(5)
    advance_to_next_check(harness, started_ms)
    a.leave()
    harness.advance_ms(RETENTION_MS - CHECK_MS)
    harness.restart()
    harness.advance_ms(CHECK_MS)

    assert GROUP not in harness.coordinator.groups


@pytest.mark.proves("EX-01")
def test_empty_group_without_timestamp_counts_from_commit(harness: CoordinatorHarness) -> None:
    now_ms = harness.now_ms
    harness.log = [
        GroupMetadata(GROUP, StoredGroup("consumer", 3, None, None, -1, ())),
        CommittedOffset(GROUP, "old", 0, StoredOffset(1, -1, "", now_ms - 95_000)),
        CommittedOffset(GROUP, "new", 0, StoredOffset(1, -1, "", now_ms)),
    ]
    harness.restart()
    harness.advance_ms(CHECK_MS)
    assert topics(harness) == {"new"}
    harness.advance_ms(RETENTION_MS)

    assert GROUP not in harness.coordinator.groups


@pytest.mark.proves("EX-02")
def test_stable_group_expires_unsubscribed_topics_only(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", protocols=join_protocols("range", topics=["t", "u"]))
    for topic in ("t", "u", "former"):
        a.commit(5, topic=topic)
    harness.advance_ms(RETENTION_MS - CHECK_MS, heartbeating=[a])
    assert topics(harness) == {"t", "u", "former"}
    before = harness.events.mark()
    harness.advance_ms(2 * CHECK_MS, heartbeating=[a])

    assert topics(harness) == {"t", "u"}
    assert [event.detail for event in harness.events.since(before, EventKind.OFFSETS_EXPIRED)] == [
        OffsetsRemoved(count=1)
    ]
    tombstones = [record for record in harness.log if isinstance(record, CommittedOffset) and record.value is None]
    assert tombstones == [CommittedOffset(GROUP, "former", 0, None)]


@pytest.mark.proves("EX-02")
def test_recent_commit_keeps_unsubscribed_topic(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    for offset in range(5):
        a.commit(offset, topic="former")
        harness.advance_ms(50_000, heartbeating=[a])

    assert topics(harness) == {"former"}


@pytest.mark.proves("EX-03")
@pytest.mark.parametrize("stage", ["preparing", "completing"])
def test_rebalancing_group_expires_no_offsets(harness: CoordinatorHarness, stage: str) -> None:
    a, b = harness.stable_group("a", "b", rebalance_timeout_ms=1_000_000)
    a.commit(5, topic="former")
    a.join()
    if stage == "completing":
        b.join()
    harness.advance_ms(2 * RETENTION_MS, heartbeating=[a, b])

    assert topics(harness) == {"former"}
    assert harness.state.value == ("PreparingRebalance" if stage == "preparing" else "CompletingRebalance")


@pytest.mark.proves("EX-03")
def test_live_group_of_other_type_expires_no_offsets(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", protocol_type="connect", protocols=(JoinProtocol("default", b"\x00"),))
    a.commit(5, topic="former")
    harness.advance_ms(2 * RETENTION_MS, heartbeating=[a])

    assert topics(harness) == {"former"}


@pytest.mark.proves("EX-04")
def test_offsets_of_simple_group_expire_by_commit_time(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1, topic="old")
    harness.advance_ms(50_000)
    harness.commit_simple(1, topic="new")
    harness.advance_ms(50_000 - 1)
    assert topics(harness) == {"old", "new"}
    harness.advance_ms(1)
    assert topics(harness) == {"new"}
    harness.advance_ms(50_000)

    assert GROUP not in harness.coordinator.groups


@pytest.mark.proves("EX-05")
def test_explicit_expiry_time_is_exact(harness: CoordinatorHarness) -> None:
    harness.log = [
        CommittedOffset(GROUP, "due", 0, StoredOffset(1, -1, "", harness.now_ms, harness.now_ms + CHECK_MS)),
        CommittedOffset(GROUP, "later", 0, StoredOffset(1, -1, "", harness.now_ms, harness.now_ms + CHECK_MS + 1)),
    ]
    harness.restart()
    harness.advance_ms(CHECK_MS)

    assert topics(harness) == {"later"}


@pytest.mark.proves("EX-07")
def test_group_without_members_and_offsets_is_deleted(harness: CoordinatorHarness) -> None:
    started_ms = harness.now_ms
    (a,) = harness.stable_group("a")
    a.leave()
    advance_to_next_check(harness, started_ms)

    assert GROUP not in harness.coordinator.groups
    assert harness.log[-1] == GroupMetadata(GROUP, None)
    (deleted,) = harness.events.of(EventKind.GROUP_DELETED)
    assert (deleted.group, deleted.time_ms) == (GROUP, harness.now_ms)


@pytest.mark.proves("EX-07")
def test_group_is_deleted_with_its_last_offset(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.advance_ms(RETENTION_MS)

    assert GROUP not in harness.coordinator.groups
    assert harness.log[-2:] == [CommittedOffset(GROUP, "t", 0, None), GroupMetadata(GROUP, None)]


@pytest.mark.proves("EX-07")
def test_pending_member_does_not_keep_empty_group(harness: CoordinatorHarness) -> None:
    a = harness.member("a", session_timeout_ms=600_000)
    a.send_join()
    harness.advance_ms(CHECK_MS)

    assert GROUP not in harness.coordinator.groups
    assert a.send_join().response.error is Error.UNKNOWN_MEMBER_ID


@pytest.mark.proves("EX-07")
def test_group_with_members_is_kept_without_offsets(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    harness.advance_ms(5 * CHECK_MS, heartbeating=[a])

    assert (harness.state, a.heartbeat()) == (S, Error.NONE)


@pytest.mark.proves("EX-07")
def test_failed_expiration_is_retried(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.advance_ms(RETENTION_MS - 1)
    harness.fail_next_write(Error.NOT_ENOUGH_REPLICAS)
    harness.advance_ms(1)
    assert topics(harness) == {"t"}
    assert harness.state is E
    harness.advance_ms(CHECK_MS)

    assert GROUP not in harness.coordinator.groups


@pytest.mark.proves("EX-07", "SE-02")
def test_failed_expiration_restores_no_expired_member(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    harness.hold_writes()
    harness.advance_ms(60_000)
    harness.release_writes(Error.NOT_ENOUGH_REPLICAS)

    assert [a.heartbeat(), b.heartbeat()] == [Error.UNKNOWN_MEMBER_ID] * 2
    harness.advance_ms(600_000)
    assert GROUP not in harness.coordinator.groups


@pytest.mark.proves("EX-09")
@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x01\x00\x09t"], ids=["none", "short", "cut"])
def test_unreadable_subscription_keeps_all_topics(harness: CoordinatorHarness, metadata: bytes) -> None:
    member = StoredMember("a", None, "a", HOST, 1_800_000, 60_000, metadata, b"")
    harness.log = [
        GroupMetadata(GROUP, StoredGroup("consumer", 3, "range", "a", harness.now_ms, (member,))),
        CommittedOffset(GROUP, "any", 0, StoredOffset(1, -1, "", harness.now_ms)),
    ]
    harness.restart()
    harness.advance_ms(2 * RETENTION_MS)

    assert (harness.state, topics(harness)) == (S, {"any"})


@pytest.mark.proves("EX-09", "EX-02")
def test_newer_subscription_version_is_readable(harness: CoordinatorHarness) -> None:
    newer = b"\x00\x63" + subscription("t")[2:] + b"fields of version 99"
    (a,) = harness.stable_group("a", protocols=(JoinProtocol("range", newer),))
    a.commit(1)
    a.commit(1, topic="former")
    harness.advance_ms(RETENTION_MS + CHECK_MS, heartbeating=[a])

    assert topics(harness) == {"t"}


@pytest.mark.proves("EX-10")
def test_topic_deletion_removes_offsets_in_all_groups(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.commit(1)
    a.commit(2, topic="deleted")
    a.commit(3, topic="deleted", partition=1)
    harness.commit_simple(4, topic="deleted", group_id="other")
    harness.commit_simple(5, topic="stays", group_id="other")
    before = harness.events.mark()
    harness.execute(harness.coordinator.on_topics_deleted(["deleted"], harness.now_ms))

    assert [(fetched.topic, fetched.offset) for fetched in harness.fetch()] == [("t", 1)]
    assert [(fetched.topic, fetched.offset) for fetched in harness.fetch(group_id="other")] == [("stays", 5)]
    tombstones = {record for record in harness.log if isinstance(record, CommittedOffset) and record.value is None}
    assert tombstones == {
        CommittedOffset(GROUP, "deleted", 0, None),
        CommittedOffset(GROUP, "deleted", 1, None),
        CommittedOffset("other", "deleted", 0, None),
    }
    removed = {(event.group, event.detail) for event in harness.events.since(before, EventKind.OFFSETS_DELETED)}
    assert removed == {(GROUP, OffsetsRemoved(count=2)), ("other", OffsetsRemoved(count=1))}


@pytest.mark.proves("EX-10")
def test_deleting_topic_without_offsets_writes_nothing(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    written = len(harness.appended)
    harness.execute(harness.coordinator.on_topics_deleted(["elsewhere"], harness.now_ms))

    assert len(harness.appended) == written
    assert harness.offset() == 1


def test_unloaded_partition_expires_no_offsets(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.unload(1)
    written = len(harness.appended)
    harness.advance_ms(3 * RETENTION_MS)

    assert len(harness.appended) == written
