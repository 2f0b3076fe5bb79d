"""Generations, rejoin reasons and the coordinator of a member."""

from slackwater.group.errors import Error, UsageError
from slackwater.group.events import EventKind, JoinRequested
from slackwater.group.member import EmitEvent, MemberConfig, Raise, Send
from slackwater.group.member.context import MemberContext, MemberGeneration, PendingRequest
from slackwater.group.member.states import MemberInput, MemberState
from slackwater.group.messages import FindCoordinatorResponse, Heartbeat

BEAT = Heartbeat("g", "m", None, 1)


def context() -> MemberContext:
    """A fresh one."""
    return MemberContext(MemberConfig(group_id="g", client_id="c"))


def reasons(of: MemberContext) -> list[str]:
    """The reasons of the joins requested."""
    details = [effect.event.detail for effect in of.effects if isinstance(effect, EmitEvent)]
    return [detail.reason for detail in details if isinstance(detail, JoinRequested)]


def test_reset_generation_may_keep_the_member_id() -> None:
    assert MemberGeneration().is_reset
    assert MemberGeneration(member_id="m").is_reset
    assert MemberGeneration(member_id="m").is_lost
    assert not MemberGeneration(3, "m", "range").is_lost
    assert MemberGeneration(3, "", "range").is_lost
    assert MemberGeneration(3, "m", "range").describe() == "Generation{generationId=3, memberId='m', protocol='range'}"


def test_rejoin_event_is_emitted_once_per_reason() -> None:
    one = context()
    one.rejoin_needed = False
    one.request_rejoin("why", 0)
    one.request_rejoin("why", 1)
    one.request_rejoin("other", 2, full_reason="other, at length")
    one.rejoin_needed = False
    one.request_rejoin("other", 3)
    assert reasons(one) == ["why", "other, at length", "other"]


def test_at_most_one_lookup_is_in_flight() -> None:
    one = context()
    assert not one.find_coordinator(0)
    assert not one.find_coordinator(0)
    (send,) = one.effects
    assert isinstance(send, Send)
    assert one.lookup_due_ms is None
    assert one.on_coordinator_response(FindCoordinatorResponse(Error.NONE, 1, "h", 1), 5)
    assert one.find_coordinator(5)


def test_lost_coordinator_fails_its_requests_in_order() -> None:
    one = context()
    failed: list[int] = []

    def on_failure(pending: PendingRequest, now_ms: int) -> None:
        failed.append(pending.request_id)
        one.lose_coordinator("again", now_ms)

    one.on_failure = on_failure
    one.find_coordinator(0)
    one.on_coordinator_response(FindCoordinatorResponse(Error.NONE, 1, "h", 1), 0)
    ids = [one.send(BEAT, 0), one.send(BEAT, 0)]
    one.lose_coordinator("gone", 1)
    assert failed == ids
    assert [effect.event.kind for effect in one.effects if isinstance(effect, EmitEvent)].count(
        EventKind.COORDINATOR_LOST
    ) == 1


def test_first_failure_is_raised_once() -> None:
    one = context()
    first, second = UsageError("first"), UsageError("second")
    one.fail(first)
    one.fail(second)
    assert one.raise_failure()
    assert not one.raise_failure()
    assert one.effects == [Raise(first)]
    assert not one.is_halted


def test_poll_timeout_before_joining_does_not_leave() -> None:
    one = context()
    assert one.leave(MemberInput.POLL_TIMEOUT_EXPIRED, "late", 0) is None
    assert one.effects == []
    assert one.state is MemberState.UNJOINED
