"""After the last fault the group becomes and stays stable and owns every partition."""

from slackwater.group.events import EventKind, GroupEvent, GroupState
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker, SimulationView


class GroupConverges(Checker):
    """The group settles, and does not rebalance without a change."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.is_quiet = False

    def on_settled(self) -> None:
        self.is_quiet = True
        self._check()

    def on_finish(self) -> None:
        self._check()

    def on_event(self, event: GroupEvent) -> None:
        if self.is_quiet and event.kind is EventKind.REBALANCE_STARTED:
            self.fail(f"a rebalance started without a change: {event.detail}")

    def _check(self) -> None:
        view = self.view
        if not view.owned:
            return
        if view.group_state is not GroupState.STABLE:
            self.fail(f"the group is {view.group_state}")
        behind = {name: generation for name, generation in view.generations.items() if generation != view.generation_id}
        if behind:
            self.fail(f"the group is in generation {view.generation_id}, but processes have {behind}")
        unsettled = sorted(name for name, settled in view.settled.items() if not settled)
        if unsettled:
            self.fail(f"{unsettled} have not settled")
        if len(view.members) != len(view.owned):
            self.fail(f"{len(view.owned)} processes run, the group has {len(view.members)} members")
        owners: dict[TopicPartition, str] = {}
        for name, owned in view.owned.items():
            for partition in owned:
                if partition in owners:
                    self.fail(f"{partition} is owned by {owners[partition]} and {name}")
                owners[partition] = name
        missing = sorted(view.ends.keys() - owners.keys())
        if missing:
            self.fail(f"no process owns {', '.join(map(str, missing))}")
