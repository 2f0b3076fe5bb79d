"""A member expires only after its session timeout without a request."""

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupEvent, MemberTimedOut
from slackwater.group.messages import (
    Heartbeat,
    JoinGroupResponse,
    OffsetCommit,
    OffsetCommitResponse,
    Request,
    Response,
    SyncGroupResponse,
)
from slackwater.sim.checkers.checker import Checker, SimulationView


class OnlySilentMembersExpire(Checker):
    """Successful heartbeats and commits restart a session (SE-01)."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.seen_ms: dict[str, int] = {}

    def on_response(self, reply_to: object, request: Request, response: Response) -> None:
        match response:
            case JoinGroupResponse(error=Error.NONE) | SyncGroupResponse(error=Error.NONE):
                pass  # not counted: this check can only miss a restart, never invent one
            case OffsetCommitResponse() if isinstance(request, OffsetCommit) and any(
                partition.error is Error.NONE for partition in response.partitions
            ):
                self.seen_ms[request.member_id] = self.view.now_ms
            case _:
                if isinstance(request, Heartbeat) and response.error in (  # type: ignore[union-attr]
                    Error.NONE,
                    Error.REBALANCE_IN_PROGRESS,
                ):
                    self.seen_ms[request.member_id] = self.view.now_ms

    def on_event(self, event: GroupEvent) -> None:
        if (
            event.kind is not EventKind.MEMBER_EXPIRED
            or event.member is None
            or not isinstance(event.detail, MemberTimedOut)
        ):
            return
        seen_ms = self.seen_ms.get(event.member)
        if event.detail.timer == "session" and seen_ms is not None:
            # A commit restarts the session on arrival, but this check sees only its response, after the write.
            silent_ms = event.time_ms - seen_ms
            if silent_ms < event.detail.timer_ms - MAX_WRITE_MS:
                self.fail(f"{event.member} expired after {silent_ms} ms; its session is {event.detail.timer_ms} ms")

    def on_restart(self) -> None:
        self.seen_ms.clear()


MAX_WRITE_MS = 50
