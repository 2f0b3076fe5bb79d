"""A group of verifiable consumers, each in its own process, that reads a topic while a producer writes.

Invariants:
- A consumer's lines are checked when they are read (`history.py`); no process outlives the group.
- A consumer that ends on its own fails the test, unless the test expects it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from slackwater.client.admin.descriptions import STABLE
from tests.client.clusters import ClusterUnderTest
from tests.interop_heavy.client_process import ROOT, ClientProcess, wait_for
from tests.sequence.writer import Writer
from tests.system.clients import Client, Settings
from tests.system.history import ConsumerHistory, GroupHistory

T = TypeVar("T")
PARTITIONS: Final = 6
PROGRESS_RECORDS: Final = 10
LONG_SESSION_MS: Final = 60_000  # longer than any pause of a consumer or broker: no session expires
SHORT_SESSION_MS: Final = 3_000  # a killed consumer leaves the group soon
TIMEOUT_S: Final = 90.0
COMMON_SETTINGS: Final[Settings] = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 500,
    "heartbeat.interval.ms": 300,
    "reconnect.backoff.max.ms": 500,
}


class ConsumerProcess(ClientProcess):
    """A running consumer."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        super().__init__(command, {"PYTHONPATH": str(ROOT)})
        self.name = name
        self._history = ConsumerHistory(name)
        self._applied = 0

    @property
    def history(self) -> ConsumerHistory:
        """What it has done so far."""
        for line in self.lines[self._applied :]:
            self._applied += 1
            self._history.add(line)
        if self.returncode is not None:
            self._history.end(time.time_ns() // 1_000_000)
        return self._history

    def stop(self, *, clean: bool = True) -> None:
        """Stop with SIGTERM and check that the consumer was closed, or kill with SIGKILL."""
        if not clean:
            self.kill()
            return
        self.terminate()
        assert "shutdown_complete" in self.values("name"), self.stderr_tail()


class ConsumerGroup:
    """The consumers of one group, its topic, and the producer."""

    def __init__(
        self,
        client: Client,
        cluster: ClusterUnderTest,
        directory: Path,
        *,
        assignor: str = "range",
        session_ms: int = LONG_SESSION_MS,
        is_static: bool = False,
        auto_commit: bool = False,
    ) -> None:
        self.client = client
        self.assignor = assignor
        self._is_static = is_static
        self._cluster, self._directory = cluster, directory
        self.topic, self.group_id = cluster.topic(PARTITIONS, "system"), cluster.name("group")
        self.running: dict[str, ConsumerProcess] = {}
        self.ended: list[ConsumerProcess] = []
        self._settings: Settings = {
            **COMMON_SETTINGS,
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": self.group_id,
            "session.timeout.ms": session_ms,
            "enable.auto.commit": auto_commit,
        }
        self._writer = Writer(cluster.bootstrap_servers, self.topic, PARTITIONS)

    # --- consumers ----------------------------------------------------------------------------------------------------

    @property
    def is_cooperative(self) -> bool:
        """Whether its consumers use the cooperative protocol."""
        return "cooperative-sticky" in self.assignor

    def start(self, *names: str, instance: str | None = None) -> None:
        """Start consumers; the instance id of a static one is its name, or `instance`."""
        for name in names:
            settings = {**self._settings, "client.id": name, "partition.assignment.strategy": self.assignor}
            if self._is_static:
                settings["group.instance.id"] = instance or name
            path = self._directory / f"{name}-{len(self.ended)}.properties"
            self.running[name] = ConsumerProcess(name, self.client.command(self.topic, settings, path))

    def stop(self, *names: str, clean: bool = True) -> None:
        """Stop or kill consumers."""
        for name in names:
            process = self.running.pop(name)
            process.stop(clean=clean)
            self.ended.append(process)

    def restart(self, *names: str, clean: bool = True) -> None:
        """Stop or kill these consumers, start them again, and wait until the group works."""
        self.stop(*names, clean=clean)
        self.start(*names)
        self.wait_for_assignment()
        self.wait_for_progress()

    def expect_fenced(self, count: int, *names: str) -> None:
        """Wait until this many of the consumers have ended because another one has their instance id."""

        def fenced() -> list[str]:
            ended = [name for name in names if self.running[name].returncode is not None]
            return ended if len(ended) == count else []

        for name in wait_for(f"{count} fenced consumers", fenced, TIMEOUT_S):
            process = self.running.pop(name)
            self.ended.append(process)
            assert "fenced" in "\n".join(process.errors).lower(), process.stderr_tail()

    # --- waiting ------------------------------------------------------------------------------------------------------

    def wait_for_assignment(self) -> dict[str, frozenset[int]]:
        """Wait until the running consumers share all partitions, each at least one."""

        def shared() -> dict[str, frozenset[int]] | None:
            assignments = self.assignments()
            owned = sorted(chain.from_iterable(assignments.values()))
            return assignments if owned == list(range(PARTITIONS)) and all(assignments.values()) else None

        return self._wait_for(f"an assignment for {len(self.running)} consumers", shared) or {}

    def wait_for_progress(self, records: int = PROGRESS_RECORDS) -> None:
        """Wait until the consumers have read more records of every partition."""
        before = self.history().positions()
        targets = {partition: before.get(partition, 0) + records for partition in range(PARTITIONS)}
        self._wait_for(f"positions {targets}", lambda: _reached(self.history().positions(), targets))

    def _wait_for(self, what: str, condition: Callable[[], T]) -> T:
        self._writer.check()
        return wait_for(what, condition, TIMEOUT_S, list(self.running.values()))

    # --- state --------------------------------------------------------------------------------------------------------

    def assignments(self) -> dict[str, frozenset[int]]:
        """The partitions of each running consumer."""
        return {name: process.history.assignment for name, process in self.running.items()}

    def rebalances(self, *names: str) -> dict[str, tuple[int, int]]:
        """How often the callbacks of these consumers, or of all running ones, ran."""
        return {name: self.running[name].history.rebalances for name in names or self.running}

    def owner(self, partition: int) -> str:
        """The running consumer that owns a partition."""
        (owner,) = (name for name, owned in self.assignments().items() if partition in owned)
        return owner

    def history(self) -> GroupHistory:
        """What all consumers have done so far."""
        return GroupHistory(process.history for process in (*self.ended, *self.running.values()))

    def committed(self) -> dict[int, int]:
        """The group's committed offsets, from the broker."""
        committed = self._cluster.admin.committed(self.group_id)
        return {partition.partition: commit.offset for partition, commit in committed.items()}

    def protocol(self) -> str:
        """The assignor of the stable group."""

        def selected() -> str:
            (description,) = self._cluster.admin.describe_groups([self.group_id], find_generation=False)
            return description.assignor if description.state == STABLE else ""

        return self._wait_for("a stable group", selected)

    # --- end ----------------------------------------------------------------------------------------------------------

    def finish(self, *, read_once: bool) -> GroupHistory:
        """Stop all consumers while the producer writes, and check what Kafka guarantees.

        Every record was read, at least once or exactly once; every consumer started at or after the last commit; the
        last commit is the position.

        A member of a cooperative group reads on while it rejoins. A commit then fails with REBALANCE_IN_PROGRESS, so
        records may be read again after their partition moved, and the last commit may be before the position.
        """
        self.stop(*self.running)
        self._writer.check()
        history = self.history()
        history.check_nothing_lost()
        history.check_starts()
        committed, positions = self.committed(), history.positions()
        if self.is_cooperative:
            assert all(committed[partition] <= position for partition, position in positions.items())
        else:
            assert committed == positions
            assert not read_once or history.duplicate_count() == 0
        return history

    def report(self) -> str:
        """The rebalances and failed commits of each consumer, and the end of its standard error."""
        shown = ("partitions_assigned", "partitions_revoked", "shutdown_complete")
        lines: list[str] = []
        for process in (*self.ended, *self.running.values()):
            failed = [line for line in process.lines if line.get("success") is False]
            events = [str(line) for line in process.lines if line.get("name") in shown]
            lines += [f"--- {process.name}", *events, *map(str, failed), process.stderr_tail()]
        return "\n".join(lines)

    def close(self) -> None:
        """Kill what still runs."""
        self._writer.close()
        for process in (*self.running.values(), *self.ended):
            process.close()


def _reached(positions: Mapping[int, int], targets: Mapping[int, int]) -> bool:
    return all(positions.get(partition, 0) >= target for partition, target in targets.items())
