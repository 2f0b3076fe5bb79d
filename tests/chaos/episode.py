"""One data directory with its broker, the load, the bystanders, and the checks after every fault.

Invariants:
- The broker keeps its port through restarts, so clients find it again.
- While the broker is stopped on purpose, heartbeats are not measured.
- `check` compares everything with the ledgers. It runs after every fault, with the load paused.
- What a fault may lose is in `losses` (partition logs) and `damaged_offsets` (partitions of `__consumer_offsets`),
  each with the damaged file. Everything else must be there.
"""

import asyncio
import random
import re
import shutil
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final, TypeVar

from slackwater.group.errors import Error
from tests.broker.broker_process import BrokerProcess, StartFailed
from tests.broker.raw_client import RawClient
from tests.chaos.bystander import Bystanders
from tests.chaos.load import COMPACTED, OFFSETS_PARTITIONS, PARTITIONS, SEQUENCED, Load
from tests.chaos.oracles import Violation
from tests.chaos.oracles.heartbeats import Interval
from tests.chaos.oracles.liveness import check_answers
from tests.chaos.oracles.log_lines import check_log, refusal, warnings_about
from tests.chaos.oracles.memory import check_memory, reset_peak
from tests.chaos.oracles.records import Content, Loss
from tests.chaos.reading import read_partition
from tests.chaos.shim import Shim
from tests.chaos.summary import Counts
from tests.chaos.transactions import PARTITIONS as TRANSACTIONAL_PARTITIONS
from tests.chaos.transactions import TOPIC as TRANSACTIONAL
from tests.chaos.transactions import read_committed, read_group_offset

TARGETS: Final = ("target-a", "target-b")
"""Topics for hostile requests; nothing is checked there."""
COMPACTED_TARGET: Final = "target-compacted"
COMPACTION: Final = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_bytes": "20000"}
PROGRESS_S: Final = 60.0  # a member whose join was lost blocks its group for a session timeout
CHECK_S: Final = 60.0
PORTS: Final = range(20_000, 32_000)  # below the ports that clients get
_BEFORE_OFFSET: Final = re.compile(r"before offset (\d+)")
T = TypeVar("T")


class Episode:
    """A broker under test and its clients."""

    def __init__(self, directory: Path, rng: random.Random, library: Path | None, counts: Counts) -> None:
        self.data = directory / "data"
        self.backup = directory / "backup"
        self.counts = counts
        self.losses: dict[str, tuple[Path, Loss]] = {}
        self.damaged_offsets: dict[int, Path] = {}
        self.is_spent = False  # a log file is damaged for good, so the next fault gets a new data directory
        self.port = _free_port()
        self.settings = _settings(rng)
        self.shim = Shim(library, directory / "control", self.data, rng.getrandbits(62)) if library else None
        self._stopped: list[Interval] = []
        self._stopped_since: float | None = None
        self._checked_bytes = 0
        self._is_paused = False
        self.log = ""  # of earlier runs of the broker
        with ExitStack() as stack:
            self.bystanders = Bystanders(self.port)
            stack.callback(self.bystanders.close)
            self.load = Load(self.port, random.Random(rng.random()), self.wall_ms)
            stack.callback(self.load.close)
            self.start()
            stack.callback(lambda: self.broker.kill())
            self.run(self._create_topics)
            self.bystanders.wait_until_joined()
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Kill everything."""
        self._stack.close()
        self.counts.records += self.load.records
        self.counts.commits += self.load.commits
        self.counts.transactions += self.load.transactions
        if self.shim is not None:
            self.counts.injected_errors += self.shim.injected()
            self.shim.close()

    async def _create_topics(self, client: RawClient) -> None:
        for topic, partitions in PARTITIONS.items():
            configs = {"retention_ms": "-1"} | (COMPACTION if topic == COMPACTED else {})
            assert await client.create_topic(topic, partitions, **configs) is Error.NONE
        error = await client.create_topic(TRANSACTIONAL, TRANSACTIONAL_PARTITIONS, retention_ms="-1")
        assert error is Error.NONE
        for topic in TARGETS:
            assert await client.create_topic(topic, 2) is Error.NONE
        assert await client.create_topic(COMPACTED_TARGET, 1, **COMPACTION) is Error.NONE

    def full_log(self) -> str:
        """Return the log of all runs of the broker."""
        return self.log if self.log.endswith(self.broker.log) else self.log + self.broker.log

    def wall_ms(self) -> int:
        """The wall time of the broker, as a client with a correct clock sees it."""
        offset_s = 0.0 if self.shim is None else self.shim.clock_offset_s
        return int((time.time() + offset_s) * 1000)

    def run(self, work: Callable[[RawClient], Awaitable[T]], seconds: float = CHECK_S) -> T:
        """Run coroutines with a new connection."""

        async def connected() -> T:
            client = await RawClient.at(self.port)
            try:
                async with asyncio.timeout(seconds):
                    return await work(client)
            finally:
                client.abort()

        return asyncio.run(connected())

    # --- the broker's process -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker; a refusal is a violation."""
        sentence = self.start_or_refusal()
        if sentence is not None:
            raise Violation(f"the broker refused to start although nothing is damaged: {sentence}")

    def start_or_refusal(self, prefix: Sequence[str] = ()) -> str | None:
        """Start the broker, or return the sentence with which it refused; `prefix` is put before its command."""
        environment = self.shim.environment if self.shim else {}
        try:
            self.broker = BrokerProcess(
                self.data, self.settings, port=self.port, environment=environment, prefix=prefix
            )
        except StartFailed as failure:
            self.counts.refusals += 1
            self.log += failure.log
            try:
                return refusal(failure.log, failure.exit_code, self.data)
            except ValueError as error:
                raise Violation(str(error)) from error
        self.counts.starts += 1
        self._checked_bytes = 0
        self._on_available()
        self.bystanders.set_broker(self.broker.pid)
        return None

    def kill(self, after_terminate_s: float | None = None) -> None:
        """Kill the broker with SIGKILL, perhaps some time after SIGTERM."""
        self._on_unavailable()
        violations = self._check_process()
        if after_terminate_s is not None:
            self.broker.send_signal(signal.SIGTERM)
            time.sleep(after_terminate_s)
        self.broker.kill()
        self._on_ended(violations)

    def stop(self, *, is_disk_failing: bool = False) -> None:
        """Stop the broker with SIGTERM; it must exit with code 0, unless its disk is failing."""
        self._on_unavailable()
        violations = self._check_process()
        try:
            self.broker.stop()
        except TimeoutExpired:
            violations.append("SIGTERM did not stop the broker")
        except AssertionError as error:
            if not is_disk_failing:
                violations.append(f"SIGTERM did not stop the broker cleanly: {error}")
        self.broker.kill()
        self._on_ended(violations)

    def _on_ended(self, violations: list[str]) -> None:
        violations += check_log(self.broker.log[self._checked_bytes :])
        self.log += self.broker.log
        if violations:
            raise Violation("; ".join(violations))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the broker with SIGSTOP, and continue it with SIGCONT."""
        self._on_unavailable()
        self.broker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.broker.send_signal(signal.SIGCONT)
            self._on_available()

    def _on_unavailable(self) -> None:
        if self._stopped_since is None:
            self._stopped_since = time.monotonic()

    def _on_available(self) -> None:
        if self._stopped_since is not None:
            self._stopped.append(Interval(self._stopped_since, time.monotonic()))
            self._stopped_since = None

    # --- data ---------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Let the load finish its requests."""
        self.load.pause()
        self._is_paused = True

    def resume(self) -> None:
        """Let the load continue."""
        self._is_paused = False
        self.load.resume()

    def save(self) -> None:
        """Copy the data directory of the stopped broker."""
        shutil.rmtree(self.backup, ignore_errors=True)
        shutil.copytree(self.data, self.backup, symlinks=True)

    def restore(self) -> None:
        """Put the copy back, as an operator would after a refusal."""
        shutil.rmtree(self.data)
        self.backup.rename(self.data)
        self.losses.clear()
        self.damaged_offsets.clear()

    def start_with_damage(self) -> str:
        """Start on damaged files; after a refusal restore the copy and start on that. Returns what happened."""
        sentence = self.start_or_refusal()
        if sentence is None:
            return "started"
        self.restore()
        self.start()
        return f"refused ({sentence})"

    # --- checks -------------------------------------------------------------------------------------------------------

    def begin_fault(self) -> None:
        """Start to measure the peak of memory."""
        reset_peak(self.broker.pid)

    def check(self) -> list[str]:
        """Check all guarantees; return the violations."""
        check_answers(self.port)
        if not self._is_paused:
            self.load.wait_for_progress(PROGRESS_S)
            self.pause()
        try:
            contents, committed = self.run(self._read)
            visible, group_offset = self.run(self._read_transactions)
        except (TimeoutError, OSError, EOFError) as error:
            raise Violation(f"the data cannot be read: {error!r}") from error
        violations = self._check_data(contents, committed)
        violations += self.load.transaction_ledger.check(visible, group_offset)
        self.resume()
        try:
            self.load.wait_for_progress(PROGRESS_S)
        except Violation as violation:
            violations.append(str(violation))
        violations += self.load.take_violations()
        violations += self._check_heartbeats()
        violations += self._check_process()
        text = self.broker.log
        complete = text[: text.rfind("\n") + 1]
        violations += check_log(complete[self._checked_bytes :])
        self._checked_bytes = len(complete)
        return violations

    async def _read(self, client: RawClient) -> tuple[list[Content], list[list[int]]]:
        contents = [await read_partition(client, ledger) for ledger in self.load.partitions]
        partitions = range(PARTITIONS[SEQUENCED])
        return contents, [await client.committed(ledger.group, SEQUENCED, partitions) for ledger in self.load.groups]

    async def _read_transactions(self, client: RawClient) -> tuple[list[list[int]], int]:
        visible = [await read_committed(client, partition) for partition in range(TRANSACTIONAL_PARTITIONS)]
        return visible, await read_group_offset(client, self.load.transaction_group)

    def _check_data(self, contents: Sequence[Content], committed: Sequence[Sequence[int]]) -> list[str]:
        violations = []
        for ledger, content in zip(self.load.partitions, contents, strict=True):
            path, loss = self.losses.get(ledger.name, (self.data, None))
            if loss is not None:
                loss.reported_from = self._reported_from(path)
                self.counts.reported_losses += loss.reported_from is not None
                self.load.allow_lost_state(ledger.name)
            violations += ledger.check(content, loss)
        for group, offsets in zip(self.load.groups, committed, strict=True):
            path = self.damaged_offsets.get(group.offsets_partition, self.data)
            is_reported = path != self.data and self._reported_from(path) is not None
            if is_reported:
                self.load.allow_lost_state(path.parent.name)
            violations += group.check(offsets, is_loss_reported=is_reported)
        self.losses.clear()
        self.damaged_offsets.clear()
        return violations

    def _reported_from(self, path: Path) -> int | None:
        """Return from which offset on the broker's log reports a loss in this file; 0 if it does not say."""
        lines = warnings_about(self.broker.log, path.parent.name, path.name)
        offsets = [int(match[1]) for line in lines if (match := _BEFORE_OFFSET.search(line))]
        return min(offsets, default=0) if lines else None

    def _check_heartbeats(self) -> list[str]:
        report = self.bystanders.report()
        oracle = self.counts.heartbeats
        violations = oracle.check(report.heartbeats, self._stopped, report.pending_since, time.monotonic())
        # A heartbeat of the next report may have been sent in one of them.
        self._stopped = [interval for interval in self._stopped if interval.end > time.monotonic() - CHECK_S]
        return violations

    def _check_process(self) -> list[str]:
        with suppress(OSError):  # it has ended by itself: the log and the clients tell more
            peak_bytes = self.broker.peak_resident_bytes()
            self.counts.max_memory_bytes = max(self.counts.max_memory_bytes, peak_bytes)
            return check_memory(peak_bytes)
        return []


def _settings(rng: random.Random) -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "flush": rng.choice(("os", "os", "always")),
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.backoff.ms": str(rng.choice((0, 200, 15_000))),
        "log.segment.bytes": str(rng.choice((30_000, 100_000, 1_000_000))),
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
        "offsets.topic.segment.bytes": str(rng.choice((10_000, 100_000))),
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.segment.bytes": str(rng.choice((10_000, 100_000))),
        # As in Kafka, a producer that was silent for a day of the wall clock would lose its sequence.
        "producer.id.expiration.ms": str(2**31 - 1),
    }


def _free_port() -> int:
    """Choose a port that an episode of the same seed in another process does not choose, too."""
    choice = random.SystemRandom()
    while True:
        port = choice.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
