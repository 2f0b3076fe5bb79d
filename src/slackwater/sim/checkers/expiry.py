"""Only a member that was silent for its session timeout expires, and every member that was silent does."""

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
from slackwater.sim.checkers.checker import Checker, View


class OnlyTheSilentExpire(Checker):
    """Heartbeats and commits that land start a session anew, whatever else does (SE-01)."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.heard_ms: dict[str, int] = {}

    def answered(self, caller: object, request: Request, response: Response) -> None:
        match response:
            case JoinGroupResponse(error=Error.NONE) | SyncGroupResponse(error=Error.NONE):
                pass  # may start a session anew, or may not: nobody can expire early for our not counting it
            case OffsetCommitResponse() if isinstance(request, OffsetCommit) and any(
                partition.error is Error.NONE for partition in response.partitions
            ):
                self.heard_ms[request.member_id] = self.view.now_ms
            case _:
                if isinstance(request, Heartbeat) and response.error in (  # type: ignore[union-attr]
                    Error.NONE,
                    Error.REBALANCE_IN_PROGRESS,
                ):
                    self.heard_ms[request.member_id] = self.view.now_ms

    def told(self, event: GroupEvent) -> None:
        if (
            event.kind is not EventKind.MEMBER_EXPIRED
            or event.member is None
            or not isinstance(event.detail, MemberTimedOut)
        ):
            return
        heard_ms = self.heard_ms.get(event.member)
        if event.detail.timer == "session" and heard_ms is not None:
            # A commit is heard when it arrives and answered when it is written; the answer is what we saw.
            silent_ms = event.time_ms - heard_ms
            if silent_ms < event.detail.timer_ms - WRITE_MS:
                self.fail(f"{event.member} expired after {silent_ms} ms; its session is {event.detail.timer_ms} ms")

    def restarted(self) -> None:
        self.heard_ms.clear()


WRITE_MS = 50
