"""Generations, rejoin reasons and the coordinator of a member."""

from slackwater.group.errors import Error, UsageError
from slackwater.group.events import EventKind, JoinRequested, PublishEvent
from slackwater.group.member import MemberConfig, Raise, Send
from slackwater.group.member.context import MemberContext, MemberGeneration, PendingRequest
from slackwater.group.member.states import MemberInput, MemberState
from slackwater.group.messages import FindCoordinatorResponse, Heartbeat

HEARTBEAT = Heartbeat("g", "m", None, 1)


def new_context() -> MemberContext:
    """Return a new context."""
    return MemberContext(MemberConfig(group_id="g", client_id="c"))


def reasons(context: MemberContext) -> list[str]:
    """Return the reasons of the requested joins."""
    details = [effect.event.detail for effect in context.effects if isinstance(effect, PublishEvent)]
    return [detail.reason for detail in details if isinstance(detail, JoinRequested)]


def test_reset_generation_may_keep_the_member_id() -> None:
    assert MemberGeneration().is_reset
    assert MemberGeneration(member_id="m").is_reset
    assert MemberGeneration(member_id="m").is_lost
    assert not MemberGeneration(3, "m", "range").is_lost
    assert MemberGeneration(3, "", "range").is_lost
    assert MemberGeneration(3, "m", "range").describe() == "Generation{generationId=3, memberId='m', protocol='range'}"


def test_rejoin_event_is_emitted_once_per_reason() -> None:
    context = new_context()
    context.rejoin_needed = False
    context.request_rejoin("why", 0)
    context.request_rejoin("why", 1)
    context.request_rejoin("other", 2, full_reason="other, at length")
    context.rejoin_needed = False
    context.request_rejoin("other", 3)
    assert reasons(context) == ["why", "other, at length", "other"]


def test_at_most_one_lookup_is_in_flight() -> None:
    context = new_context()
    assert not context.find_coordinator(0)
    assert not context.find_coordinator(0)
    (send,) = context.effects
    assert isinstance(send, Send)
    assert context.lookup_due_ms is None
    assert context.on_coordinator_response(FindCoordinatorResponse(Error.NONE, 1, "h", 1), 5)
    assert context.find_coordinator(5)


def test_lost_coordinator_fails_its_requests_in_order() -> None:
    context = new_context()
    failed: list[int] = []

    def on_failure(pending: PendingRequest, now_ms: int) -> None:
        failed.append(pending.request_id)
        context.lose_coordinator("again", now_ms)

    context.on_failure = on_failure
    context.find_coordinator(0)
    context.on_coordinator_response(FindCoordinatorResponse(Error.NONE, 1, "h", 1), 0)
    ids = [context.send(HEARTBEAT, 0), context.send(HEARTBEAT, 0)]
    context.lose_coordinator("gone", 1)
    assert failed == ids
    assert [effect.event.kind for effect in context.effects if isinstance(effect, PublishEvent)].count(
        EventKind.COORDINATOR_LOST
    ) == 1


def test_first_failure_is_raised_once() -> None:
    context = new_context()
    first, second = UsageError("first"), UsageError("second")
    context.fail(first)
    context.fail(second)
    assert context.raise_failure()
    assert not context.raise_failure()
    assert context.effects == [Raise(first)]
    assert not context.is_halted


def test_poll_timeout_before_joining_does_not_leave() -> None:
    context = new_context()
    assert context.leave(MemberInput.POLL_TIMEOUT_EXPIRED, "late", 0) is None
    assert context.effects == []
    assert context.state is MemberState.UNJOINED
