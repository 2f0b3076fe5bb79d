"""The environment of both demos: a broker, child processes, a screen, a directory, and the lines printed at the end.

Everything is stopped in reverse order, also after an error; the cleanup process removes the rest.
"""

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from slackwater.broker.embedded import EmbeddedBroker
from slackwater.cli.demo.groups import GroupMonitor
from slackwater.cli.demo.processes import CleanupProcess, ProcessPool
from slackwater.cli.demo.screen import Screen, StepResult, summary
from slackwater.group.errors import UsageError
from slackwater.group.events import EventKind, GroupEvent

Step = tuple[str, str, Callable[[], str]]
"""Title, text, and the function that runs the step and returns its result."""


@dataclass(slots=True)
class DemoEnvironment:
    """The parts that a scenario uses."""

    console: Console
    directory: Path
    broker: EmbeddedBroker
    pool: ProcessPool
    monitor: GroupMonitor
    screen: Screen
    results: list[StepResult] = field(default_factory=list)
    restarts: dict[str, int] = field(default_factory=dict)
    """Restarted queries of each application that the screen has shown."""

    def run_steps(self, steps: list[Step], groups: list[str], pause_s: float) -> None:
        """Run the steps; the summary counts the rebalances of these groups."""
        for number, (title, text, step) in enumerate(steps, start=1):
            self.screen.start_step(f"{number} of {len(steps)}  {title}", text)
            since = len(self.monitor.events)
            result = step()
            self.results.append(StepResult(title, self._rebalances(groups, since), result))
            self.monitor.pause(pause_s)

    def _rebalances(self, groups: list[str], since: int) -> list[GroupEvent]:
        return [event for group in groups for event in self.monitor.rebalances(group, since)]

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, show what the demo waits for, and stop if a child has failed."""

        def holds() -> bool:
            self._note_restarts()
            if failures := self.pool.failures():
                raise UsageError(f"the demo stopped while it waited for {what}: {'; '.join(failures)}")
            return condition()

        self.screen.waiting_for(what)
        try:
            self.monitor.wait_until(holds)
        finally:
            self.screen.waiting_for(None)

    def _note_restarts(self) -> None:
        """Explain a long wait: Spark gives up on a Python worker that needs more than ten seconds to start."""
        for name, count in self.pool.restarts().items():
            if count > self.restarts.get(name, 0):
                self.restarts[name] = count
                self.screen.note(f"{name}: a Python worker needed more than 10 s to start; query restarted ({count})")

    def wait_joined(self, group: str, client: str, since: int) -> None:
        """Wait until this client has joined, as a new member or in the place of a static one."""
        kinds = (EventKind.MEMBER_REPLACED, EventKind.MEMBER_JOINED)
        self.wait(
            f"the return of {client} to group {group}",
            lambda: any(event.client == client for event in self.monitor.events_of(group, *kinds, since=since)),
        )

    def wait_settled(self, group: str, members: int, since: int = 0) -> None:
        """Wait until this many members of a stable group have partitions, after a change since this event index."""
        self.wait(f"group {group} with {members} members", lambda: self.monitor.is_settled(group, members, since))


@contextmanager
def open_environment(
    settings: Mapping[str, str], topics: list[str], partitions: int, title: str
) -> Iterator[DemoEnvironment]:
    """Start a broker with these topics; at the end, stop everything and remove the directory."""
    logging.getLogger("slackwater").setLevel(logging.CRITICAL)
    directory = Path(tempfile.mkdtemp(prefix="slackwater-demo-"))
    cleanup = CleanupProcess(directory)
    console = Console()
    try:
        with EmbeddedBroker(data=directory / "broker", settings=dict(settings)) as broker:
            for topic in topics:
                broker.create_topic(topic, partitions)
            pool, monitor = ProcessPool(broker.bootstrap_servers, directory, cleanup), GroupMonitor(broker)
            try:
                with Screen(console, monitor, pool, partitions, title) as screen:
                    environment = DemoEnvironment(console, directory, broker, pool, monitor, screen)
                    yield environment
                console.print(summary(environment.results))
            finally:
                pool.kill_all()
    finally:
        cleanup.finish()


def run_stock_clients(report: Path) -> None:
    """The demo with stock clients."""
    from slackwater.cli.demo.stock_clients_scenario import PARTITIONS, SETTINGS, TOPICS, StockClientsScenario

    started = time.monotonic()
    title = "one broker, stock clients, two groups"
    with open_environment(SETTINGS, list(TOPICS), PARTITIONS, title) as environment:
        scenario = StockClientsScenario(environment, report)
        scenario.run()
    _print_lines([*scenario.summary_lines, f"{time.monotonic() - started:.0f} seconds. Nothing is left running."])


def run_spark(report: Path, *, fast: bool) -> None:
    """The demo with Spark applications."""
    from slackwater.cli.demo.spark_scenario import PARTITIONS, SETTINGS, TOPIC, SparkScenario

    started = time.monotonic()
    title = "one broker, Spark applications, one group"
    with open_environment(SETTINGS, [TOPIC], PARTITIONS, title) as environment:
        scenario = SparkScenario(environment, report, fast=fast)
        scenario.set_up()
        ready = time.monotonic()
        scenario.run()
    seconds = f"{time.monotonic() - ready:.0f} seconds after {ready - started:.0f} of set-up"
    _print_lines([*scenario.summary_lines, f"{seconds}. Nothing is left running."])


def _print_lines(lines: list[str]) -> None:
    console = Console()
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
