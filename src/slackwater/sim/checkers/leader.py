"""The leader of a generation has joined it."""

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GenerationFormed, GroupEvent
from slackwater.group.messages import JoinGroup, JoinGroupResponse, Request, Response
from slackwater.sim.checkers.checker import Checker, SimulationView


class LeaderHasJoined(Checker):
    """The leader of a generation gets a join response with the member list (JG-31, JG-32)."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.expected: str | None = None

    def on_event(self, event: GroupEvent) -> None:
        if isinstance(event.detail, GenerationFormed):
            self.expected = event.detail.leader
        elif event.kind in (EventKind.REBALANCE_COMPLETED, EventKind.REBALANCE_FAILED) and self.expected is not None:
            self.fail(f"{self.expected} is the leader of generation {event.generation} but has not joined it")

    def on_response(self, reply_to: object, request: Request, response: Response) -> None:
        if isinstance(request, JoinGroup) and isinstance(response, JoinGroupResponse) and response.error is Error.NONE:
            if response.member_id == self.expected:
                self.expected = None
            if response.members and response.member_id != response.leader:
                self.fail(f"{response.member_id} got the member list, but {response.leader} is the leader")

    def on_restart(self) -> None:
        self.expected = None
