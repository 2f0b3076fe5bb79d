"""The demo's story: five chapters, each a change to a group of stock clients, and what the change cost.

Rules kept here
- Every chapter waits for what it tells of, with a deadline; nothing is shown that did not happen.
- Chapters stand for a moment, so that a person can follow.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from slackwater.cli.demo.crew import Crew
from slackwater.cli.demo.screen import Screen
from slackwater.cli.demo.watch import Watch
from slackwater.group.events import EventKind, GroupEvent

PARTITIONS: Final = 6
SESSION_MS: Final = 3_000
LOOK_S: Final = 1.6
TOPICS: Final = ("orders", "payments")
SETTINGS: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
}


@dataclass(slots=True)
class Story:
    """What happens, in order; `rows` is the account."""

    crew: Crew
    watch: Watch
    screen: Screen
    rows: list[tuple[str, list[GroupEvent], str]] = field(default_factory=list)

    def tell(self) -> None:
        """Tell it."""
        chapters: list[tuple[str, str, Callable[[], str]]] = [
            ("Join", "Three members on three different clients share six partitions.", self._join),
            ("Scale-out", "Two more join. Eager: everybody lets go of everything, and is dealt anew.", self._scale_out),
            (
                "Static restart",
                "billing-1 has a group.instance.id. It stops and comes back within its session.",
                self._restart,
            ),
            ("Kill", "worker-2 is killed with -9. Its session has to run out before anybody knows.", self._kill),
            (
                "Cooperative",
                "Another group, cooperative-sticky: who keeps a partition never stops reading it.",
                self._cooperative,
            ),
        ]
        self.crew.hire("producer", "producer", ",".join(TOPICS))
        self.screen.show_group("orders")
        for number, (title, text, chapter) in enumerate(chapters, start=1):
            self.screen.chapter(number, len(chapters), title, text)
            before = len(self.watch.events)
            meaning = chapter()
            self.rows.append((title, self.watch.rebalances(before), meaning))
            time.sleep(LOOK_S)

    def _worker(self, name: str, client: str, instance: str | None = None) -> None:
        self.crew.hire(name, client, "orders", "orders", assignor="range", session_ms=SESSION_MS, instance=instance)

    def _join(self) -> str:
        self._worker("worker-1", "kafka-python")
        self._worker("worker-2", "aiokafka")
        self._worker("worker-3", "confluent-kafka")
        self.watch.until_stable("orders", 3)
        return "three clients, one group, two each"

    def _scale_out(self) -> str:
        before = len(self.watch.events)
        self._worker("worker-4", "confluent-kafka")
        self._worker("billing-1", "confluent-kafka", instance="billing-1")
        self.watch.until_stable("orders", 5, before)
        times = len([event for event in self.watch.events[before:] if event.kind is EventKind.REBALANCE_COMPLETED])
        return f"all {PARTITIONS} partitions stood still, " + ("once" if times == 1 else f"{times} times")

    def _restart(self) -> str:
        generation, before = self.watch.generations["orders"], len(self.watch.events)
        self.crew.stop("billing-1")
        self._worker("billing-1", "confluent-kafka", instance="billing-1")
        self.watch.until(
            "the return of billing-1",
            lambda: any(event.kind is EventKind.MEMBER_REPLACED for event in self.watch.events[before:]),
        )
        self.watch.until_stable("orders", 5, before)
        stayed = self.watch.generations["orders"] == generation
        return "same generation: nobody noticed" if stayed else "it came back too late"

    def _kill(self) -> str:
        before = len(self.watch.events)
        killed = time.time()
        self.crew.kill("worker-2")
        self.watch.until_stable("orders", 4, before)
        expired = next(event for event in self.watch.events[before:] if event.kind is EventKind.MEMBER_EXPIRED)
        waited = expired.time_ms / 1000 - killed
        return f"noticed after {waited:.1f} s: session.timeout.ms is {SESSION_MS}"

    def _cooperative(self) -> str:
        self.screen.show_group("payments")
        for name in ("pay-1", "pay-2"):
            self._payer(name)
        self.watch.until_stable("payments", 2)
        owned = {one.name: set(one.partitions) for one in self.watch.group("payments").members}
        before = len(self.watch.events)
        self._payer("pay-3")
        self.watch.until_stable("payments", 3, before)
        after = {one.name: set(one.partitions) for one in self.watch.group("payments").members}
        kept = sum(len(owned[name] & after.get(name, set())) for name in owned)
        return f"pay-3 was given {len(after['pay-3'])}; {kept} of {PARTITIONS} partitions never stopped"

    def _payer(self, name: str) -> None:
        self.crew.hire(
            name, "confluent-kafka", "payments", "payments", assignor="cooperative-sticky", session_ms=SESSION_MS
        )
