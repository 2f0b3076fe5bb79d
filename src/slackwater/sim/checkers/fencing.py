"""Commits and heartbeats from an old generation are rejected."""

from slackwater.group.errors import Error
from slackwater.group.messages import Heartbeat, OffsetCommit, OffsetCommitResponse, Request, Response
from slackwater.sim.checkers.checker import Checker, SimulationView


class OldGenerationsAreFenced(Checker):
    """Only members of the current generation can commit or get NONE for a heartbeat."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.stale: dict[object, str] = {}

    def on_request(self, reply_to: object, request: Request) -> None:
        if isinstance(request, OffsetCommit | Heartbeat):
            view = self.view
            if view.group_state is None:
                return
            if request.member_id not in view.members:
                self.stale[reply_to] = f"{request.member_id} is not a member"
            elif request.generation_id != view.generation_id:
                self.stale[reply_to] = f"generation {request.generation_id} is not {view.generation_id}"

    def on_response(self, reply_to: object, request: Request, response: Response) -> None:
        reason = self.stale.pop(reply_to, None)
        if reason is None:
            return
        if isinstance(response, OffsetCommitResponse):
            if any(partition.error is Error.NONE for partition in response.partitions):
                self.fail(f"a commit succeeded although {reason}")
        elif isinstance(request, Heartbeat) and response.error is Error.NONE:  # type: ignore[union-attr]
            self.fail(f"a heartbeat got NONE although {reason}")
