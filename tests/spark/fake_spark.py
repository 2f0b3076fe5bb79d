"""A streaming query without a JVM: Spark's calls on a source, in Spark's order, on the simulator's clock.

Invariants:
- Only the checkpoint survives a run: an offset log and a commit log. A run starts from it: a new query requests the
  initial offset; a query with an unfinished batch first requests the ranges of that batch.
- A batch runs through latestOffset(start=N), offset log N+1, commit(N), partitions(N, N+1), the processing, the sink,
  commit log N+1, and, with a listener, the report that N+1 is finished. A run can be killed between any two steps.
- latestOffset is called again while there is no new data. A stop does not wait for the batch.
- The code between the two state machines (`GroupMember`, `BatchPlanner`) does the same as the real one, in the same
  order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slackwater.group.assignors import TopicInfo
from slackwater.group.batches.batch_limits import BatchLimits
from slackwater.group.batches.config import BatchConfig
from slackwater.group.batches.effects import (
    BatchEffect,
    BatchEvent,
    CommitBatchOffsets,
    FetchCommitted,
    HoldPartitions,
    ReleasePartitions,
)
from slackwater.group.batches.machine import BatchPlanner
from slackwater.group.batches.offset import BatchOffset
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.member import (
    Callback,
    CommitDone,
    GroupMember,
    MemberConfig,
    MemberEffect,
    NotifyListener,
    OffsetsFetched,
    Raise,
    RefreshMetadata,
    Send,
)
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.broker import SimBroker
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.network import NetworkLink
from slackwater.sim.seeded_random import SeededRandom

METADATA_MAX_AGE_MS = 7_000
CLOSE_MS = 2_000
REPLAY_WAIT_MS = 5_000
POLL_INTERVAL_MS = 50


@dataclass(slots=True)
class Checkpoint:
    """The state of an application that survives its runs."""

    app: str
    offsets: list[BatchOffset] = field(default_factory=list)
    finished: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBehavior:
    """The behaviour of an application; durations are upper bounds of random values."""

    trigger_ms: int = 500
    work_ms: int = 1_500
    log_ms: int = 60
    max_offsets: int | None = None
    listener: bool = True


class QueryObserver(Protocol):
    """Is called at the steps of a run."""

    def on_batch_started(self, run: "FakeQuery", seq: int, ranges: Sequence[OffsetRange]) -> None:
        """A batch is in the checkpoint, and its tasks are started."""

    def on_batch_written(self, run: "FakeQuery", seq: int, ranges: Sequence[OffsetRange]) -> None:
        """A batch is in the sink."""

    def on_joined(self, run: "FakeQuery", generation_id: int) -> None:
        """A run has an assignment."""

    def on_partitions_removed(self, run: "FakeQuery", partitions: Iterable[TopicPartition], reason: str) -> None:
        """A run no longer owns these partitions: they were revoked or lost, or the run has ended."""

    def on_batch_event(self, run: "FakeQuery", event: BatchEvent) -> None:
        """The batch planner reports an event."""


class FakeQuery:
    """One run of a query, from its start to its end."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: MemberConfig,
        batches: BatchConfig,
        behavior: QueryBehavior,
        topic: str,
        simulation: "tuple[EventQueue, SeededRandom, SimBroker]",
        observer: QueryObserver,
    ) -> None:
        self.checkpoint = checkpoint
        checkpoint.runs += 1
        self.name = f"{checkpoint.app}.{checkpoint.runs}"
        self.config = config
        self.behavior = behavior
        self.topic = topic
        self.queue, self.random, self.broker = simulation
        self.observer = observer
        self.link = NetworkLink(self.queue, self.random, self.broker, f"/{self.name}")
        self.member = GroupMember(config)
        self.alive = True
        self.stopping = False
        self.fatal: Exception | None = None
        self.extra_work_ms = 0
        self.reading: list[OffsetRange] = []  # the ranges of the batch that is logged and not finished
        self.reading_seq = 0
        self.planned: BatchOffset | None = None  # planned and not yet logged
        self._stalled_until_ms = 0
        self._missed: list[Callable[[], None]] = []
        self._due_ms: int | None = None
        self._batches_due_ms: int | None = None
        self._effects: deque[BatchEffect] = deque()
        self._executing = False
        self.batches = BatchPlanner(batches, self._last())
        if checkpoint.offsets and self._unfinished():
            self._execute(self.batches.replay(self._last(), self.now_ms, wait_ms=REPLAY_WAIT_MS))
            self._soon(self._replayed)
        else:
            self._soon(self._latest)
        self._do(self.member.subscribe([topic], self.now_ms))
        self._refresh_later()

    # --- the checkpoint -----------------------------------------------------------------------------------------------

    def _last(self) -> BatchOffset:
        if self.checkpoint.offsets:
            return self.checkpoint.offsets[-1]
        starts = dict.fromkeys(self.broker.ends, 0)
        return BatchOffset(self.name, 0, self.config.group_id, starts=starts)

    def _unfinished(self) -> bool:
        return self.checkpoint.offsets[-1].seq > self.checkpoint.finished

    # --- Spark's calls ------------------------------------------------------------------------------------------------

    def _latest(self) -> None:
        if self.stopping:
            return
        last = self.batches.last
        self._execute(self.batches.on_finished(last.seq, self.now_ms))
        if self.batches.without_start:
            self._execute(self.batches.on_starts_resolved(dict.fromkeys(self.batches.without_start, 0), self.now_ms))
        ends = {partition: self.broker.ends[partition] for partition in self.batches.positions}
        limits = BatchLimits(self.behavior.max_offsets)
        offset, effects = self.batches.plan(ends, limits, self.now_ms, generation_id=self.member.generation_id)
        self._execute(effects)
        self.planned = offset
        if offset is None:
            self._later(self.random.between(100, 700), self._latest)
        else:
            self._later(self.random.between(0, self.behavior.log_ms), lambda: self._log(offset))

    def _log(self, offset: BatchOffset) -> None:
        if self.stopping:
            return
        self.checkpoint.offsets.append(offset)
        self._execute(self.batches.on_finished(offset.seq - 1, self.now_ms))  # commit(N)
        self._later(self.random.between(0, 5), lambda: self._partitions(offset.seq))

    def _partitions(self, seq: int) -> None:
        if self.stopping:
            return
        self._execute(self.batches.on_logged(seq, self.now_ms))
        ranges = self.batches.ranges(seq)
        assert ranges is not None, "a planned batch has ranges"
        assert sorted(ranges) == sorted(self.checkpoint.offsets[-1].ranges.values()), "the logged ranges are read"
        self._work(seq, ranges)

    def _replayed(self) -> None:
        """partitions(N-1, N), which waits until the ranges of this run are known."""
        if self.stopping:
            return
        seq = self.checkpoint.offsets[-1].seq
        ranges = self.batches.ranges(seq)
        if ranges is None:
            self._later(POLL_INTERVAL_MS, self._replayed)
        else:
            self._work(seq, ranges)

    def _work(self, seq: int, ranges: list[OffsetRange]) -> None:
        self.planned = None
        self.reading, self.reading_seq = ranges, seq
        self.observer.on_batch_started(self, seq, ranges)
        work_ms = self.random.between(10, self.behavior.work_ms) + self.extra_work_ms
        self.extra_work_ms = 0
        self._later(work_ms, lambda: self._sink(seq, ranges))

    def _sink(self, seq: int, ranges: list[OffsetRange]) -> None:
        if self.stopping:
            return
        self.observer.on_batch_written(self, seq, ranges)
        self._later(self.random.between(0, 10), lambda: self._finish(seq))

    def _finish(self, seq: int) -> None:
        if self.stopping:
            return
        self.checkpoint.finished = seq
        if self.behavior.listener:
            self._later(self.random.between(0, 20), lambda: self._execute(self.batches.on_finished(seq, self.now_ms)))
        self._later(self.random.between(0, self.behavior.trigger_ms), self._latest)

    # --- faults and stops ---------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the run at once, without leaving the group."""
        if self.alive:
            self.alive = False
            self.observer.on_partitions_removed(self, self.batches.owned, "killed")

    def stop(self) -> None:
        """Commit the finished batches and leave the group."""
        self._run(self._stop)

    def stall(self, length_ms: int) -> None:
        """Block the process, including its heartbeats."""
        self._stalled_until_ms = max(self._stalled_until_ms, self.now_ms + length_ms)
        self.queue.at(self._stalled_until_ms, self._wake)

    def enforce_rebalance(self) -> None:
        """Request a rebalance."""
        self._run(lambda: self._do(self.member.enforce_rebalance("", self.now_ms)) if not self.stopping else None)

    def _stop(self) -> None:
        if self.stopping:
            return
        self.stopping = True
        self._execute(self.batches.stop(self.now_ms))
        deadline_ms = self.now_ms + CLOSE_MS

        def close() -> None:
            if self.batches.has_pending_commits and self.now_ms < deadline_ms:
                self._later(POLL_INTERVAL_MS, close)
            else:
                self._do(self.member.close(self.now_ms, timeout_ms=CLOSE_MS))
                self._later(CLOSE_MS, self.kill)

        close()

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The current time."""
        return self.queue.now_ms

    def _soon(self, action: Callable[[], None]) -> None:
        self._later(self.random.between(0, 200), action)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.queue.after(delay_ms, lambda: self._run(action))

    def _run(self, action: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.now_ms < self._stalled_until_ms:
            self._missed.append(action)
        else:
            action()

    def _wake(self) -> None:
        if self.alive and self.now_ms >= self._stalled_until_ms:
            missed, self._missed = self._missed, []
            for action in missed:
                self._run(action)

    # --- the batches' effects -----------------------------------------------------------------------------------------

    def _execute(self, effects: list[BatchEffect]) -> None:
        self._effects.extend(effects)
        if self._executing:
            return
        self._executing = True
        try:
            while self._effects:
                self._execute_effect(self._effects.popleft())
        finally:
            self._executing = False
        if self.batches.failure is not None:
            self._fail(self.batches.failure)
        self._plan_batches_tick()

    def _execute_effect(self, effect: BatchEffect) -> None:
        match effect:
            case HoldPartitions():
                self.member.hold(effect.partitions)
            case ReleasePartitions():
                self._do(self.member.release(effect.partitions, self.now_ms))
            case CommitBatchOffsets():
                try:
                    effects = self.member.commit(effect.offsets, self.now_ms, commit_id=effect.commit_id, sync=True)
                except UsageError as error:
                    self._execute(self.batches.on_commit_done(effect.commit_id, error, self.now_ms))
                else:
                    self._do(effects)
            case FetchCommitted():
                if not self.stopping:
                    self._do(self.member.fetch_committed(effect.partitions, self.now_ms, fetch_id=effect.fetch_id))
            case BatchEvent():
                self.observer.on_batch_event(self, effect)

    def _plan_batches_tick(self) -> None:
        due_ms = self.batches.next_due_ms()
        if due_ms is None or (self._batches_due_ms is not None and self._batches_due_ms <= due_ms):
            return
        self._batches_due_ms = due_ms = max(due_ms, self.now_ms + 1)
        self.queue.at(due_ms, lambda: self._run(lambda: self._batches_tick(due_ms)))

    def _batches_tick(self, due_ms: int) -> None:
        if self._batches_due_ms == due_ms:
            self._batches_due_ms = None
            self._execute(self.batches.tick(self.now_ms))

    # --- the member's effects -----------------------------------------------------------------------------------------

    def _do(self, effects: Iterable[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case NotifyListener():
                    self._later(0, lambda effect=effect: self._notify(effect))  # type: ignore[misc]
                case CommitDone():
                    self._execute(self.batches.on_commit_done(effect.commit_id, effect.error, self.now_ms))
                case OffsetsFetched():
                    failed = effect.error is not None
                    self._execute(
                        self.batches.on_committed_fetched(effect.fetch_id, effect.offsets, self.now_ms, failed=failed)
                    )
                case RefreshMetadata():
                    self._later(self.random.between(0, self.link.max_delay_ms), self._refresh)
                case Raise():
                    self._fail(effect.error)
                case _:
                    pass
        if self.alive:
            if self.member.pending_revocation != self.batches.leaving:
                self._execute(self.batches.set_leaving(self.member.pending_revocation, self.now_ms))
            self._plan_tick()

    def _notify(self, notify: NotifyListener) -> None:
        partitions = notify.partitions
        match notify.callback:
            case Callback.ASSIGNED:
                self.observer.on_joined(self, self.member.generation_id)
                self._execute(self.batches.on_assigned(partitions, self.now_ms))
            case Callback.REVOKED:
                self.observer.on_partitions_removed(self, partitions, "stopped" if self.stopping else "revoked")
                self._execute(self.batches.on_revoked(partitions, self.now_ms))
            case Callback.LOST:
                self.observer.on_partitions_removed(self, partitions, "lost")
                self._execute(self.batches.on_lost(partitions, self.now_ms))
        self._do(self.member.on_listener_done(self.now_ms))

    def _fail(self, error: Exception) -> None:
        self.fatal = error
        self.kill()

    @property
    def is_fenced(self) -> bool:
        """Whether the run was fenced by another member with its instance id."""
        return isinstance(self.fatal, BrokerError) and self.fatal.error is Error.FENCED_INSTANCE_ID

    def _send(self, send: Send) -> None:
        request_id = send.request_id
        self.link.send(
            send.request,
            send.timeout_ms,
            lambda response: self._run(lambda: self._do(self.member.on_response(request_id, response, self.now_ms))),
            lambda: self._run(lambda: self._do(self.member.on_request_failed(request_id, self.now_ms))),
        )

    def _refresh(self) -> None:
        count = sum(1 for partition in self.broker.ends if partition.topic == self.topic)
        self._do(self.member.on_metadata({self.topic: TopicInfo(count)}, self.now_ms))

    def _refresh_later(self) -> None:
        self._later(METADATA_MAX_AGE_MS, self._refresh_by_age)

    def _refresh_by_age(self) -> None:
        if not self.stopping:
            self._refresh()
            self._refresh_later()

    def _plan_tick(self) -> None:
        due_ms = self.member.next_due_ms()
        if due_ms is None or (self._due_ms is not None and self._due_ms <= due_ms):
            return
        self._due_ms = due_ms = max(due_ms, self.now_ms)
        self.queue.at(due_ms, lambda: self._tick(due_ms))

    def _tick(self, due_ms: int) -> None:
        if self._due_ms == due_ms:
            self._run(self._tick_now)

    def _tick_now(self) -> None:
        self._due_ms = None
        self._do(self.member.tick(self.now_ms))
