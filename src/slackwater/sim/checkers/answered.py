"""Every request is answered exactly once."""

from slackwater.group.messages import JoinGroup, Request, Response, SyncGroup
from slackwater.sim.checkers.checker import Checker, View


class EveryRequestIsAnswered(Checker):
    """Nothing is answered twice, and once all is quiet nothing waits."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.open: dict[object, tuple[int, Request]] = {}

    def arrived(self, caller: object, request: Request) -> None:
        self.open[caller] = (self.view.now_ms, request)

    def answered(self, caller: object, request: Request, response: Response) -> None:
        if self.open.pop(caller, None) is None:
            self.fail(f"{request} was answered twice, the second time with {response}")

    def abandoned(self, caller: object) -> None:
        self.open.pop(caller, None)

    def quiet(self) -> None:
        for since_ms, request in self.open.values():
            if isinstance(request, JoinGroup | SyncGroup):
                self.fail(f"{request} waits since {since_ms} ms")
