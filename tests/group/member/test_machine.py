"""The member's public interface: incorrect calls, unexpected responses, properties and close."""

from collections.abc import Callable
from typing import Any

import pytest

from slackwater.group.assignors import RangeAssignor, TopicInfo
from slackwater.group.assignors.consumer_protocol import Assignment, encode_assignment
from slackwater.group.errors import Error, UsageError
from slackwater.group.events import CoordinatorChanged, EventKind, PollOverrun, PublishEvent, Trigger
from slackwater.group.member import (
    CommitDone,
    CommitFailed,
    GroupMember,
    MemberConfig,
    MemberEffect,
    MemberState,
    NotifyListener,
    OffsetAndMetadata,
    OffsetsFetched,
    OperationTimedOut,
    RebalanceDriver,
    RefreshMetadata,
    Send,
)
from slackwater.group.messages import (
    FindCoordinator,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetResult,
    SyncGroupResponse,
)
from slackwater.group.topic_partition import TopicPartition

T0 = TopicPartition("t", 0)
NODE = FindCoordinatorResponse(Error.NONE, 1, "h", 9092)
CLUSTER = {"t": TopicInfo(2)}
START_MS = 50_000


def new_member(**settings: Any) -> GroupMember:
    """Return a member without auto-commit."""
    defaults: dict[str, Any] = {
        "group_id": "g",
        "client_id": "c",
        "enable_auto_commit": False,
        "assignors": (RangeAssignor(),),
    }
    return GroupMember(MemberConfig(**(defaults | settings)))


def id_of(effects: list[MemberEffect]) -> int:
    """Return the id of the only request."""
    (send,) = [effect for effect in effects if isinstance(effect, Send)]
    return send.request_id


def stable_member(**settings: Any) -> GroupMember:
    """Return a stable member that owns t-0."""
    member = new_member(**settings)
    member.subscribe(["t"], START_MS)
    member.on_metadata(CLUSTER, START_MS)
    member.on_response(id_of(member.poll(START_MS)), NODE, START_MS)
    join = id_of(member.poll(START_MS))
    sync = id_of(
        member.on_response(join, JoinGroupResponse(Error.NONE, "m", 1, "consumer", "range", "other"), START_MS + 40)
    )
    assignment = encode_assignment(Assignment((T0,)))
    member.on_response(sync, SyncGroupResponse(Error.NONE, "consumer", "range", assignment), START_MS + 70)
    assert any(isinstance(effect, NotifyListener) for effect in member.poll(START_MS + 100))
    member.on_listener_done(START_MS + 125)
    assert member.state is MemberState.STABLE
    return member


def test_lost_connection_triggers_lookup_and_keeps_membership() -> None:
    member = stable_member()
    node = member.coordinator
    assert node is not None
    other_node = node._replace(port=node.port + 1)
    assert not any(isinstance(effect, PublishEvent) for effect in member.on_disconnected(other_node, START_MS + 130))
    (lost,) = [
        effect.event for effect in member.on_disconnected(node, START_MS + 130) if isinstance(effect, PublishEvent)
    ]
    assert (lost.kind, lost.detail) == (
        EventKind.COORDINATOR_LOST,
        CoordinatorChanged(str(node), "coordinator unavailable"),
    )
    (lookup,) = [effect for effect in member.tick(START_MS + 130) if isinstance(effect, Send)]
    assert isinstance(lookup.request, FindCoordinator)
    member.on_response(lookup.request_id, NODE, START_MS + 140)
    assert (member.state, member.generation_id, member.coordinator) == (MemberState.STABLE, 1, node)


def test_disconnect_after_close_is_ignored() -> None:
    member = stable_member(leave_group_on_close=False)
    node = member.coordinator
    assert node is not None
    member.close(START_MS)
    member.on_listener_done(START_MS)
    assert member.is_closed
    assert member.on_disconnected(node, START_MS) == []


# --- incorrect calls-------------------------------------------------------------------------------------------------


def test_mixing_subscription_types_raises_usage_error() -> None:
    member = stable_member()
    with pytest.raises(UsageError, match="exclude each other"):
        member.subscribe_pattern("t.*", START_MS)
    with pytest.raises(UsageError, match="exclude each other"):
        member.assign([T0], START_MS)
    assert member.owned == {T0}


def test_closed_member_rejects_calls() -> None:
    member = new_member()
    member.close(START_MS)
    assert member.is_closed
    calls: list[Callable[[], object]] = [
        lambda: member.subscribe(["t"], START_MS),
        lambda: member.assign([T0], START_MS),
        lambda: member.commit({}, START_MS),
        lambda: member.fetch_committed([T0], START_MS),
        lambda: member.enforce_rebalance("", START_MS),
        lambda: member.unsubscribe(START_MS),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="has already been closed"):
            call()


def test_subscribe_while_leaving_raises_usage_error() -> None:
    member = stable_member()
    assert any(isinstance(effect, NotifyListener) for effect in member.unsubscribe(START_MS))
    with pytest.raises(UsageError, match="still leaving its group"):
        member.subscribe(["u"], START_MS)
    member.on_listener_done(START_MS)
    assert member.subscribe(["u"], START_MS) == [RefreshMetadata(("u",))]


@pytest.mark.parametrize("method", ["subscribe", "assign"])
def test_empty_subscription_unsubscribes(method: str) -> None:
    member = stable_member()
    getattr(member, method)([], START_MS)
    effects = member.on_listener_done(START_MS)
    assert isinstance(next(effect for effect in effects if isinstance(effect, Send)).request, LeaveGroup)


# --- unexpected responses --------------------------------------------------------------------------------------------


def test_unexpected_responses_are_ignored() -> None:
    member = stable_member()
    assert member.on_response(999, HeartbeatResponse(Error.UNKNOWN_MEMBER_ID), START_MS) == []
    assert member.on_request_failed(999, START_MS) == []
    assert member.on_listener_done(START_MS) == []
    assert member.state is MemberState.STABLE


def test_wrong_response_type_counts_as_no_response() -> None:
    member = stable_member()
    heartbeat = id_of(member.tick(START_MS + 10_000))
    member.on_response(heartbeat, OffsetFetchResponse(()), START_MS + 10_000)
    assert member.coordinator is None
    assert member.state is MemberState.STABLE


def test_leave_without_response_loses_coordinator() -> None:
    member = stable_member()
    member.unsubscribe(START_MS)
    member.on_request_failed(id_of(member.on_listener_done(START_MS)), START_MS)
    assert member.coordinator is None


def test_leave_on_poll_timeout_allows_resubscribe() -> None:
    member = stable_member(max_poll_interval_ms=3_000)
    effects = member.leave_on_poll_timeout(500, START_MS)
    event = next(effect.event for effect in effects if isinstance(effect, PublishEvent))
    assert (event.kind, event.trigger, event.detail) == (
        EventKind.POLL_OVERRUN,
        Trigger.POLL_TIMEOUT,
        PollOverrun(3_000, 500),
    )
    leave = next(effect for effect in member.on_listener_done(START_MS) if isinstance(effect, Send)).request
    assert isinstance(leave, LeaveGroup)
    assert leave.members[0].reason == "consumer poll timeout has expired."
    member.subscribe(["t"], START_MS)
    assert member.needs_rejoin


# --- properties ------------------------------------------------------------------------------------------------------


def test_properties_of_a_stable_member() -> None:
    member = stable_member()
    assert (member.generation_id, member.member_id, member.protocol_name) == (1, "m", "range")
    assert member.subscription == member.metadata_topics == frozenset({"t"})
    assert member.owned == member.fetchable == frozenset({T0})
    assert not member.is_leader
    assert not member.is_notifying_listener
    assert member.config.group_id == "g"
    assert member.next_due_ms() == START_MS + 3_040
    assert member.next_poll_ms() is None


def test_metrics_of_a_rebalance() -> None:
    member = stable_member()
    heartbeat = id_of(member.tick(START_MS + 4_000))
    member.on_response(heartbeat, HeartbeatResponse(Error.NONE), START_MS + 4_020)
    member.poll(START_MS + 5_100)
    member.poll(START_MS + 5_200, is_repeated=True)
    member.poll_returned(START_MS + 5_300)
    values = member.metrics(START_MS + 7_000)
    assert (values["join-time-max"], values["sync-time-max"], values["rebalance-latency-max"]) == (40, 30, 70)
    assert (values["heartbeat-response-time-max"], values["heartbeat-total"]) == (20, 1)
    assert (values["partition-assigned-latency-max"], values["assigned-partitions"]) == (25, 1)
    assert (values["last-heartbeat-seconds-ago"], values["last-rebalance-seconds-ago"]) == (3, 6)
    assert (values["time-between-poll-max"], values["last-poll-seconds-ago"]) == (5_000, 1)
    assert (values["rebalance-total"], values["failed-rebalance-total"]) == (1, 0)


def test_missing_metadata_is_requested_again() -> None:
    member = new_member()
    assert member.subscribe(["t"], START_MS) == [RefreshMetadata(("t",))]
    assert member.next_due_ms() == START_MS + 30_000
    assert member.tick(START_MS + 29_999) == []
    assert member.tick(START_MS + 30_000) == [RefreshMetadata(("t",))]
    member.on_metadata(CLUSTER, START_MS + 30_001)
    assert member.next_due_ms() is None


def test_next_poll_ms() -> None:
    member = new_member(enable_auto_commit=True)
    assert member.next_poll_ms() is None
    member.subscribe(["t"], START_MS)
    assert member.next_poll_ms() == 0
    find = id_of(member.poll(START_MS))
    assert member.next_poll_ms() is None
    member.on_response(find, NODE, START_MS)
    assert member.next_poll_ms() == 0
    member.poll(START_MS)
    assert member.next_poll_ms() is None


def test_manual_assignment_does_not_join() -> None:
    member = new_member(driver=RebalanceDriver.BACKGROUND)
    assert member.assign([T0], START_MS) == [RefreshMetadata(("t",))]
    assert member.tick(START_MS + 100) == []
    assert not member.needs_rejoin
    assert member.owned == member.fetchable == {T0}
    member.unsubscribe(START_MS)
    assert member.owned == frozenset()


# --- close -----------------------------------------------------------------------------------------------------------


def test_close_ends_pending_operations() -> None:
    member = new_member()
    member.assign([T0], START_MS)
    member.commit({T0: OffsetAndMetadata(1)}, START_MS, commit_id=7, sync=True)
    member.fetch_committed([T0], START_MS, fetch_id=8)
    assert not any(isinstance(effect, CommitDone) for effect in member.close(START_MS, timeout_ms=1_000))
    assert member.next_due_ms() == START_MS + 1_000
    effects = member.tick(START_MS + 1_000)
    assert member.is_closed
    ended = [effect for effect in effects if isinstance(effect, CommitDone | OffsetsFetched)]
    assert [type(effect.error) for effect in ended] == [OperationTimedOut, OperationTimedOut]


def test_close_is_idempotent() -> None:
    member = stable_member()
    member.close(START_MS)
    assert member.close(START_MS + 5_000) == []
    leave = id_of(member.on_listener_done(START_MS))
    member.on_request_failed(leave, START_MS)
    assert member.is_closed


@pytest.mark.parametrize(("config", "leave_group"), [({"leave_group_on_close": False}, None), ({}, False)])
def test_close_without_leave_group_sends_no_leave(config: dict[str, bool], leave_group: bool | None) -> None:
    member = stable_member(**config)
    member.close(START_MS, leave_group=leave_group)
    effects = member.on_listener_done(START_MS)
    assert not any(isinstance(effect, Send) for effect in effects)
    assert member.is_closed


@pytest.mark.parametrize("instance", [None, "i"])
def test_close_with_leave_group_leaves_static_member(instance: str | None) -> None:
    member = stable_member(group_instance_id=instance, leave_group_on_close=False)
    member_id = member.member_id
    member.close(START_MS, leave_group=True)
    (leave,) = [effect for effect in member.on_listener_done(START_MS) if isinstance(effect, Send)]
    assert isinstance(leave.request, LeaveGroup)
    assert [(leaver.member_id, leaver.group_instance_id) for leaver in leave.request.members] == [(member_id, instance)]
    assert not member.is_closed
    member.on_request_failed(leave.request_id, START_MS)
    assert member.is_closed


def test_close_with_blocked_listener_ends_at_timeout() -> None:
    member = stable_member()
    member.close(START_MS, timeout_ms=1_000)
    sends = [effect for effect in member.tick(START_MS + 1_000) if isinstance(effect, Send)]
    assert [type(effect.request) for effect in sends] == [LeaveGroup]
    assert member.is_closed
    assert member.on_listener_done(START_MS + 2_000) == []


def test_listener_error_during_close_is_raised() -> None:
    member = stable_member()
    member.unsubscribe(START_MS)
    effects = member.on_listener_done(START_MS, ValueError("odd"))
    assert [type(effect).__name__ for effect in effects if not hasattr(effect, "event")] == ["Raise", "Send"]


def test_close_waits_for_running_listener() -> None:
    member = stable_member()
    member.enforce_rebalance("", START_MS)
    assert any(isinstance(effect, NotifyListener) for effect in member.poll(START_MS))
    assert not any(isinstance(effect, NotifyListener | Send) for effect in member.close(START_MS))
    leave = [effect for effect in member.on_listener_done(START_MS) if isinstance(effect, Send)]
    assert [type(effect.request) for effect in leave] == [LeaveGroup]
    assert member.owned == frozenset()


def test_poll_while_closing_outside_the_group() -> None:
    member = stable_member(enable_auto_commit=True)
    member.set_consumed({T0: OffsetAndMetadata(3)})
    member.close(START_MS)
    assert member.poll(START_MS) == []
    assert member.next_poll_ms() is None


def test_manual_commit_with_unknown_member_fails() -> None:
    member = new_member()
    member.assign([T0], START_MS)
    member.commit({T0: OffsetAndMetadata(1)}, START_MS, commit_id=1)
    requests = [effect for effect in member.on_response(1, NODE, START_MS) if isinstance(effect, Send)]
    response = OffsetCommitResponse((OffsetResult("t", 0, Error.UNKNOWN_MEMBER_ID),))
    effects = member.on_response(requests[0].request_id, response, START_MS)
    (done,) = [effect for effect in effects if isinstance(effect, CommitDone)]
    assert isinstance(done.error, CommitFailed)
    assert not any(isinstance(effect, Send) and isinstance(effect.request, JoinGroup) for effect in effects)
