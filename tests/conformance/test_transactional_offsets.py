"""Section 14 of the catalogue: offsets in transactions."""

from collections.abc import Iterable

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import (
    DeleteGroups,
    FetchedOffset,
    GroupToFetch,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)

from .coordinator_harness import GROUP, CoordinatorHarness, Member

PRODUCER = 7
HOUR_MS = 3_600_000
RETENTION_MS = 10_080 * 60_000


def commit(
    harness: CoordinatorHarness,
    offset: int,
    *,
    producer_id: int = PRODUCER,
    member: Member | None = None,
    generation: int | None = None,
    member_id: str = "",
    instance_id: str | None = None,
    group_id: str = GROUP,
    partition: int = 0,
    metadata: str = "",
) -> Error:
    """Commit an offset in a transaction and return the error."""
    current = -1 if member is None else harness.generation
    request = TxnOffsetCommit(
        group_id,
        member_id if member is None else member.id,
        instance_id,
        current if generation is None else generation,
        (OffsetToCommit("t", partition, offset, -1, metadata),),
        producer_id,
        0,
    )
    (result,) = harness.send(request).response.partitions
    return result.error


def stable_fetch(harness: CoordinatorHarness, partitions: Iterable[int] | None = (0,)) -> tuple[FetchedOffset, ...]:
    asked = None if partitions is None else tuple(("t", partition) for partition in partitions)
    (group,) = harness.send(OffsetFetch((GroupToFetch(GROUP, asked),), require_stable=True)).response.groups
    return group.offsets


def unstable(partition: int = 0) -> FetchedOffset:
    return FetchedOffset("t", partition, error=Error.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.proves("TX-01")
@pytest.mark.parametrize("stage", ["empty", "initial", "completing", "stable"])
def test_client_without_ids_may_commit_in_any_state(harness: CoordinatorHarness, stage: str) -> None:
    if stage == "empty":
        harness.commit_simple(1)
    else:
        harness.group_in(stage, "a")
    assert commit(harness, 5) is Error.NONE
    harness.end_transaction(PRODUCER, commit=True)
    assert harness.offset() == 5


@pytest.mark.proves("TX-02")
def test_ids_are_checked_as_in_a_commit(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a", static=True)
    assert commit(harness, 5, member=a, generation=harness.generation + 1) is Error.ILLEGAL_GENERATION
    assert commit(harness, 5, member_id="other", generation=harness.generation) is Error.UNKNOWN_MEMBER_ID
    assert commit(harness, 5, generation=harness.generation) is Error.UNKNOWN_MEMBER_ID
    assert commit(harness, 5, member_id="other", instance_id=a.instance) is Error.FENCED_INSTANCE_ID
    assert commit(harness, 5, instance_id="other") is Error.UNKNOWN_MEMBER_ID
    assert commit(harness, 5, member=a) is Error.NONE
    assert commit(harness, 5, member=a, instance_id=a.instance) is Error.NONE


@pytest.mark.proves("TX-02")
def test_commit_in_completing_rebalance_is_no_heartbeat(harness: CoordinatorHarness) -> None:
    (a,) = harness.completing_group("a")
    assert harness.state.wire_name == "CompletingRebalance"
    assert commit(harness, 5, member=a) is Error.NONE
    a.sync()
    harness.advance_ms(a.session_timeout_ms - 1)
    assert commit(harness, 6, member=a) is Error.NONE
    harness.advance_ms(1)
    assert not harness.member_ids


@pytest.mark.proves("TX-03")
def test_unknown_group(harness: CoordinatorHarness) -> None:
    assert commit(harness, 5, generation=1, member_id="a") is Error.ILLEGAL_GENERATION
    assert commit(harness, 5, group_id="") is Error.INVALID_GROUP_ID
    assert dict(harness.coordinator.groups) == {}
    assert commit(harness, 5) is Error.NONE
    assert harness.state.wire_name == GroupState.EMPTY


@pytest.mark.proves("TX-04")
@pytest.mark.parametrize("restarts", [False, True])
def test_offset_is_visible_after_the_commit_marker(harness: CoordinatorHarness, restarts: bool) -> None:
    harness.commit_simple(1)
    commit(harness, 5)
    commit(harness, 6, producer_id=8, partition=1)
    if restarts:
        harness.restart()
    assert [harness.offset(partition=partition) for partition in (0, 1)] == [1, -1]
    assert stable_fetch(harness, (0, 1, 2)) == (unstable(0), unstable(1), FetchedOffset("t", 2))
    assert stable_fetch(harness, None) == (unstable(0),)
    harness.end_transaction(PRODUCER, commit=True)
    harness.end_transaction(8, commit=False)
    if restarts:
        harness.restart()
    assert [harness.offset(partition=partition) for partition in (0, 1)] == [5, -1]
    assert [offset.offset for offset in stable_fetch(harness, (0, 1))] == [5, -1]
    harness.end_transaction(PRODUCER, commit=True)  # a repeated marker
    assert harness.offset() == 5


@pytest.mark.proves("TX-05")
@pytest.mark.parametrize("restarts", [False, True])
def test_later_record_of_the_log_wins(harness: CoordinatorHarness, restarts: bool) -> None:
    commit(harness, 5)
    commit(harness, 6, producer_id=8)
    harness.commit_simple(7)
    commit(harness, 8, producer_id=9)
    if restarts:
        harness.restart()
    harness.end_transaction(PRODUCER, commit=True)
    assert harness.offset() == 7
    harness.end_transaction(9, commit=True)
    assert harness.offset() == 8
    assert stable_fetch(harness) == (unstable(),)
    harness.end_transaction(8, commit=True)
    assert harness.offset() == 8


@pytest.mark.proves("TX-05")
def test_later_transaction_wins_whatever_the_order_of_commits(harness: CoordinatorHarness) -> None:
    commit(harness, 5)
    commit(harness, 6, producer_id=8)
    harness.end_transaction(8, commit=True)
    harness.end_transaction(PRODUCER, commit=True)
    assert harness.offset() == 6


@pytest.mark.proves("TX-06")
@pytest.mark.parametrize("restarts", [False, True])
def test_deletion_includes_pending_offsets(harness: CoordinatorHarness, restarts: bool) -> None:
    commit(harness, 5)
    commit(harness, 6, partition=1)
    harness.send(OffsetDelete(GROUP, (("t", 0),)))
    if restarts:
        harness.restart()
    assert stable_fetch(harness, (0, 1)) == (FetchedOffset("t", 0), unstable(1))
    harness.end_transaction(PRODUCER, commit=True)
    assert [harness.offset(partition=partition) for partition in (0, 1)] == [-1, 6]


@pytest.mark.proves("TX-06")
def test_deleted_group_has_no_pending_offsets(harness: CoordinatorHarness) -> None:
    commit(harness, 5)
    assert harness.send(DeleteGroups((GROUP,))).response.groups[0].error is Error.NONE
    harness.end_transaction(PRODUCER, commit=True)
    assert dict(harness.coordinator.groups) == {}
    harness.restart()
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("TX-72")
def test_pending_offset_does_not_expire(harness: CoordinatorHarness) -> None:
    harness.commit_simple(1)
    commit(harness, 5)
    harness.advance_ms(RETENTION_MS + HOUR_MS)
    assert harness.offset() == 1
    assert stable_fetch(harness) == (unstable(),)
    harness.end_transaction(PRODUCER, commit=False)
    harness.advance_ms(HOUR_MS)
    assert dict(harness.coordinator.groups) == {}


@pytest.mark.proves("TX-72")
def test_pending_offset_keeps_a_group_without_offsets(harness: CoordinatorHarness) -> None:
    commit(harness, 5)
    harness.advance_ms(RETENTION_MS + HOUR_MS)
    harness.end_transaction(PRODUCER, commit=True)
    assert harness.offset() == 5


def test_failed_write_leaves_nothing_pending(harness: CoordinatorHarness) -> None:
    harness.fail_next_write(Error.INVALID_TXN_STATE)
    assert commit(harness, 5) is Error.INVALID_TXN_STATE
    assert dict(harness.coordinator.groups) == {}
    harness.end_transaction(PRODUCER, commit=True)
    assert commit(harness, 5, metadata="x" * 5_000) is Error.OFFSET_METADATA_TOO_LARGE


def test_append_names_the_transaction(harness: CoordinatorHarness) -> None:
    commit(harness, 5)
    transaction = harness.appended[-1].transaction
    assert transaction is not None
    assert (transaction.producer_id, transaction.producer_epoch) == (PRODUCER, 0)


def test_unloaded_partition_forgets_pending_offsets(harness: CoordinatorHarness) -> None:
    commit(harness, 5)
    harness.unload()
    assert commit(harness, 6) is Error.NOT_COORDINATOR
    harness.end_transaction(PRODUCER, commit=True)
    harness.leader_epoch += 1
    harness.load()
    assert harness.offset() == 5
