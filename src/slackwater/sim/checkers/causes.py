"""No rebalance without a cause, and in particular none for a follower that only asks again."""

from slackwater.group.coordinator import GroupMetadata
from slackwater.group.events import EventKind, GroupEvent, GroupState
from slackwater.group.messages import JoinGroup, JoinProtocol, Request, Response
from slackwater.sim.checkers.checker import Checker, View


class RebalancesHaveACause(Checker):
    """A follower's unchanged rejoin of a stable group changes nothing (JG-18); nor does a heartbeat or a commit."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.said: dict[str, tuple[JoinProtocol, ...]] = {}
        self.innocent: JoinGroup | None = None

    def arrived(self, caller: object, request: Request) -> None:
        self.innocent = None
        if not isinstance(request, JoinGroup) or not request.member_id:
            return
        view = self.view
        if (
            view.group_state is GroupState.STABLE
            and request.member_id in view.members
            and request.member_id != view.leader_id
            and self.said.get(request.member_id) == request.protocols
        ):
            self.innocent = request
        self.said[request.member_id] = request.protocols

    def answered(self, caller: object, request: Request, response: Response) -> None:
        if request is self.innocent:
            self.innocent = None  # answered at once, as it should be; what happens later has another cause
        if isinstance(request, JoinGroup):
            self.said[response.member_id] = request.protocols  # type: ignore[union-attr]

    def reloaded(self) -> None:
        """Only what was written is remembered: of every member, what it said for the chosen protocol."""
        self.said.clear()
        for record in self.view.log:
            if isinstance(record, GroupMetadata) and record.value is not None:
                name = record.value.protocol_name or ""
                self.said = {m.member_id: (JoinProtocol(name, m.subscription),) for m in record.value.members}

    def told(self, event: GroupEvent) -> None:
        if event.kind is EventKind.REBALANCE_STARTED and self.innocent is not None:
            self.fail(f"{self.innocent.member_id} only asked again, and the group rebalanced")
