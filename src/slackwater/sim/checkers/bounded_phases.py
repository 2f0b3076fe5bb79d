"""The join phase ends: in KIP-134's delay as in any other round."""

from slackwater.group.events import EventKind, GenerationFormed, GroupEvent, RebalanceStarted
from slackwater.sim.checkers.checker import Checker, View


class JoinPhasesAreBounded(Checker):
    """After the rebalance timeout at the latest (or one initial delay, if longer: JG-35) a generation is formed.

    Static members are the exception: a round in which nobody but absent static members is left starts over (JG-30).
    """

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.until_ms: int | None = None

    def told(self, event: GroupEvent) -> None:
        match event.detail:
            case RebalanceStarted(initial_delay=initial, timeout_ms=timeout_ms):
                self.until_ms = event.time_ms + max(self.view.initial_delay_ms if initial else 0, timeout_ms)
            case GenerationFormed(static_members=0) if self.until_ms is not None and event.time_ms > self.until_ms:
                self.fail(f"the join phase ended {event.time_ms - self.until_ms} ms after its bound")
        if event.kind in (EventKind.GENERATION_FORMED, EventKind.GROUP_EMPTIED):
            self.until_ms = None

    def restarted(self) -> None:
        self.until_ms = None
