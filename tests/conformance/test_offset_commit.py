"""Section 6 of the catalogue: OffsetCommit."""

import pytest

from slackwater.group.coordinator.records import CommittedOffset, StoredOffset
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import (
    DeleteGroups,
    DescribeGroups,
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetFetch,
    OffsetResult,
    OffsetToCommit,
)

from .coordinator_harness import GROUP, SESSION_MS, CoordinatorHarness

E = GroupState.EMPTY
PR = GroupState.PREPARING_REBALANCE
CR = GroupState.COMPLETING_REBALANCE
S = GroupState.STABLE

OFFSETS = (OffsetToCommit("t", 0, 10, 3, "half way"), OffsetToCommit("u", 7, 20))


def commit(
    harness: CoordinatorHarness,
    member_id: str,
    generation: int,
    instance: str | None = None,
    *,
    group_id: str | None = GROUP,
) -> tuple[Error, ...]:
    """Commit two partitions and return their errors, in the order of the request."""
    response = harness.send(OffsetCommit(group_id, member_id, instance, generation, OFFSETS)).response
    assert [(topic, partition) for topic, partition, _ in response.partitions] == [("t", 0), ("u", 7)]
    return tuple(partition.error for partition in response.partitions)


def both(error: Error) -> tuple[Error, ...]:
    """Return the same error for both partitions (OC-11)."""
    return (error, error)


# --- missing or empty group -------------------------------------------------------------------------------------------


@pytest.mark.proves("OC-01")
def test_commit_without_generation_creates_simple_group(harness: CoordinatorHarness) -> None:
    assert commit(harness, "", -1) == both(Error.NONE)
    assert (harness.state, harness.group.protocol_type, harness.generation) == (E, None, 0)
    assert harness.fetch() == (
        FetchedOffset("t", 0, 10, 3, "half way", Error.NONE),
        FetchedOffset("u", 7, 20, -1, "", Error.NONE),
    )
    assert harness.log == [
        CommittedOffset(GROUP, "t", 0, StoredOffset(10, 3, "half way", harness.now_ms, None)),
        CommittedOffset(GROUP, "u", 7, StoredOffset(20, -1, "", harness.now_ms, None)),
    ]


@pytest.mark.proves("OC-01")
@pytest.mark.parametrize("offsets", [(), (OffsetToCommit("t", 0, 1, -1, "x" * 4_097),)], ids=["none", "rejected"])
def test_commit_with_no_acceptable_partition_creates_no_group(
    harness: CoordinatorHarness, offsets: tuple[OffsetToCommit, ...]
) -> None:
    response = harness.send(OffsetCommit(GROUP, "", None, -1, offsets)).response

    assert response == OffsetCommitResponse(
        tuple(OffsetResult("t", 0, Error.OFFSET_METADATA_TOO_LARGE) for _ in offsets)
    )
    assert dict(harness.coordinator.groups) == {}
    assert harness.log == []


@pytest.mark.proves("OC-02", "OC-11")
@pytest.mark.parametrize(("reports", "error"), [(True, Error.GROUP_ID_NOT_FOUND), (False, Error.ILLEGAL_GENERATION)])
def test_commit_with_generation_to_missing_group_is_rejected(
    harness: CoordinatorHarness, reports: bool, error: Error
) -> None:
    for generation in (0, 5):
        request = OffsetCommit(GROUP, "a", None, generation, OFFSETS, reports_missing_group=reports)
        assert harness.send(request).response == OffsetCommitResponse(
            (OffsetResult("t", 0, error), OffsetResult("u", 7, error))
        )
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("OC-03")
@pytest.mark.parametrize(("member_id", "instance"), [("", None), ("any-member", None), ("any-member", "any-instance")])
def test_empty_group_accepts_commit_without_generation(
    harness: CoordinatorHarness, member_id: str, instance: str | None
) -> None:
    (a,) = harness.stable_group("a")
    a.leave()

    assert commit(harness, member_id, -1, instance) == both(Error.NONE)
    assert (harness.state, harness.offset()) == (E, 10)


@pytest.mark.proves("OC-04")
def test_empty_group_rejects_commit_with_generation(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.leave()

    assert commit(harness, a.id, 1) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(harness, a.id, 2) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(harness, "", 2) == both(Error.UNKNOWN_MEMBER_ID)
    assert harness.offset() == -1


# --- group with members -----------------------------------------------------------------------------------------------


@pytest.mark.proves("OC-05")
@pytest.mark.parametrize("stage", ["initial", "completing", "stable", "preparing"])
def test_group_with_members_rejects_commit_without_member(harness: CoordinatorHarness, stage: str) -> None:
    harness.group_in(stage, "a", "b")

    assert commit(harness, "", -1) == both(Error.UNKNOWN_MEMBER_ID)
    assert harness.fetch() == ()


@pytest.mark.proves("OC-06", "OC-11")
def test_commit_checks_instance_member_generation_in_order(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b", static=True)

    assert commit(harness, b.id, 9, "a") == both(Error.FENCED_INSTANCE_ID)
    assert commit(harness, b.id, 9, "unknown") == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(harness, "unknown", 9) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(harness, "", -1, "a") == both(Error.FENCED_INSTANCE_ID)
    assert commit(harness, "", 1) == both(Error.UNKNOWN_MEMBER_ID)
    assert commit(harness, a.id, 9, "a") == both(Error.ILLEGAL_GENERATION)
    assert commit(harness, a.id, -1, "a") == both(Error.ILLEGAL_GENERATION)
    assert commit(harness, a.id, 0, None) == both(Error.ILLEGAL_GENERATION)
    assert harness.fetch() == ()


@pytest.mark.proves("OC-07")
def test_commit_while_completing_is_rejected(harness: CoordinatorHarness) -> None:
    (a,) = harness.completing_group("a")

    assert commit(harness, a.id, 1) == both(Error.REBALANCE_IN_PROGRESS)
    assert commit(harness, a.id, 9) == both(Error.ILLEGAL_GENERATION)
    assert harness.fetch() == ()


@pytest.mark.proves("OC-07", "SE-01")
def test_rejected_commit_does_not_extend_session(harness: CoordinatorHarness) -> None:
    (a,) = harness.completing_group("a")
    harness.advance_ms(SESSION_MS - 1)
    a.commit(1)
    harness.advance_ms(1)

    assert harness.state is E


@pytest.mark.proves("OC-08", "SE-01")
def test_commit_to_stable_group_extends_session(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    for offset in range(5):
        harness.advance_ms(SESSION_MS - 1)
        assert a.commit(offset).response == OffsetCommitResponse((OffsetResult("t", 0, Error.NONE),))
        assert harness.offset() == offset

    assert (harness.state, harness.member_ids) == (S, {a.id})


@pytest.mark.proves("OC-08", "SE-01")
def test_commit_while_preparing_extends_session(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("a", "b")
    a.join()
    assert harness.state is PR
    for offset in range(5):
        harness.advance_ms(SESSION_MS - 1)
        assert b.commit(offset).response == OffsetCommitResponse((OffsetResult("t", 0, Error.NONE),))

    assert (harness.state, harness.member_ids, harness.offset()) == (PR, {a.id, b.id}, 4)


@pytest.mark.proves("OC-08")
def test_offset_can_decrease(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.commit(100)
    a.commit(7)

    assert harness.offset() == 7


# --- metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("OC-09")
def test_too_large_metadata_is_error_per_partition(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    offsets = (
        OffsetToCommit("t", 0, 1, -1, "x" * 4_096),
        OffsetToCommit("t", 1, 2, -1, "x" * 4_097),
        OffsetToCommit("t", 2, 3, -1, None),
    )
    response = harness.send(OffsetCommit(GROUP, a.id, None, 1, offsets)).response

    assert response == OffsetCommitResponse(
        (
            OffsetResult("t", 0, Error.NONE),
            OffsetResult("t", 1, Error.OFFSET_METADATA_TOO_LARGE),
            OffsetResult("t", 2, Error.NONE),
        )
    )
    assert harness.fetch() == (FetchedOffset("t", 0, 1, -1, "x" * 4_096), FetchedOffset("t", 2, 3, -1, ""))


@pytest.mark.proves("OC-09")
def test_metadata_limit_counts_characters(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    offsets = (OffsetToCommit("t", 0, 1, -1, "ä" * 4_096), OffsetToCommit("t", 1, 1, -1, "ä" * 4_097))
    response = harness.send(OffsetCommit(GROUP, a.id, None, 1, offsets)).response

    assert [partition.error for partition in response.partitions] == [Error.NONE, Error.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.proves("OC-09")
def test_generation_is_checked_before_metadata_limit(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    offsets = (OffsetToCommit("t", 0, 1, -1, "x" * 5_000),)
    response = harness.send(OffsetCommit(GROUP, a.id, None, 9, offsets)).response

    assert response == OffsetCommitResponse((OffsetResult("t", 0, Error.ILLEGAL_GENERATION),))


@pytest.mark.proves("OC-09")
def test_metadata_limit_is_a_setting() -> None:
    harness = CoordinatorHarness(offset_metadata_max_bytes=4)
    offsets = (OffsetToCommit("t", 0, 1, -1, "1234"), OffsetToCommit("t", 1, 1, -1, "12345"))
    response = harness.send(OffsetCommit(GROUP, "", None, -1, offsets)).response

    assert [partition.error for partition in response.partitions] == [Error.NONE, Error.OFFSET_METADATA_TOO_LARGE]


# --- writes -----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("OC-08", "OC-11")
@pytest.mark.parametrize(
    ("write", "response"),
    [
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
    ],
)
def test_failed_commit_is_not_stored(harness: CoordinatorHarness, write: Error, response: Error) -> None:
    (a,) = harness.stable_group("a")
    a.commit(1)
    harness.fail_next_write(write)

    assert commit(harness, a.id, 1) == both(response)
    assert harness.fetch() == (FetchedOffset("t", 0, 1, -1, ""),)


def test_commit_is_visible_only_after_write(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.commit(1)
    harness.hold_writes()
    commit_call = a.commit(2)
    assert commit_call.parked
    assert harness.offset() == 1
    harness.release_writes()

    assert commit_call.response == OffsetCommitResponse((OffsetResult("t", 0, Error.NONE),))
    assert harness.offset() == 2


def test_failed_first_commit_leaves_no_offsets(harness: CoordinatorHarness) -> None:
    harness.fail_next_write(Error.REQUEST_TIMED_OUT)

    assert commit(harness, "", -1) == both(Error.COORDINATOR_NOT_AVAILABLE)
    assert harness.fetch() == ()
    assert dict(harness.coordinator.groups) == {}


def test_concurrent_commits_get_one_response_each(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    harness.hold_writes()
    commit_calls = [a.commit(offset) for offset in range(3)]
    harness.release_writes()

    assert [call.response.partitions[0].error for call in commit_calls] == [Error.NONE] * 3
    assert harness.offset() == 2


@pytest.mark.parametrize(("first", "second", "offset"), [(True, False, 1), (False, True, 2), (False, False, 0)])
def test_failed_concurrent_commit_is_not_stored(
    harness: CoordinatorHarness, first: bool, second: bool, offset: int
) -> None:
    harness.commit_simple(0)
    outcomes = [Error.NONE if written else Error.NOT_ENOUGH_REPLICAS for written in (first, second)]
    harness.hold_writes()
    commit_calls = [harness.commit_simple(1), harness.commit_simple(2)]
    harness.release_writes_one_by_one(outcomes)

    responses = [call.response.partitions[0].error for call in commit_calls]
    assert [error is Error.NONE for error in responses] == [first, second]
    assert harness.offset() == offset
    harness.restart()
    assert harness.offset() == offset


def offsets_checked_by_restart(harness: CoordinatorHarness) -> dict[str, dict[tuple[str, int], int]]:
    """Return the offsets of every group; check that they are the same after a restart."""

    def offsets() -> dict[str, dict[tuple[str, int], int]]:
        return {
            group_id: {
                (fetched.topic, fetched.partition): fetched.offset for fetched in harness.fetch(group_id=group_id)
            }
            for group_id in harness.coordinator.groups
        }

    before = offsets()
    harness.restart()
    assert offsets() == before
    return before


@pytest.mark.proves("AD-04")
def test_group_deleted_during_commit_stays_deleted(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.hold_writes()
    harness.commit_simple(2, partition=1)
    harness.send(DeleteGroups((GROUP,)))
    harness.release_writes()

    assert offsets_checked_by_restart(harness) == {}


@pytest.mark.proves("AD-05")
def test_offset_deleted_during_commit_stays_deleted(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    harness.hold_writes()
    harness.commit_simple(2, partition=1)
    harness.send(OffsetDelete(GROUP, (("t", 1),)))
    harness.release_writes()

    assert offsets_checked_by_restart(harness) == {GROUP: {("t", 0): 1}}


@pytest.mark.proves("EX-10")
def test_topic_deleted_during_commit_leaves_no_offset(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1, topic="stays")
    harness.hold_writes()
    harness.commit_simple(2, topic="goes")
    harness.execute(harness.coordinator.on_topics_deleted(["goes"], harness.now_ms))
    harness.release_writes()

    assert offsets_checked_by_restart(harness) == {GROUP: {("stays", 0): 1}}


@pytest.mark.proves("EX-04")
def test_expiration_skips_offset_with_pending_commit() -> None:
    harness = CoordinatorHarness(offsets_retention_ms=100_000, offsets_retention_check_interval_ms=10_000)
    harness.commit_simple(1)
    harness.advance_ms(99_999)
    harness.hold_writes()
    commit_call = harness.commit_simple(2)
    harness.advance_ms(1)
    harness.release_writes()

    assert commit_call.response.partitions == (OffsetResult("t", 0, Error.NONE),)
    assert offsets_checked_by_restart(harness) == {GROUP: {("t", 0): 2}}


@pytest.mark.proves("EX-07")
def test_expiration_skips_group_with_pending_first_commit() -> None:
    harness = CoordinatorHarness(offsets_retention_check_interval_ms=10_000)
    (a,) = harness.stable_group("a")
    a.leave()
    harness.hold_writes()
    commit_call = harness.commit_simple(2)
    harness.advance_ms(10_000)
    harness.release_writes()

    assert commit_call.response.partitions == (OffsetResult("t", 0, Error.NONE),)
    assert offsets_checked_by_restart(harness) == {GROUP: {("t", 0): 2}}


# --- expiry times and group ids ---------------------------------------------------------------------------------------


@pytest.mark.proves("OC-13")
def test_retention_of_old_client_is_stored_as_expiry_time(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    a.commit(5, retention_ms=90_000)

    assert harness.log[-1] == CommittedOffset(
        GROUP, "t", 0, StoredOffset(5, -1, "", harness.now_ms, harness.now_ms + 90_000)
    )


@pytest.mark.proves("OC-13", "EX-05")
def test_retention_of_old_client_overrides_broker() -> None:
    harness = CoordinatorHarness(offsets_retention_ms=1_000_000, offsets_retention_check_interval_ms=10_000)
    harness.commit_simple(5, topic="brief", retention_ms=20_000)
    harness.commit_simple(5, topic="long", retention_ms=5_000_000)
    harness.commit_simple(5, topic="usual")
    harness.advance_ms(20_000)
    assert {fetched.topic for fetched in harness.fetch()} == {"long", "usual"}
    harness.advance_ms(980_000)

    assert {fetched.topic for fetched in harness.fetch()} == {"long"}


@pytest.mark.proves("OC-14")
def test_commit_without_group_id_is_error_per_partition(harness: CoordinatorHarness) -> None:
    assert commit(harness, "", -1, group_id=None) == both(Error.INVALID_GROUP_ID)
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("OC-14")
def test_empty_group_id_supports_commit_fetch_describe(harness: CoordinatorHarness) -> None:
    assert commit(harness, "", -1, group_id="") == both(Error.NONE)
    assert harness.offset(group_id="") == 10
    assert harness.describe("").state == "Empty"


@pytest.mark.proves("OC-14")
def test_null_group_id_is_rejected_by_fetch_and_describe(harness: CoordinatorHarness) -> None:
    fetched = harness.send(OffsetFetch((GroupToFetch(None, None),))).response
    assert fetched.groups == (FetchedGroup(None, Error.INVALID_GROUP_ID),)
    (described,) = harness.send(DescribeGroups((None,))).response.groups
    assert (described.group_id, described.error) == (None, Error.INVALID_GROUP_ID)
