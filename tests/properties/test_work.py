"""The work scheduler compared with a model of plain lists.

Invariants, for any sequence of polls, results, retries, rebalances and times:
- An order key has at most one running record, and the records of an order key start in the order received.
- A committed offset is the offset of the first unfinished record.
- At most `workers` tasks run, and no worker is idle while a record could start.
- The paused partitions follow from the high and low water marks.
- Every record of an owned partition is finished in the end, and its attempts are counted without a gap.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slackwater.group.messages import OffsetToCommit
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.work.config import ProcessingOrder, RevokeMode, WorkConfig
from slackwater.group.work.effects import (
    AbandonTasks,
    CommitFinished,
    PartitionsDrained,
    PausePartitions,
    ResumePartitions,
    StartTask,
    StopProcessing,
    WorkEffect,
    WriteDeadLetter,
)
from slackwater.group.work.scheduler import WorkScheduler

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
BROKEN = ValueError("broken")


class Record(NamedTuple):
    """A record with the number of the assignment in which it was received."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    size: int
    epoch: int


@dataclass
class Owned:
    """One assignment of a partition, as a list."""

    epoch: int
    received: list[Record] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)
    busy: set[int] = field(default_factory=set)  # at a worker or at the dead-letter writer
    waiting: set[int] = field(default_factory=set)  # for the end of a backoff
    attempts: dict[int, int] = field(default_factory=dict)
    full: bool = False
    handed_back: set[int] = field(default_factory=set)
    deadline_ms: int | None = None

    def unfinished(self) -> list[Record]:
        return [record for record in self.received if record.offset not in self.finished]

    def in_flight(self) -> list[Record]:
        return [record for record in self.unfinished() if record.offset not in self.handed_back]

    def position(self) -> int:
        left = self.unfinished()
        return left[0].offset if left else self.received[-1].offset + 1

    def span(self) -> int:
        left = self.unfinished()
        return len(self.received) - self.received.index(left[0]) if left else 0


class WorkMachine(RuleBasedStateMachine):
    """Polls, workers, rebalances and the clock in any order."""

    @initialize(
        order=st.sampled_from(ProcessingOrder),
        workers=st.integers(1, 4),
        max_attempts=st.sampled_from([1, 2, 3, None]),
        total=st.integers(4, 12),
        replay_bound=st.integers(4, 10),
    )
    def start(
        self, order: ProcessingOrder, workers: int, max_attempts: int | None, total: int, replay_bound: int
    ) -> None:
        self.config = WorkConfig(
            workers=workers,
            order=order,
            high_water_records=4,
            low_water_records=2,
            total_high_water_records=total,
            total_low_water_records=total // 2,
            total_high_water_bytes=100,
            total_low_water_bytes=40,
            max_uncommitted_records=replay_bound,
            max_attempts=max_attempts,
            auto_commit_interval_ms=300,
        )
        self.scheduler: WorkScheduler[Record] = WorkScheduler(self.config)
        self.now_ms = 0
        self.epochs = 0
        self.next_offset = dict.fromkeys(PARTITIONS, 0)
        self.owned: dict[TopicPartition, Owned] = {}
        self.running: dict[int, Record] = {}
        self.letters: dict[int, Record] = {}
        self.abandoned: set[int] = set()
        self.paused: set[TopicPartition] = set()
        self.full = False
        self.open_revokes = 0
        self.seen_ids: set[int] = set()
        self.assigned(set(PARTITIONS))

    # --- rules ----------------------------------------------------------------------------------------------------

    @rule(chosen=st.just(set(PARTITIONS)) | st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def assigned(self, chosen: set[TopicPartition]) -> None:
        new = [partition for partition in PARTITIONS if partition in chosen and partition not in self.owned]
        for partition in new:
            self.epochs += 1
            self.owned[partition] = Owned(self.epochs)
        self._measure([])
        self._carry_out(self.scheduler.on_assigned(new, self.now_ms))

    @rule(
        data=st.lists(
            st.tuples(
                st.sampled_from(PARTITIONS),
                st.integers(0, 2),
                st.sampled_from([None, b"x", b"y", b"z"]),
                st.integers(0, 30),
            ),
            min_size=1,
            max_size=12,
        )
    )
    def received(self, data: list[tuple[TopicPartition, int, bytes | None, int]]) -> None:
        batch: list[Record] = []
        touched: list[TopicPartition] = []
        for partition, gap, key, size in data:
            owned = self.owned.get(partition)
            offset = self.next_offset[partition] + gap
            self.next_offset[partition] = offset + 1
            record = Record(*partition, offset, key, size, owned.epoch if owned else -1)
            batch.append(record)
            if owned is not None and owned.deadline_ms is None:
                owned.received.append(record)
                touched.append(partition)
        self._measure(touched)
        self._carry_out(self.scheduler.on_records(batch, self.now_ms))

    @rule(chosen=st.sampled_from(PARTITIONS))
    def received_again(self, chosen: TopicPartition) -> None:
        owned = self.owned.get(chosen)
        if owned is not None:
            self._carry_out(self.scheduler.on_records(owned.received, self.now_ms))

    @rule(
        results=st.lists(
            st.tuples(st.integers(0, 3), st.sampled_from(["finish", "finish", "fail", "fail for good"])),
            min_size=1,
            max_size=8,
        ),
        random=st.floats(0, 1, exclude_max=True),
    )
    def report_results(self, results: list[tuple[int, str]], random: float) -> None:
        for pick, result in results:
            if self.running and result == "finish":
                self.finished(pick)
            elif self.running:
                self.failed(pick, result == "fail", random)

    def finished(self, pick: int) -> None:
        task_id, record, owned = self._take(self.running, pick)
        if owned is not None:
            owned.finished.add(record.offset)
            self._measure([self._partition(record)])
        self._carry_out(self.scheduler.on_finished(task_id, self.now_ms))

    def failed(self, pick: int, retriable: bool, random: float) -> None:
        task_id, record, owned = self._take(self.running, pick)
        if owned is not None:
            max_attempts = self.config.max_attempts
            if not retriable or (max_attempts is not None and owned.attempts[record.offset] >= max_attempts):
                owned.busy.add(record.offset)  # at the dead-letter writer
            else:
                self._retry(owned, record)
        self._carry_out(self.scheduler.on_failed(task_id, BROKEN, self.now_ms, retriable=retriable, random=random))

    @precondition(lambda self: self.letters)
    @rule(pick=st.integers(0, 3), succeeds=st.booleans())
    def dead_letter(self, pick: int, succeeds: bool) -> None:
        task_id, record, owned = self._take(self.letters, pick)
        if owned is not None and succeeds:
            owned.finished.add(record.offset)
            self._measure([self._partition(record)])
        elif owned is not None:
            self._retry(owned, record)
        report = self.scheduler.on_dead_letter_written if succeeds else self.scheduler.on_dead_letter_failed
        self._carry_out(report(task_id, self.now_ms))

    @rule(pick=st.integers(0, 30))
    def late_result(self, pick: int) -> None:
        late = sorted(self.seen_ids - set(self.running) - set(self.letters))
        if late:
            task_id = late[pick % len(late)]
            effects = [
                *self.scheduler.on_finished(task_id, self.now_ms),
                *self.scheduler.on_failed(task_id, BROKEN, self.now_ms),
                *self.scheduler.on_dead_letter_written(task_id, self.now_ms),
                *self.scheduler.on_dead_letter_failed(task_id, self.now_ms),
            ]
            assert effects == []

    @rule(
        chosen=st.sets(st.sampled_from(PARTITIONS), min_size=1, max_size=2),
        within_ms=st.integers(0, 400),
        drain=st.sampled_from([True, True, False]),
        lost=st.booleans(),
    )
    def remove_partitions(self, chosen: set[TopicPartition], within_ms: int, drain: bool, lost: bool) -> None:
        if lost:
            self.lost(chosen)
        else:
            self.revoke(chosen, within_ms, drain)

    def revoke(self, chosen: set[TopicPartition], within_ms: int, drain: bool) -> None:
        deadline_ms = self.now_ms + within_ms if drain else self.now_ms
        leaving = [partition for partition in PARTITIONS if partition in chosen and partition in self.owned]
        for partition in leaving:
            owned = self.owned[partition]
            owned.deadline_ms = deadline_ms
            owned.handed_back |= {record.offset for record in owned.unfinished()} - owned.busy
            owned.waiting.clear()
        self.open_revokes += 1
        mode = RevokeMode.DRAIN if drain else RevokeMode.ABANDON
        effects = self.scheduler.revoke(leaving, self.now_ms, self.now_ms + within_ms, mode)
        drained = {
            partition for effect in effects if isinstance(effect, PartitionsDrained) for partition in effect.partitions
        }
        self._measure([partition for partition in leaving if partition not in drained], without=drained)
        self._carry_out(effects)

    def lost(self, chosen: set[TopicPartition]) -> None:
        for partition in chosen:
            self.owned.pop(partition, None)
            self.paused.discard(partition)
        self._measure([])
        self._carry_out(self.scheduler.on_lost(chosen, self.now_ms))

    @rule(duration_ms=st.sampled_from([0, 1, 50, 120, 500, 1_500]))
    def time_passes(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while (due_ms := self.scheduler.next_due_ms()) is not None and due_ms <= until_ms:
            assert due_ms >= self.now_ms
            self.now_ms = due_ms
            self._carry_out(self.scheduler.tick(due_ms))
            after_ms = self.scheduler.next_due_ms()
            assert after_ms is None or after_ms > due_ms
        self.now_ms = until_ms

    # --- invariants -----------------------------------------------------------------------------------------------

    @invariant()
    def check_workers(self) -> None:
        assert len(self.running) == self.scheduler.running <= self.config.workers
        if len(self.running) < self.config.workers:
            assert self._startable() == []

    @invariant()
    def check_order(self) -> None:
        order_keys = [
            order_key for record in self.running.values() if (order_key := self._order_key(record)) is not None
        ]
        assert len(order_keys) == len(set(order_keys))

    @invariant()
    def check_paused_partitions(self) -> None:
        expected = {
            partition
            for partition, owned in self.owned.items()
            if self.full or owned.full or owned.deadline_ms is not None
        }
        assert self.paused == self.scheduler.paused == expected

    @invariant()
    def check_counts(self) -> None:
        in_flight = [record for owned in self.owned.values() for record in owned.in_flight()]
        assert self.scheduler.in_flight == len(in_flight)
        assert self.scheduler.in_flight_bytes == sum(record.size for record in in_flight)
        assert self.scheduler.partitions == set(self.owned)

    @invariant()
    def check_committable(self) -> None:
        assert set(self.scheduler.committable()) == self._positions(set(self.owned))

    def teardown(self) -> None:
        """Finish all records of the owned partitions; none may be lost."""
        if not hasattr(self, "scheduler"):
            return
        for _ in range(10_000):
            if self.running:
                self.finished(0)
            elif self.letters:
                self.dead_letter(0, True)
            elif self.scheduler.in_flight:
                due_ms = self.scheduler.next_due_ms()
                assert due_ms is not None
                self.time_passes(max(due_ms - self.now_ms, 0))
            else:
                break
        for owned in self.owned.values():
            assert not owned.in_flight()
        assert not self.full

    # --- model ----------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[WorkEffect[Record]]) -> None:
        for effect in effects:
            match effect:
                case StartTask(task_id, record, attempt):
                    self._started(task_id, record, attempt)
                case WriteDeadLetter(task_id, record, error, attempts):
                    owned = self._owner(record)
                    assert owned is not None
                    assert error is BROKEN
                    assert attempts == owned.attempts[record.offset]
                    assert task_id not in self.seen_ids
                    self.seen_ids.add(task_id)
                    self.letters[task_id] = record
                    owned.waiting.discard(record.offset)
                    owned.busy.add(record.offset)
                case AbandonTasks(task_ids):
                    assert set(task_ids) <= set(self.running)
                    self.abandoned |= set(task_ids)
                case PausePartitions(partitions):
                    assert not self.paused & set(partitions)
                    self.paused |= set(partitions)
                case ResumePartitions(partitions):
                    assert self.paused >= set(partitions)
                    self.paused -= set(partitions)
                case CommitFinished(offsets):
                    assert set(offsets) <= self._positions(set(self.owned))
                case PartitionsDrained(partitions, offsets):
                    self._drained(set(partitions), offsets)
                case StopProcessing():
                    raise AssertionError("the failure policy is dead letters")

    def _started(self, task_id: int, record: Record, attempt: int) -> None:
        owned = self._owner(record)
        assert owned is not None
        assert owned.deadline_ms is None
        assert task_id not in self.seen_ids
        order_key = self._order_key(record)
        if order_key is not None:
            oldest = next(other for other in owned.unfinished() if self._order_key(other) == order_key)
            assert oldest == record
        owned.attempts[record.offset] = owned.attempts.get(record.offset, 0) + 1
        assert owned.attempts[record.offset] == attempt
        owned.waiting.discard(record.offset)
        owned.busy.add(record.offset)
        self.seen_ids.add(task_id)
        self.running[task_id] = record

    def _drained(self, partitions: set[TopicPartition], offsets: tuple[OffsetToCommit, ...]) -> None:
        assert set(offsets) == self._positions(partitions)
        for partition in partitions:
            owned = self.owned.pop(partition)
            assert owned.deadline_ms is not None
            assert not owned.busy or self.now_ms >= owned.deadline_ms
            self.paused.discard(partition)
        self._measure([])
        self.open_revokes -= 1
        assert self.open_revokes >= 0

    def _take(self, tasks: dict[int, Record], pick: int) -> tuple[int, Record, Owned | None]:
        """Remove a task; return it with its assignment, if the partition is still owned."""
        task_id = sorted(tasks)[pick % len(tasks)]
        record = tasks.pop(task_id)
        owned = self._owner(record)
        assert (owned is None) >= (task_id in self.abandoned)
        if owned is not None:
            owned.busy.discard(record.offset)
        return task_id, record, owned

    def _retry(self, owned: Owned, record: Record) -> None:
        if owned.deadline_ms is None:
            owned.waiting.add(record.offset)
        else:
            owned.handed_back.add(record.offset)
            self._measure([])

    def _measure(self, touched: list[TopicPartition], without: set[TopicPartition] | None = None) -> None:
        for partition in touched:
            owned = self.owned[partition]
            if owned.deadline_ms is None:
                count, span, config = len(owned.in_flight()), owned.span(), self.config
                if owned.full:
                    owned.full = count > config.low_water_records or span > config.max_uncommitted_records // 2
                else:
                    owned.full = count >= config.high_water_records or span >= config.max_uncommitted_records
        counted = [
            record
            for partition, owned in self.owned.items()
            if partition not in (without or ())
            for record in owned.in_flight()
        ]
        count, size, config = len(counted), sum(record.size for record in counted), self.config
        if self.full:
            self.full = count > config.total_low_water_records or size > config.total_low_water_bytes
        else:
            self.full = count >= config.total_high_water_records or size >= config.total_high_water_bytes

    def _positions(self, partitions: set[TopicPartition]) -> set[OffsetToCommit]:
        return {
            OffsetToCommit(*partition, owned.position())
            for partition in partitions
            if (owned := self.owned[partition]).received and owned.position() > owned.received[0].offset
        }

    def _startable(self) -> list[Record]:
        busy_order_keys = {self._order_key(record) for record in self.running.values()}
        startable: list[Record] = []
        for owned in self.owned.values():
            if owned.deadline_ms is not None:
                continue
            for record in owned.unfinished():
                order_key = self._order_key(record)
                is_idle = record.offset not in owned.busy and record.offset not in owned.waiting
                if order_key is None and is_idle:
                    startable.append(record)
                elif order_key is not None and order_key not in busy_order_keys:
                    busy_order_keys.add(order_key)
                    if is_idle:
                        startable.append(record)
        return startable

    def _order_key(self, record: Record) -> tuple[TopicPartition, bytes] | None:
        """Return the order_key of a record, independent of its assignment."""
        if self.config.order is ProcessingOrder.PARTITION:
            return self._partition(record), b""
        if self.config.order is ProcessingOrder.KEY and record.key is not None:
            return self._partition(record), record.key
        return None

    def _owner(self, record: Record) -> Owned | None:
        owned = self.owned.get(self._partition(record))
        return owned if owned is not None and owned.epoch == record.epoch else None

    @staticmethod
    def _partition(record: Record) -> TopicPartition:
        return TopicPartition(record.topic, record.partition)


TestWork = WorkMachine.TestCase
TestWork.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
