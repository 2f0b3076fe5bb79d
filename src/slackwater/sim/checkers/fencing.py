"""No commit from an old generation lands, and no heartbeat from one is taken for good."""

from slackwater.group.errors import Error
from slackwater.group.messages import Heartbeat, OffsetCommit, OffsetCommitResponse, Request, Response
from slackwater.sim.checkers.checker import Checker, View


class OldGenerationsAreFenced(Checker):
    """Only members of the current generation may commit or be told that all is well."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.stale: dict[object, str] = {}

    def arrived(self, caller: object, request: Request) -> None:
        if isinstance(request, OffsetCommit | Heartbeat):
            view = self.view
            if view.group_state is None:
                return
            if request.member_id not in view.members:
                self.stale[caller] = f"{request.member_id} is no member"
            elif request.generation_id != view.generation_id:
                self.stale[caller] = f"generation {request.generation_id} is not {view.generation_id}"

    def answered(self, caller: object, request: Request, response: Response) -> None:
        why = self.stale.pop(caller, None)
        if why is None:
            return
        if isinstance(response, OffsetCommitResponse):
            if any(partition.error is Error.NONE for partition in response.partitions):
                self.fail(f"a commit landed although {why}")
        elif isinstance(request, Heartbeat) and response.error is Error.NONE:  # type: ignore[union-attr]
            self.fail(f"a heartbeat was answered NONE although {why}")
