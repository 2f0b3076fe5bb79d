"""The join phase ends in time, including KIP-134's initial delay."""

from slackwater.group.events import EventKind, GenerationFormed, GroupEvent, RebalanceStarted
from slackwater.sim.checkers.checker import Checker, SimulationView


class JoinPhasesAreBounded(Checker):
    """A generation forms within the rebalance timeout, or one initial delay if that is longer (JG-35).

    Exception: a rebalance with only absent static members restarts its timer (JG-30).
    """

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.until_ms: int | None = None

    def on_event(self, event: GroupEvent) -> None:
        match event.detail:
            case RebalanceStarted(initial_delay=initial, timeout_ms=timeout_ms):
                self.until_ms = event.time_ms + max(self.view.initial_delay_ms if initial else 0, timeout_ms)
            case GenerationFormed(static_members=0) if self.until_ms is not None and event.time_ms > self.until_ms:
                self.fail(f"the join phase ended {event.time_ms - self.until_ms} ms too late")
        if event.kind in (EventKind.GENERATION_FORMED, EventKind.GROUP_EMPTIED):
            self.until_ms = None

    def on_restart(self) -> None:
        self.until_ms = None
