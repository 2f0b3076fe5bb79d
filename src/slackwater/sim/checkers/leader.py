"""The leader of a generation is one who joined it: nobody else can bring the assignment."""

from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GenerationFormed, GroupEvent
from slackwater.group.messages import JoinGroup, JoinGroupResponse, Request, Response
from slackwater.sim.checkers.checker import Checker, View


class TheLeaderIsPresent(Checker):
    """Whoever is named leader gets an answer to its join, with the members in it (JG-31, JG-32)."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.expected: str | None = None

    def told(self, event: GroupEvent) -> None:
        if isinstance(event.detail, GenerationFormed):
            self.expected = event.detail.leader
        elif event.kind in (EventKind.REBALANCE_COMPLETED, EventKind.REBALANCE_FAILED) and self.expected is not None:
            self.fail(f"{self.expected} is the leader of generation {event.generation}, and had not joined it")

    def answered(self, caller: object, request: Request, response: Response) -> None:
        if isinstance(request, JoinGroup) and isinstance(response, JoinGroupResponse) and response.error is Error.NONE:
            if response.member_id == self.expected:
                self.expected = None
            if response.members and response.member_id != response.leader:
                self.fail(f"{response.member_id} was given the members, but {response.leader} leads")

    def restarted(self) -> None:
        self.expected = None
