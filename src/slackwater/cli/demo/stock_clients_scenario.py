"""The demo with stock clients: five changes to groups, and the rebalances that each one causes."""

import time
from pathlib import Path
from typing import Final

from slackwater.cli.demo.environment import DemoEnvironment, Step
from slackwater.group.events import EventKind

PARTITIONS: Final = 6
RECORDS_PER_S: Final = 60
SESSION_MS: Final = 3_000
STATIC_SESSION_MS: Final = 30_000
PAUSE_S: Final = 1.6
ORDERS, PAYMENTS = TOPICS = ("orders", "payments")  # each topic has a group of the same name
SETTINGS: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
}


class StockClientsScenario:
    """Runs the steps; `summary_lines` are printed at the end."""

    def __init__(self, environment: DemoEnvironment, report: Path) -> None:
        self._environment = environment
        self._pool = environment.pool
        self._monitor = environment.monitor
        self._report = report
        self.summary_lines: list[str] = []

    def run(self) -> None:
        """Run the demo."""
        steps: list[Step] = [
            ("Join", "Three members on three different clients share six partitions.", self._join),
            ("Scale-out", "Two more members join. Eager: all members revoke all partitions.", self._scale_out),
            ("Static restart", "billing-1 has a group.instance.id. It stops and is back in time.", self._restart),
            ("Kill", "worker-2 is killed. The coordinator notices when its session expires.", self._kill),
            (
                "Cooperative",
                "Another group, cooperative-sticky: only moved partitions pause.",
                self._cooperative,
            ),
        ]
        topics = ",".join(TOPICS)
        self._pool.start_client("producer", "producer", topics, records_per_s=RECORDS_PER_S, partitions=PARTITIONS)
        self._environment.screen.show_group(ORDERS, ORDERS)
        self._environment.run_steps(steps, list(TOPICS), PAUSE_S)
        self._pool.stop("producer")
        produced = sum(self._pool.produced.values())
        self._environment.wait("the last record", lambda: self._pool.read_counts(*TOPICS)[0] >= produced)
        self._pool.stop_all()
        read, repeated = self._pool.read_counts(*TOPICS)
        reason = " (worker-2 had read them and not yet committed when it was killed)" if repeated else ""
        self.summary_lines = [
            f"{produced:,} records produced, {read:,} read, {repeated:,} of them twice{reason}.",
            f"The doctor's report: {self._write_report()}",
        ]

    def _start_worker(self, name: str, client: str, instance: str | None = None) -> None:
        session_ms = STATIC_SESSION_MS if instance else SESSION_MS
        config = {"assignor": "range", "session_ms": session_ms, "instance": instance}
        self._pool.start_client(name, client, ORDERS, ORDERS, **config)

    def _join(self) -> str:
        self._start_worker("worker-1", "slackwater")
        self._start_worker("worker-2", "aiokafka")
        self._start_worker("worker-3", "confluent-kafka")
        self._environment.wait_settled(ORDERS, 3)
        return "three clients, one group, two partitions each"

    def _scale_out(self) -> str:
        since = len(self._monitor.events)
        self._start_worker("worker-4", "confluent-kafka")
        self._start_worker("billing-1", "confluent-kafka", instance="billing-1")
        self._environment.wait_settled(ORDERS, 5, since)
        times = len(self._monitor.events_of(ORDERS, EventKind.REBALANCE_COMPLETED, since=since))
        return f"all {PARTITIONS} partitions stopped " + ("once" if times == 1 else f"{times} times")

    def _restart(self) -> str:
        generation, since = self._monitor.generations[ORDERS], len(self._monitor.events)
        self._pool.stop("billing-1")
        self._start_worker("billing-1", "confluent-kafka", instance="billing-1")
        self._environment.wait_joined(ORDERS, "billing-1", since)
        self._environment.wait_settled(ORDERS, 5, since)
        if self._monitor.generations[ORDERS] == generation:
            return "same generation, no rebalance"
        return f"a slow machine: it came back after session.timeout.ms={STATIC_SESSION_MS}"

    def _kill(self) -> str:
        since, killed = len(self._monitor.events), time.time()
        self._pool.kill("worker-2")
        self._environment.wait_settled(ORDERS, 4, since)
        expired = self._monitor.events_of(ORDERS, EventKind.MEMBER_EXPIRED, since=since)[0]
        return f"noticed after {expired.time_ms / 1000 - killed:.1f} s: session.timeout.ms is {SESSION_MS}"

    def _cooperative(self) -> str:
        self._environment.screen.show_group(PAYMENTS, PAYMENTS)
        for name in ("pay-1", "pay-2"):
            self._start_payments_member(name)
        self._environment.wait_settled(PAYMENTS, 2)
        before, since = self._monitor.group(PAYMENTS).owned(), len(self._monitor.events)
        self._start_payments_member("pay-3")
        self._environment.wait_settled(PAYMENTS, 3, since)
        after = self._monitor.group(PAYMENTS).owned()
        unmoved = sum(len(before[name] & after.get(name, set())) for name in before)
        return f"pay-3 got {len(after['pay-3'])}; {unmoved} of {PARTITIONS} partitions never stopped"

    def _start_payments_member(self, name: str) -> None:
        config = {"assignor": "cooperative-sticky", "session_ms": SESSION_MS}
        self._pool.start_client(name, "confluent-kafka", PAYMENTS, PAYMENTS, **config)

    def _write_report(self) -> Path:
        """The doctor's rules on the events of this run, without Spark."""
        from slackwater.doctor.events.rows import row_of
        from slackwater.doctor.timeline.group_history import GroupHistory
        from slackwater.doctor.verdict import diagnose_group
        from slackwater.web.report import report

        rows = [row_of(event) for event in self._monitor.events]
        histories = [GroupHistory(group, [row for row in rows if row.group == group]) for group in TOPICS]
        self._report.write_text(report([diagnose_group(history) for history in histories]), encoding="utf-8")
        return self._report
