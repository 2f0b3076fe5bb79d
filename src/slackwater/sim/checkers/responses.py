"""Every request gets exactly one response."""

from slackwater.group.messages import JoinGroup, Request, Response, SyncGroup
from slackwater.sim.checkers.checker import Checker, View


class EveryRequestGetsOneResponse(Checker):
    """No request gets two responses, and no join or sync waits after the group has settled."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.waiting: dict[object, tuple[int, Request]] = {}

    def on_request(self, caller: object, request: Request) -> None:
        self.waiting[caller] = (self.view.now_ms, request)

    def on_response(self, caller: object, request: Request, response: Response) -> None:
        if self.waiting.pop(caller, None) is None:
            self.fail(f"{request} got a second response: {response}")

    def on_disconnect(self, caller: object) -> None:
        self.waiting.pop(caller, None)

    def on_quiet(self) -> None:
        for since_ms, request in self.waiting.values():
            if isinstance(request, JoinGroup | SyncGroup):
                self.fail(f"{request} has waited since {since_ms} ms")
