"""Offset commits and fetches: CL-33 … CL-39."""

import pytest

from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.events import EventKind, RequestRefused
from slackwater.group.member import (
    CommitDone,
    CommitFailed,
    FencedInstanceId,
    MemberState,
    OffsetAndMetadata,
    OffsetsFetched,
    OperationTimedOut,
    RebalanceInProgress,
    RetriableCommitFailed,
)
from slackwater.group.messages import (
    FetchedGroup,
    FetchedOffset,
    FindCoordinator,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetResult,
)

from .member_harness import COOPERATIVE, NODE, MemberHarness, at, commit_response, tps

RETRIABLE = [Error.COORDINATOR_LOAD_IN_PROGRESS, Error.UNKNOWN_TOPIC_OR_PARTITION]
COORDINATOR_MOVED = [Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.REQUEST_TIMED_OUT]


def commit(
    member: MemberHarness, partitions: str = "t-0", commit_id: int = 1, *, sync: bool = False, offset: int = 10
) -> MemberHarness:
    """Commit one offset for all partitions."""
    machine = member.machine
    return member.execute(machine.commit(at(partitions, offset), member.now_ms, commit_id=commit_id, sync=sync))


def completed(member: MemberHarness) -> list[tuple[int, type[BaseException] | None]]:
    """Return id and error type of the completed commits, in order."""
    return [(commit.commit_id, None if commit.error is None else type(commit.error)) for commit in member.commits]


# --- membership -------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-33")
def test_commit_of_former_member_fails() -> None:
    member = commit(MemberHarness().settle("t-0").heartbeat(Error.UNKNOWN_MEMBER_ID))
    assert completed(member) == [(1, CommitFailed)]
    assert not member.ever_sent(OffsetCommit)


@pytest.mark.proves("CL-33")
def test_commit_during_rebalance_is_retriable() -> None:
    preparing = MemberHarness(assignors=COOPERATIVE).settle("t-0").heartbeat(Error.REBALANCE_IN_PROGRESS).poll()
    completing = MemberHarness().find().join_ok(1)
    for member in (preparing, completing):
        assert completed(commit(member)) == [(1, RebalanceInProgress)]
        assert not member.ever_sent(OffsetCommit)


@pytest.mark.proves("CL-33")
def test_stable_member_commits_before_rejoin() -> None:
    member = commit(MemberHarness(group_instance_id="i1").settle("t-0").heartbeat(Error.REBALANCE_IN_PROGRESS))
    request = member.sent(OffsetCommit)
    assert (request.generation_id, request.member_id, request.group_instance_id) == (1, "m1", "i1")
    assert completed(member.respond(commit_response())) == [(1, None)]


@pytest.mark.proves("CL-34")
def test_manual_assignment_commits_without_membership() -> None:
    member = MemberHarness(subscribe=False, group_instance_id="i1")
    member.execute(member.machine.assign(tps("t-0"), member.now_ms))
    commit(member)
    assert member.sends(FindCoordinator), "the lookup starts with the first commit"
    member.respond(NODE)
    request = member.sent(OffsetCommit)
    assert (request.generation_id, request.member_id, request.group_instance_id) == (-1, "", None)
    assert completed(member.respond(commit_response())) == [(1, None)]
    member.poll().tick()
    assert not member.ever_sent(JoinGroup)


@pytest.mark.proves("CL-33")
def test_negative_offset_is_usage_error() -> None:
    with pytest.raises(UsageError, match="offset -1 of t-0 cannot be committed"):
        commit(MemberHarness().settle("t-0"), offset=-1)


# --- commit errors ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-35")
def test_commit_with_rebalance_in_progress_requests_rejoin() -> None:
    member = commit(MemberHarness().settle("t-0")).respond(commit_response(Error.REBALANCE_IN_PROGRESS))
    assert completed(member) == [(1, RebalanceInProgress)]
    assert member.state is MemberState.STABLE
    assert member.poll().sent(JoinGroup).reason == "offset commit failed since group is already rebalancing"


@pytest.mark.proves("CL-35")
@pytest.mark.parametrize(("error", "member_id"), [(Error.UNKNOWN_MEMBER_ID, ""), (Error.ILLEGAL_GENERATION, "m1")])
def test_commit_of_removed_member_resets_and_fails(error: Error, member_id: str) -> None:
    member = commit(MemberHarness().settle("t-0")).respond(commit_response(error))
    assert completed(member) == [(1, CommitFailed)]
    assert (member.machine.generation_id, member.machine.member_id) == (-1, member_id)
    (event,) = member.events_of(EventKind.COMMIT_REFUSED)
    assert event.detail == RequestRefused(error.name, 1)
    assert member.poll().sent(JoinGroup).reason == f"encountered {error.name} from OFFSET_COMMIT response"


@pytest.mark.proves("CL-35")
@pytest.mark.parametrize("error", [Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.FENCED_INSTANCE_ID])
def test_stale_commit_while_preparing_is_retriable(error: Error) -> None:
    member = commit(MemberHarness(assignors=COOPERATIVE, group_instance_id="i1").settle("t-0"))
    member.execute(member.machine.enforce_rebalance("", member.now_ms)).poll().join_ok(2).sync_ok("t-0").poll()
    member.execute(member.machine.enforce_rebalance("", member.now_ms)).poll()
    assert member.state is MemberState.PREPARING_REBALANCE
    member.respond(commit_response(error))
    assert completed(member) == [(1, RebalanceInProgress)]
    assert (member.machine.generation_id, member.machine.member_id) == (2, "m1")
    assert not member.poll().raised


@pytest.mark.proves("CL-35")
@pytest.mark.parametrize(
    ("error", "generation_id", "member_id"),
    [(Error.UNKNOWN_MEMBER_ID, -1, ""), (Error.ILLEGAL_GENERATION, -1, "m1"), (Error.FENCED_INSTANCE_ID, 2, "m1")],
)
def test_stale_commit_outside_preparing_fails(error: Error, generation_id: int, member_id: str) -> None:
    member = commit(MemberHarness(assignors=COOPERATIVE, group_instance_id="i1").settle("t-0"))
    member.execute(member.machine.enforce_rebalance("", member.now_ms)).poll().join_ok(2).sync_ok("t-0").poll()
    member.respond(commit_response(error))
    assert completed(member) == [(1, CommitFailed)]
    assert (member.machine.generation_id, member.machine.member_id) == (generation_id, member_id)
    assert not member.raised


@pytest.mark.proves("CL-35")
def test_fenced_commit_of_the_current_generation_is_fatal() -> None:
    member = commit(MemberHarness(group_instance_id="i1").settle("t-0")).respond(
        commit_response(Error.FENCED_INSTANCE_ID)
    )
    assert completed(member) == [(1, FencedInstanceId)]
    member.poll()
    assert isinstance(member.raised[0], FencedInstanceId)


@pytest.mark.proves("CL-35")
def test_fenced_sync_commit_fails_only_the_caller() -> None:
    member = commit(MemberHarness(group_instance_id="i1").settle("t-0"), sync=True).respond(
        commit_response(Error.FENCED_INSTANCE_ID)
    )
    assert completed(member) == [(1, FencedInstanceId)]
    assert not member.poll().raised


@pytest.mark.proves("CL-35")
@pytest.mark.parametrize(
    "error", [Error.GROUP_AUTHORIZATION_FAILED, Error.OFFSET_METADATA_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR]
)
def test_other_commit_errors_are_raised_unchanged(error: Error) -> None:
    member = commit(MemberHarness().settle("t-0")).respond(commit_response(error))
    (done,) = member.commits
    assert isinstance(done.error, BrokerError)
    assert done.error.error is error
    assert member.state is MemberState.STABLE


@pytest.mark.proves("CL-35")
def test_unauthorized_topics_are_collected() -> None:
    member = commit(MemberHarness().settle("t-0 t-1"), "t-0 t-1")
    member.respond(commit_response(Error.TOPIC_AUTHORIZATION_FAILED, Error.NONE))
    (done,) = member.commits
    assert isinstance(done.error, BrokerError)
    assert str(done.error) == "Not authorized to access topics: [t]"


# --- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-36")
@pytest.mark.parametrize("error", RETRIABLE)
def test_sync_commit_is_retried_after_retriable_error(error: Error) -> None:
    member = commit(MemberHarness().settle("t-0"), sync=True)
    for wait_ms in (100, 200, 400):
        member.respond(commit_response(error))
        assert member.coordinator() is not None
        member.advance_ms(wait_ms - 1).tick()
        assert not member.sends(OffsetCommit)
        member.advance_ms(1).tick()
    assert completed(member.respond(commit_response())) == [(1, None)]
    assert member.machine.metrics(member.now_ms)["commit-sync-time-ns-total"] == 700 * 1_000_000


@pytest.mark.proves("CL-36")
@pytest.mark.parametrize("error", COORDINATOR_MOVED)
def test_sync_commit_finds_new_coordinator(error: Error) -> None:
    member = commit(MemberHarness().settle("t-0"), sync=True).respond(commit_response(error))
    assert member.coordinator() is None
    member.tick().respond(NODE).advance_ms(100).tick()
    assert completed(member.respond(commit_response())) == [(1, None)]


@pytest.mark.proves("CL-36")
def test_sync_commit_without_response_is_retried() -> None:
    member = commit(MemberHarness().settle("t-0"), sync=True).fail(OffsetCommit)
    assert member.coordinator() is None
    member.tick().respond(FindCoordinatorResponse(Error.COORDINATOR_NOT_AVAILABLE)).advance_ms(100).tick()
    member.respond(NODE).tick()
    assert completed(member.respond(commit_response())) == [(1, None)]


@pytest.mark.proves("CL-36")
def test_sync_commit_fails_after_api_timeout() -> None:
    member = commit(MemberHarness(default_api_timeout_ms=10_000).settle("t-0"), sync=True)
    assert member.machine.next_due_ms() == member.now_ms + 3_000
    member.advance_ms(10_000).tick()
    assert completed(member) == [(1, OperationTimedOut)]
    member.respond(commit_response())
    assert len(member.commits) == 1


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("partition", ["missing-0", "t-99"])
def test_commit_for_unknown_partition_fails_at_once(partition: str, sync: bool) -> None:
    member = commit(MemberHarness().settle("t-0"), partition, sync=sync)
    topic, _, number = partition.partition("-")
    refused = OffsetResult(topic, int(number), Error.UNKNOWN_TOPIC_OR_PARTITION)
    member.respond(OffsetCommitResponse((refused,)))
    (done,) = member.commits
    assert str(done.error) == f"The offset of {partition} was not committed: it does not exist."
    assert len(member.ever_sent(OffsetCommit)) == 1


def test_commit_for_deleted_topic_fails_after_metadata_refresh() -> None:
    member = commit(MemberHarness().settle("t-0"), sync=True)
    member.respond(commit_response(Error.UNKNOWN_TOPIC_OR_PARTITION))
    member.execute(member.machine.on_metadata({}, member.now_ms)).advance_ms(100).tick()
    assert completed(member.respond(commit_response(Error.UNKNOWN_TOPIC_OR_PARTITION))) == [(1, BrokerError)]


@pytest.mark.proves("CL-36")
@pytest.mark.parametrize("error", RETRIABLE + COORDINATOR_MOVED)
def test_async_commit_is_not_retried(error: Error) -> None:
    member = commit(MemberHarness().settle("t-0")).respond(commit_response(error))
    assert completed(member) == [(1, RetriableCommitFailed)]
    assert (member.coordinator() is None) is (error in COORDINATOR_MOVED)
    member.advance_ms(1_000).tick()
    assert len(member.ever_sent(OffsetCommit)) == 1


@pytest.mark.proves("CL-36")
def test_async_commit_waits_for_one_coordinator_lookup() -> None:
    member = commit(MemberHarness().settle("t-0").heartbeat(Error.NOT_COORDINATOR))
    member.respond(NODE)
    assert completed(member.respond(commit_response())) == [(1, None)]
    member.heartbeat(Error.NOT_COORDINATOR)
    commit(member, commit_id=2).respond(FindCoordinatorResponse(Error.COORDINATOR_NOT_AVAILABLE))
    assert completed(member)[1:] == [(2, RetriableCommitFailed)]


@pytest.mark.proves("CL-36")
def test_waiting_commit_of_former_member_is_not_sent() -> None:
    member = MemberHarness().settle("t-0").advance_ms(3_000).tick()
    commit(member, sync=True).respond(commit_response(Error.COORDINATOR_LOAD_IN_PROGRESS))
    member.respond(HeartbeatResponse(Error.UNKNOWN_MEMBER_ID)).advance_ms(100).tick()
    assert completed(member) == [(1, CommitFailed)]
    assert len(member.ever_sent(OffsetCommit)) == 1


# --- auto-commit ------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-37")
def test_auto_commit_runs_in_poll_at_every_interval() -> None:
    member = MemberHarness(enable_auto_commit=True).settle("t-0")
    member.machine.set_consumed(at("t-0", 42))
    member.advance_ms(4_999).poll()
    assert not member.sends(OffsetCommit)
    member.advance_ms(1).tick()
    assert not member.sends(OffsetCommit), "the heartbeat thread does not commit"
    member.poll()
    assert [entry.offset for entry in member.sent(OffsetCommit).offsets] == [42]
    member.respond(commit_response())
    assert not member.commits, "an auto-commit has no caller to report to"
    assert member.machine.next_poll_ms() == member.now_ms + 5_000


@pytest.mark.proves("CL-37")
def test_auto_commit_is_retried_after_backoff() -> None:
    member = MemberHarness(enable_auto_commit=True).settle("t-0")
    member.machine.set_consumed(at("t-0"))
    member.advance_ms(5_000).poll().respond(commit_response(Error.COORDINATOR_LOAD_IN_PROGRESS))
    member.advance_ms(99).poll()
    assert not member.sends(OffsetCommit)
    member.advance_ms(1).poll()
    assert member.sends(OffsetCommit)
    member.respond(commit_response(Error.GROUP_AUTHORIZATION_FAILED))
    assert not member.poll().raised, "a failed auto-commit is not raised"


@pytest.mark.proves("CL-37")
def test_only_owned_partitions_are_auto_committed() -> None:
    member = MemberHarness(enable_auto_commit=True).settle("t-0")
    member.machine.set_consumed(at("t-0 t-3"))
    member.advance_ms(5_000).poll()
    assert [entry.partition for entry in member.sent(OffsetCommit).offsets] == [0]


@pytest.mark.proves("CL-37")
def test_manual_assignments_are_auto_committed() -> None:
    member = MemberHarness(subscribe=False, enable_auto_commit=True)
    member.execute(member.machine.assign(tps("t-0"), member.now_ms)).poll()
    member.machine.set_consumed(at("t-0"))
    member.advance_ms(5_000)
    member.execute(member.machine.assign(tps("t-1"), member.now_ms))
    member.respond(NODE)
    assert [entry.partition for entry in member.sent(OffsetCommit).offsets] == [0], (
        "the commit is sent before the partition is dropped"
    )
    assert member.owned() == tps("t-1")


@pytest.mark.proves("CL-37")
def test_close_commits_consumed_offsets_and_waits() -> None:
    member = MemberHarness(enable_auto_commit=True).settle("t-0")
    member.machine.set_consumed(at("t-0", 42))
    member.take_callbacks()
    member.execute(member.machine.close(member.now_ms))
    assert [entry.offset for entry in member.sent(OffsetCommit).offsets] == [42]
    assert not member.take_callbacks()
    member.respond(commit_response(Error.COORDINATOR_LOAD_IN_PROGRESS)).advance_ms(100).tick().respond(
        commit_response()
    )
    assert member.take_callbacks()
    assert member.sends(LeaveGroup)


@pytest.mark.proves("CL-37")
def test_close_waits_for_commit_until_timeout() -> None:
    member = MemberHarness(enable_auto_commit=True).settle("t-0")
    member.machine.set_consumed(at("t-0"))
    member.execute(member.machine.close(member.now_ms, timeout_ms=5_000))
    member.advance_ms(5_000).tick()
    assert member.closed()
    assert member.sends(LeaveGroup), "the leave request is sent without waiting for a response"


@pytest.mark.proves("CL-37")
def test_close_waits_for_pending_commits() -> None:
    member = commit(MemberHarness().settle("t-0"))
    member.execute(member.machine.close(member.now_ms))
    assert not member.sends(LeaveGroup)
    assert completed(member.respond(commit_response())) == [(1, None)]
    assert member.sends(LeaveGroup)


# --- order of commits -------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-38")
def test_async_commits_complete_in_order() -> None:
    member = MemberHarness(assignors=COOPERATIVE).settle("t-0")
    commit(commit(member, commit_id=1), commit_id=2)
    first, second = member.sends(OffsetCommit)
    member.execute(member.machine.on_response(second.request_id, commit_response(), member.now_ms))
    assert completed(member) == []
    member.execute(
        member.machine.on_response(first.request_id, commit_response(Error.OFFSET_METADATA_TOO_LARGE), member.now_ms)
    )
    assert completed(member) == [(1, BrokerError), (2, None)]


@pytest.mark.proves("CL-38")
@pytest.mark.parametrize("partitions", ["t-0", ""])
def test_sync_commit_waits_for_earlier_async_commits(partitions: str) -> None:
    member = commit(MemberHarness().settle("t-0"), commit_id=1)
    first = member.send_of(OffsetCommit)
    commit(member, partitions, commit_id=2, sync=True)
    for send in member.sends(OffsetCommit)[1:]:
        member.execute(member.machine.on_response(send.request_id, commit_response(), member.now_ms))
    assert completed(member) == []
    member.execute(member.machine.on_response(first.request_id, commit_response(), member.now_ms))
    assert completed(member) == [(1, None), (2, None)]


@pytest.mark.proves("CL-38")
def test_empty_commit_without_pending_commits_completes() -> None:
    member = commit(MemberHarness().settle("t-0"), "", sync=True)
    assert member.commits == [CommitDone(1)]


# --- offset fetch -----------------------------------------------------------------------------------------------------


def fetch_committed(member: MemberHarness, partitions: str = "t-0 t-1") -> MemberHarness:
    """Fetch committed offsets."""
    return member.execute(member.machine.fetch_committed(tps(partitions), member.now_ms, fetch_id=5))


def fetch_response(*offsets: FetchedOffset, error: Error = Error.NONE) -> OffsetFetchResponse:
    """Return the response to an offset fetch."""
    return OffsetFetchResponse((FetchedGroup("orders", error, offsets),))


@pytest.mark.proves("CL-39")
def test_offset_fetch_retries_unstable_offsets() -> None:
    member = fetch_committed(MemberHarness().settle("t-0"))
    request = member.sent(OffsetFetch)
    assert request.require_stable
    assert request.groups == (("orders", (("t", 0), ("t", 1))),)
    unstable = FetchedOffset("t", 1, error=Error.UNSTABLE_OFFSET_COMMIT)
    member.respond(fetch_response(FetchedOffset("t", 0, 7), unstable))
    assert not member.fetched
    member.advance_ms(100).tick()
    member.respond(fetch_response(FetchedOffset("t", 0, 7, 3, "note"), FetchedOffset("t", 1, -1)))
    offsets = {tps("t-0")[0]: OffsetAndMetadata(7, 3, "note"), tps("t-1")[0]: None}
    assert member.fetched == [OffsetsFetched(5, offsets)]
    assert member.machine.metrics(member.now_ms)["committed-time-ns-total"] == 100 * 1_000_000


@pytest.mark.proves("CL-39")
def test_offset_fetch_needs_no_membership() -> None:
    member = (
        fetch_committed(MemberHarness(subscribe=False)).respond(NODE).respond(fetch_response(FetchedOffset("t", 0, 7)))
    )
    assert member.fetched[0].offsets[tps("t-0")[0]] == OffsetAndMetadata(7)


@pytest.mark.proves("CL-39")
@pytest.mark.parametrize("error", [Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE])
def test_offset_fetch_from_wrong_node_finds_coordinator(error: Error) -> None:
    member = fetch_committed(MemberHarness().settle("t-0")).respond(fetch_response(error=error))
    assert member.coordinator() is None
    member.tick().respond(NODE).advance_ms(100).tick().respond(fetch_response())
    assert member.fetched[0].error is None


@pytest.mark.proves("CL-39")
def test_offset_fetch_is_retried_after_retriable_error() -> None:
    member = fetch_committed(MemberHarness().settle("t-0")).respond(
        fetch_response(error=Error.COORDINATOR_LOAD_IN_PROGRESS)
    )
    member.advance_ms(100).tick().respond(OffsetFetchResponse(()))
    member.advance_ms(200).tick().fail(OffsetFetch).tick().respond(NODE).advance_ms(400).tick()
    assert member.sends(OffsetFetch)


@pytest.mark.proves("CL-39")
@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        (
            fetch_response(error=Error.GROUP_AUTHORIZATION_FAILED),
            Error.GROUP_AUTHORIZATION_FAILED,
            "access group: orders",
        ),
        (fetch_response(error=Error.UNKNOWN_SERVER_ERROR), Error.UNKNOWN_SERVER_ERROR, "Unexpected error"),
        (
            fetch_response(FetchedOffset("t", 0, error=Error.UNKNOWN_TOPIC_OR_PARTITION)),
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            "t-0 does not exist",
        ),
        (
            fetch_response(FetchedOffset("t", 0, error=Error.TOPIC_AUTHORIZATION_FAILED)),
            Error.TOPIC_AUTHORIZATION_FAILED,
            r"access topics: \[t\]",
        ),
        (fetch_response(FetchedOffset("t", 0, error=Error.KAFKA_STORAGE_ERROR)), Error.KAFKA_STORAGE_ERROR, "for t-0"),
    ],
)
def test_offset_fetch_error_is_reported(response: OffsetFetchResponse, error: Error, message: str) -> None:
    (fetched,) = fetch_committed(MemberHarness().settle("t-0")).respond(response).fetched
    assert isinstance(fetched.error, BrokerError)
    assert fetched.error.error is error
    with pytest.raises(BrokerError, match=message):
        raise fetched.error


@pytest.mark.proves("CL-39")
def test_offset_fetch_timeout_and_empty_fetch() -> None:
    member = fetch_committed(MemberHarness(default_api_timeout_ms=10_000).settle("t-0")).advance_ms(10_000).tick()
    assert isinstance(member.fetched[0].error, OperationTimedOut)
    member.respond(fetch_response(FetchedOffset("t", 0, 7)))
    fetch_committed(member, "")
    assert member.fetched[1:] == [OffsetsFetched(5, {})]
