"""Every request gets exactly one response."""

from slackwater.group.messages import JoinGroup, Request, Response, SyncGroup
from slackwater.sim.checkers.checker import Checker, SimulationView


class EveryRequestGetsOneResponse(Checker):
    """No request gets two responses, and no join or sync waits after the group has settled."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.waiting: dict[object, tuple[int, Request]] = {}

    def on_request(self, reply_to: object, request: Request) -> None:
        self.waiting[reply_to] = (self.view.now_ms, request)

    def on_response(self, reply_to: object, request: Request, response: Response) -> None:
        if self.waiting.pop(reply_to, None) is None:
            self.fail(f"{request} got a second response: {response}")

    def on_disconnect(self, reply_to: object) -> None:
        self.waiting.pop(reply_to, None)

    def on_settled(self) -> None:
        for since_ms, request in self.waiting.values():
            if isinstance(request, JoinGroup | SyncGroup):
                self.fail(f"{request} has waited since {since_ms} ms")
