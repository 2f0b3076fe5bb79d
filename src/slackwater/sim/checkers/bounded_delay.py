"""KIP-134's delay ends: at the latest after the first joiner's rebalance timeout, or one delay if that is longer."""

from slackwater.group.events import GroupEvent, Kind, RebalanceStarted
from slackwater.sim.checkers.checker import Checker, View


class InitialDelayIsBounded(Checker):
    """From rebalance_started with an initial delay to the end of the join phase."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.until_ms: int | None = None

    def told(self, event: GroupEvent) -> None:
        if event.kind is Kind.REBALANCE_STARTED and isinstance(event.detail, RebalanceStarted):
            if event.detail.initial_delay:
                self.until_ms = event.time_ms + max(self.view.initial_delay_ms, event.detail.timeout_ms)
        elif event.kind in (Kind.GENERATION_FORMED, Kind.GROUP_EMPTIED):
            if self.until_ms is not None and event.time_ms > self.until_ms:
                self.fail(f"the initial delay ended {event.time_ms - self.until_ms} ms after its bound")
            self.until_ms = None

    def restarted(self) -> None:
        self.until_ms = None
