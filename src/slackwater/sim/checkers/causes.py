"""Every rebalance has a cause."""

from slackwater.group.coordinator import GroupMetadata
from slackwater.group.events import EventKind, GroupEvent, GroupState
from slackwater.group.messages import JoinGroup, JoinProtocol, Request, Response
from slackwater.sim.checkers.checker import Checker, SimulationView


class RebalancesHaveCauses(Checker):
    """The unchanged rejoin of a follower does not start a rebalance (JG-18), nor does a heartbeat or a commit."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.protocols: dict[str, tuple[JoinProtocol, ...]] = {}
        self.unchanged_rejoin: JoinGroup | None = None

    def on_request(self, reply_to: object, request: Request) -> None:
        self.unchanged_rejoin = None
        if not isinstance(request, JoinGroup) or not request.member_id:
            return
        view = self.view
        if (
            view.group_state is GroupState.STABLE
            and request.member_id in view.members
            and request.member_id != view.leader_id
            and self.protocols.get(request.member_id) == request.protocols
        ):
            self.unchanged_rejoin = request
        self.protocols[request.member_id] = request.protocols

    def on_response(self, reply_to: object, request: Request, response: Response) -> None:
        if request is self.unchanged_rejoin:
            self.unchanged_rejoin = None  # a later rebalance has another cause
        if isinstance(request, JoinGroup):
            self.protocols[response.member_id] = request.protocols  # type: ignore[union-attr]

    def on_reload(self) -> None:
        """After a reload only the metadata of the selected protocol is known."""
        self.protocols.clear()
        for record in self.view.log:
            if isinstance(record, GroupMetadata) and record.value is not None:
                name = record.value.protocol_name or ""
                self.protocols = {m.member_id: (JoinProtocol(name, m.subscription),) for m in record.value.members}

    def on_event(self, event: GroupEvent) -> None:
        if event.kind is EventKind.REBALANCE_STARTED and self.unchanged_rejoin is not None:
            self.fail(f"{self.unchanged_rejoin.member_id} rejoined unchanged, and a rebalance started")
