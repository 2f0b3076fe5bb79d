"""Section 6 of the catalogue: OffsetCommit."""

import pytest

from slackwater.group.coordinator.records import CommittedOffset, StoredOffset
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import (
    CommittedPartition,
    DeleteGroups,
    DescribeGroups,
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
)

from .room import GROUP, SESSION_MS, Room

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE

OFFSETS = (OffsetToCommit("t", 0, 10, 3, "half way"), OffsetToCommit("u", 7, 20))


def commit(
    room: Room, member_id: str, generation: int, instance: str | None = None, *, group_id: str | None = GROUP
) -> tuple[Error, ...]:
    """The errors of a commit of two partitions, which must be named back in order."""
    answer = room.ask(OffsetCommit(group_id, member_id, instance, generation, OFFSETS)).answer
    assert [(topic, partition) for topic, partition, _ in answer.partitions] == [("t", 0), ("u", 7)]
    return tuple(partition.error for partition in answer.partitions)


def both(error: Error) -> tuple[Error, ...]:
    """The same error on each of the two partitions (OC-11)."""
    return (error, error)


# --- without a group, or with an empty one ----------------------------------------------------------------------


@pytest.mark.proves("OC-01")
def test_commit_without_generation_creates_simple_group(room: Room) -> None:
    assert commit(room, "", -1) == both(Error.NONE)
    assert (room.state, room.group.protocol_type, room.generation) == (E, None, 0)
    assert room.fetch() == (
        FetchedOffset("t", 0, 10, 3, "half way", Error.NONE),
        FetchedOffset("u", 7, 20, -1, "", Error.NONE),
    )
    assert room.log == [
        CommittedOffset(GROUP, "t", 0, StoredOffset(10, 3, "half way", room.now_ms, None)),
        CommittedOffset(GROUP, "u", 7, StoredOffset(20, -1, "", room.now_ms, None)),
    ]


@pytest.mark.proves("OC-01")
@pytest.mark.parametrize("offsets", [(), (OffsetToCommit("t", 0, 1, -1, "x" * 4_097),)], ids=["none", "refused"])
def test_commit_with_no_acceptable_partition_creates_no_group(room: Room, offsets: tuple[OffsetToCommit, ...]) -> None:
    answer = room.ask(OffsetCommit(GROUP, "", None, -1, offsets)).answer

    assert answer == OffsetCommitResponse(
        tuple(CommittedPartition("t", 0, Error.OFFSET_METADATA_TOO_LARGE) for _ in offsets)
    )
    assert dict(room.coordinator.groups) == {}
    assert room.log == []


@pytest.mark.proves("OC-02", "OC-11")
@pytest.mark.parametrize(("reports", "error"), [(True, Error.GROUP_ID_NOT_FOUND), (False, Error.ILLEGAL_GENERATION)])
def test_commit_with_generation_to_missing_group_is_rejected(room: Room, reports: bool, error: Error) -> None:
    for generation in (0, 5):
        request = OffsetCommit(GROUP, "a", None, generation, OFFSETS, reports_missing_group=reports)
        assert room.ask(request).answer == OffsetCommitResponse(
            (CommittedPartition("t", 0, error), CommittedPartition("u", 7, error))
        )
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("OC-03")
@pytest.mark.parametrize(("member_id", "instance"), [("", None), ("whoever", None), ("whoever", "wherever")])
def test_empty_group_accepts_commit_without_generation(room: Room, member_id: str, instance: str | None) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert commit(room, member_id, -1, instance) == both(Error.NONE)
    assert (room.state, room.offset()) == (E, 10)


@pytest.mark.proves("OC-04")
def test_empty_group_refuses_a_commit_with_a_generation(room: Room) -> None:
    (a,) = room.settled("a")
    a.leave()

    assert commit(room, a.id, 1) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(room, a.id, 2) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(room, "", 2) == both(Error.UNKNOWN_MEMBER_ID)
    assert room.offset() == -1


# --- with members -----------------------------------------------------------------------------------------------


@pytest.mark.proves("OC-05")
@pytest.mark.parametrize("stage", ["initial", "completing", "stable", "preparing"])
def test_group_with_members_refuses_a_commit_from_outside(room: Room, stage: str) -> None:
    a, b = room.member("a"), room.member("b")
    a.join()
    b.join()
    if stage != "initial":
        room.end_initial_delay()
    if stage in ("stable", "preparing"):
        room.sync(a, b)
    if stage == "preparing":
        a.join()

    assert commit(room, "", -1) == both(Error.UNKNOWN_MEMBER_ID)
    assert room.fetch() == ()


@pytest.mark.proves("OC-06", "OC-11")
def test_commit_checks_instance_member_generation_in_order(room: Room) -> None:
    a, b = room.settled("a", "b", static=True)

    assert commit(room, b.id, 9, "a") == both(Error.FENCED_INSTANCE_ID)
    assert commit(room, b.id, 9, "nobody") == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(room, "stranger", 9) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(room, "", -1, "a") == both(Error.FENCED_INSTANCE_ID)
    assert commit(room, "", 1) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(room, a.id, 9, "a") == both(Error.ILLEGAL_GENERATION)
    assert commit(room, a.id, -1, "a") == both(Error.ILLEGAL_GENERATION)
    assert commit(room, a.id, 0, None) == both(Error.ILLEGAL_GENERATION)
    assert room.fetch() == ()


@pytest.mark.proves("OC-07")
def test_commit_while_completing_is_rejected(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()

    assert commit(room, a.id, 1) == both(Error.REBALANCE_IN_PROGRESS)
    assert commit(room, a.id, 9) == both(Error.ILLEGAL_GENERATION)
    assert room.fetch() == ()


@pytest.mark.proves("OC-07", "SE-01")
def test_commit_that_is_sent_back_does_not_extend_the_session(room: Room) -> None:
    a = room.member("a")
    a.join()
    room.end_initial_delay()
    room.pass_ms(SESSION_MS - 1)
    a.commit(1)
    room.pass_ms(1)

    assert room.state is E


@pytest.mark.proves("OC-08", "SE-01")
def test_commit_to_stable_group_extends_session(room: Room) -> None:
    (a,) = room.settled("a")
    for offset in range(5):
        room.pass_ms(SESSION_MS - 1)
        assert a.commit(offset).answer == OffsetCommitResponse((CommittedPartition("t", 0, Error.NONE),))
        assert room.offset() == offset

    assert (room.state, room.member_ids) == (S, {a.id})


@pytest.mark.proves("OC-08", "SE-01")
def test_commit_while_preparing_extends_session(room: Room) -> None:
    a, b = room.settled("a", "b")
    a.join()
    assert room.state is PR
    for offset in range(5):
        room.pass_ms(SESSION_MS - 1)
        assert b.commit(offset).answer == OffsetCommitResponse((CommittedPartition("t", 0, Error.NONE),))

    assert (room.state, room.member_ids, room.offset()) == (PR, {a.id, b.id}, 4)


@pytest.mark.proves("OC-08")
def test_offset_may_go_backwards(room: Room) -> None:
    (a,) = room.settled("a")
    a.commit(100)
    a.commit(7)

    assert room.offset() == 7


# --- metadata ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("OC-09")
def test_too_large_metadata_is_error_per_partition(room: Room) -> None:
    (a,) = room.settled("a")
    offsets = (
        OffsetToCommit("t", 0, 1, -1, "x" * 4_096),
        OffsetToCommit("t", 1, 2, -1, "x" * 4_097),
        OffsetToCommit("t", 2, 3, -1, None),
    )
    answer = room.ask(OffsetCommit(GROUP, a.id, None, 1, offsets)).answer

    assert answer == OffsetCommitResponse(
        (
            CommittedPartition("t", 0, Error.NONE),
            CommittedPartition("t", 1, Error.OFFSET_METADATA_TOO_LARGE),
            CommittedPartition("t", 2, Error.NONE),
        )
    )
    assert room.fetch() == (FetchedOffset("t", 0, 1, -1, "x" * 4_096), FetchedOffset("t", 2, 3, -1, ""))


@pytest.mark.proves("OC-09")
def test_metadata_limit_counts_characters_and_not_bytes(room: Room) -> None:
    (a,) = room.settled("a")
    offsets = (OffsetToCommit("t", 0, 1, -1, "ä" * 4_096), OffsetToCommit("t", 1, 1, -1, "ä" * 4_097))
    answer = room.ask(OffsetCommit(GROUP, a.id, None, 1, offsets)).answer

    assert [partition.error for partition in answer.partitions] == [Error.NONE, Error.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.proves("OC-09")
def test_wrong_generation_outranks_the_metadata_limit(room: Room) -> None:
    (a,) = room.settled("a")
    offsets = (OffsetToCommit("t", 0, 1, -1, "x" * 5_000),)
    answer = room.ask(OffsetCommit(GROUP, a.id, None, 9, offsets)).answer

    assert answer == OffsetCommitResponse((CommittedPartition("t", 0, Error.ILLEGAL_GENERATION),))


@pytest.mark.proves("OC-09")
def test_metadata_limit_is_a_setting() -> None:
    room = Room(offset_metadata_max_bytes=4)
    offsets = (OffsetToCommit("t", 0, 1, -1, "1234"), OffsetToCommit("t", 1, 1, -1, "12345"))
    answer = room.ask(OffsetCommit(GROUP, "", None, -1, offsets)).answer

    assert [partition.error for partition in answer.partitions] == [Error.NONE, Error.OFFSET_METADATA_TOO_LARGE]


# --- writing ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("OC-08", "OC-11")
@pytest.mark.parametrize(
    ("write", "answer"),
    [
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
    ],
)
def test_failed_commit_is_not_stored(room: Room, write: Error, answer: Error) -> None:
    (a,) = room.settled("a")
    a.commit(1)
    room.fail_next_write(write)

    assert commit(room, a.id, 1) == both(answer)
    assert room.fetch() == (FetchedOffset("t", 0, 1, -1, ""),)


def test_commit_is_visible_only_after_write(room: Room) -> None:
    (a,) = room.settled("a")
    a.commit(1)
    room.hold_writes()
    committing = a.commit(2)
    assert committing.parked
    assert room.offset() == 1
    room.release_writes()

    assert committing.answer == OffsetCommitResponse((CommittedPartition("t", 0, Error.NONE),))
    assert room.offset() == 2


def test_failed_first_commit_leaves_no_offsets(room: Room) -> None:
    room.fail_next_write(Error.REQUEST_TIMED_OUT)

    assert commit(room, "", -1) == both(Error.COORDINATOR_NOT_AVAILABLE)
    assert room.fetch() == ()
    assert dict(room.coordinator.groups) == {}


def test_concurrent_commits_get_one_response_each(room: Room) -> None:
    (a,) = room.settled("a")
    room.hold_writes()
    committing = [a.commit(offset) for offset in range(3)]
    room.release_writes()

    assert [call.answer.partitions[0].error for call in committing] == [Error.NONE] * 3
    assert room.offset() == 2


@pytest.mark.parametrize(("first", "second", "offset"), [(True, False, 1), (False, True, 2), (False, False, 0)])
def test_written_one_of_two_concurrent_commits_counts(room: Room, first: bool, second: bool, offset: int) -> None:
    room.commit_simply(0)
    outcomes = [Error.NONE if written else Error.NOT_ENOUGH_REPLICAS for written in (first, second)]
    room.hold_writes()
    committing = [room.commit_simply(1), room.commit_simply(2)]
    room.release_writes_one_by_one(outcomes)

    answers = [call.answer.partitions[0].error for call in committing]
    assert [error is Error.NONE for error in answers] == [first, second]
    assert room.offset() == offset
    room.restart()
    assert room.offset() == offset


def known_before_and_after_a_restart(room: Room) -> dict[str, dict[tuple[str, int], int]]:
    """The offsets of every group, which must be the same before and after a restart."""

    def known() -> dict[str, dict[tuple[str, int], int]]:
        return {
            group_id: {(fetched.topic, fetched.partition): fetched.offset for fetched in room.fetch(group_id=group_id)}
            for group_id in room.coordinator.groups
        }

    before = known()
    room.restart()
    assert known() == before
    return before


@pytest.mark.proves("AD-04")
def test_group_deleted_during_commit_stays_deleted(room: Room) -> None:
    room.commit_simply(1)
    room.hold_writes()
    room.commit_simply(2, partition=1)
    room.ask(DeleteGroups((GROUP,)))
    room.release_writes()

    assert known_before_and_after_a_restart(room) == {}


@pytest.mark.proves("AD-05")
def test_offset_deleted_during_commit_stays_deleted(room: Room) -> None:
    room.commit_simply(1)
    room.hold_writes()
    room.commit_simply(2, partition=1)
    room.ask(OffsetDelete(GROUP, (("t", 1),)))
    room.release_writes()

    assert known_before_and_after_a_restart(room) == {GROUP: {("t", 0): 1}}


@pytest.mark.proves("EX-10")
def test_topic_deleted_during_commit_leaves_no_offset(room: Room) -> None:
    room.commit_simply(1, topic="stays")
    room.hold_writes()
    room.commit_simply(2, topic="goes")
    room.do(room.coordinator.on_topics_deleted(["goes"], room.now_ms))
    room.release_writes()

    assert known_before_and_after_a_restart(room) == {GROUP: {("stays", 0): 1}}


@pytest.mark.proves("EX-04")
def test_expiration_skips_offset_with_pending_commit() -> None:
    room = Room(offsets_retention_ms=100_000, offsets_retention_check_interval_ms=10_000)
    room.commit_simply(1)
    room.pass_ms(99_999)
    room.hold_writes()
    committing = room.commit_simply(2)
    room.pass_ms(1)
    room.release_writes()

    assert committing.answer.partitions == (CommittedPartition("t", 0, Error.NONE),)
    assert known_before_and_after_a_restart(room) == {GROUP: {("t", 0): 2}}


@pytest.mark.proves("EX-07")
def test_expiration_skips_group_with_pending_first_commit() -> None:
    room = Room(offsets_retention_check_interval_ms=10_000)
    (a,) = room.settled("a")
    a.leave()
    room.hold_writes()
    committing = room.commit_simply(2)
    room.pass_ms(10_000)
    room.release_writes()

    assert committing.answer.partitions == (CommittedPartition("t", 0, Error.NONE),)
    assert known_before_and_after_a_restart(room) == {GROUP: {("t", 0): 2}}


# --- expiry stamps and group ids --------------------------------------------------------------------------------


@pytest.mark.proves("OC-13")
def test_retention_of_old_client_is_stored_as_expiry_time(room: Room) -> None:
    (a,) = room.settled("a")
    a.commit(5, retention_ms=90_000)

    assert room.log[-1] == CommittedOffset(GROUP, "t", 0, StoredOffset(5, -1, "", room.now_ms, room.now_ms + 90_000))


@pytest.mark.proves("OC-13", "EX-05")
def test_old_clients_retention_overrides_the_brokers() -> None:
    room = Room(offsets_retention_ms=1_000_000, offsets_retention_check_interval_ms=10_000)
    room.commit_simply(5, topic="brief", retention_ms=20_000)
    room.commit_simply(5, topic="long", retention_ms=5_000_000)
    room.commit_simply(5, topic="usual")
    room.pass_ms(20_000)
    assert {fetched.topic for fetched in room.fetch()} == {"long", "usual"}
    room.pass_ms(980_000)

    assert {fetched.topic for fetched in room.fetch()} == {"long"}


@pytest.mark.proves("OC-14")
def test_commit_without_group_id_is_error_per_partition(room: Room) -> None:
    assert commit(room, "", -1, group_id=None) == both(Error.INVALID_GROUP_ID)
    assert dict(room.coordinator.groups) == {}


@pytest.mark.proves("OC-14")
def test_empty_group_id_supports_commit_fetch_describe(room: Room) -> None:
    assert commit(room, "", -1, group_id="") == both(Error.NONE)
    assert room.offset(group_id="") == 10
    assert room.describe("").state == "Empty"


@pytest.mark.proves("OC-14")
def test_null_group_id_is_refused_by_fetch_and_describe(room: Room) -> None:
    fetched = room.ask(OffsetFetch((GroupToFetch(None, None),))).answer
    assert fetched.groups == (FetchedGroup(None, Error.INVALID_GROUP_ID),)
    (described,) = room.ask(DescribeGroups((None,))).answer.groups
    assert (described.group_id, described.error) == (None, Error.INVALID_GROUP_ID)
