"""The work scheduler: records handed to workers off the poll thread, and offsets that say what has really finished.

Rules kept here
- Order is kept per partition, per key of a partition, or not at all; of one lane never two records are under way,
  not even one of this assignment and one of an assignment that was lost.
- A committed offset never passes a record that is not finished: handled, or written to the dead-letter topic.
- Back-pressure is pause and resume, never a poll that waits. A partition assigned while everything is paused comes up
  paused, and is resumed with the others.
- A retry waits in its own lane only. Attempts are counted for as long as the partition stays assigned, over any number
  of polls, and end with the assignment.
- Before a revoke, records that nobody has begun go back at once; those under way are waited for until the deadline. A
  lost partition is dropped at once, without a commit.
- A result counts only for the assignment its task was started in, even if the partition has come back since.

Each input returns the effects it has, in order; timers that have come due by then are carried out with it, and `tick`
is the input with nothing else to say. Free workers are dealt to partitions in turn, so that a partition with a long
queue does not keep the others waiting. Offsets of a partition only rise within an assignment: a record received again
is ignored, so a shell that seeks back calls `lost` and `assigned` for that partition.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Generic

from slackwater.group.messages import OffsetToCommit
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.work.config import ExhaustedAction, ProcessingOrder, RevokeMode, WorkConfig
from slackwater.group.work.effects import (
    AbandonTasks,
    CommitFinished,
    PausePartitions,
    R,
    ResumePartitions,
    StartTask,
    StopProcessing,
    WorkEffect,
    WriteDeadLetter,
)
from slackwater.group.work.partition import PARTITION_LANE, UNKNOWN, PartitionWork
from slackwater.group.work.revocation import Revocation
from slackwater.group.work.task import Task, TaskInput, TaskState


class WorkScheduler(Generic[R]):
    """Decides which record goes to a worker when, and what may be committed."""

    def __init__(self, config: WorkConfig) -> None:
        self.config = config
        self._partitions: dict[tuple[str, int], PartitionWork[R]] = {}
        self._rotation: deque[PartitionWork[R]] = deque()  # partitions with something ready, whose turn comes in order
        self._out: dict[int, Task[R]] = {}  # by task id: with a worker, or with the dead-letter writer
        self._orphans: set[tuple[TopicPartition, bytes]] = set()  # lanes held by abandoned tasks
        self._retries: list[tuple[int, int, Task[R]]] = []  # a heap; dropped tasks leave it when they come due
        self._revocations: list[Revocation[R]] = []
        self._last_id = 0
        self._running = 0
        self._in_flight = 0
        self._bytes = 0
        self._full = False
        self._halted = False
        self._commit_due_ms: int | None = None
        self._wake_ms: int | None = None  # no timer is due before

    # --- what a shell may ask ------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Records of owned partitions that were received and are not finished."""
        return self._in_flight

    @property
    def in_flight_bytes(self) -> int:
        """The size of the records in flight."""
        return self._bytes

    @property
    def running(self) -> int:
        """Workers that are busy, abandoned tasks included."""
        return self._running

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions owned, draining ones included."""
        return frozenset(work.topic_partition for work in self._partitions.values())

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions the shell was told to pause."""
        return frozenset(work.topic_partition for work in self._partitions.values() if work.paused)

    def committable(self) -> tuple[OffsetToCommit, ...]:
        """For every partition in which anything was finished, the offset below which everything is."""
        return tuple(offset for work in self._partitions.values() for offset in work.to_commit(work.start))

    def next_due_ms(self) -> int | None:
        """When `tick` has something to do, or None while nothing is waiting for time to pass."""
        while self._retries and self._retries[0][2].state not in (TaskState.RETRYING, TaskState.REWRITING):
            heappop(self._retries)
        due = [revocation.deadline_ms for revocation in self._revocations]
        if self._retries:
            due.append(self._retries[0][0])
        if self._commit_due_ms is not None:
            due.append(self._commit_due_ms)
        self._wake_ms = min(due, default=None)
        return self._wake_ms

    # --- partitions come and go ----------------------------------------------------------------------------------

    def on_assigned(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[WorkEffect[R]]:
        """Own these partitions from now on; one that is owned already keeps its work."""
        effects: list[WorkEffect[R]] = []
        added: list[PartitionWork[R]] = []
        for partition in partitions:
            known = self._partitions.get(partition)
            if known is not None:
                if known.revocation is None:
                    continue
                # It drains, and is given back before it was let go: a new assignment all the same.
                self._forget([known], effects)
                self._end_revocations(effects, now_ms)
            work: PartitionWork[R] = PartitionWork(partition)
            # A worker may still be busy with a record of an assignment that was lost: its lane is shut until it ends.
            work.lanes = {lane: None for owner, lane in self._orphans if owner == partition}
            self._partitions[partition] = work
            added.append(work)
        if added and self._commit_due_ms is None:
            self._arm_commit(now_ms)
        self._press(added, effects)
        return self._settled(effects, now_ms)

    def revoke(
        self, partitions: Iterable[TopicPartition], now_ms: int, deadline_ms: int, mode: RevokeMode = RevokeMode.DRAIN
    ) -> list[WorkEffect[R]]:
        """Give these partitions up in good order, by `deadline_ms` at the latest; `Drained` says when they can go."""
        effects: list[WorkEffect[R]] = []
        leaving = self._owned(partitions)
        for work in leaving:
            if work.revocation is None:
                self._uncount(work.stop())
            else:
                work.revocation.partitions.remove(work)  # the later call decides
        revocation = Revocation(leaving, now_ms if mode is RevokeMode.ABANDON else deadline_ms)
        for work in leaving:
            work.revocation = revocation
        self._revocations.append(revocation)
        self._end_revocations(effects, now_ms)
        self._press([work for work in leaving if work.topic_partition in self._partitions], effects)
        if revocation in self._revocations:
            self._wake_at(deadline_ms)
        return self._settled(effects, now_ms)

    def on_lost(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[WorkEffect[R]]:
        """These partitions are somebody else's already: drop their work, commit nothing."""
        effects: list[WorkEffect[R]] = []
        self._forget(self._owned(partitions), effects)
        self._end_revocations(effects, now_ms)
        return self._settled(effects, now_ms)

    # --- records in, results in ----------------------------------------------------------------------------------

    def on_records(
        self, records: Iterable[R], now_ms: int, next_offsets: Mapping[TopicPartition, int] | None = None
    ) -> list[WorkEffect[R]]:
        """Take what a poll brought.

        `next_offsets` are the consumer's positions after it, where they are known: they lie beyond the last record
        when what follows is no record (transaction markers), and let the committed offset reach the log's end.
        """
        effects: list[WorkEffect[R]] = []
        touched: dict[tuple[str, int], PartitionWork[R]] = {}
        work: PartitionWork[R] | None = None
        topic, number = "", UNKNOWN
        order = self.config.order
        count = size = 0
        for record in records:
            if record.partition != number or record.topic != topic:
                topic, number = record.topic, record.partition
                work = self._partitions.get((topic, number))
                if work is not None and work.revocation is not None:
                    work = None  # it is on its way out: its next owner reads this record
                if work is not None:
                    touched[topic, number] = work
            if work is None:
                continue
            offset = record.offset
            if offset < work.next_offset:
                continue
            if work.next_offset == UNKNOWN:
                work.start = work.reported = offset
            work.next_offset = offset + 1
            if order is ProcessingOrder.PARTITION:
                lane: bytes | None = PARTITION_LANE
            else:
                lane = record.key if order is ProcessingOrder.KEY else None
            task = Task(record, offset, work, lane, work.received)
            work.received += 1
            work.enqueue(task)
            count += 1
            size += task.size
        self._in_flight += count
        self._bytes += size
        for partition, next_offset in (next_offsets or {}).items():
            owned = self._partitions.get(partition)
            if owned is not None and owned.revocation is None:
                owned.advance_to(next_offset)
        for work in touched.values():
            self._rotate(work)
        self._press(touched.values(), effects)
        return self._settled(effects, now_ms)

    def on_finished(self, task_id: int, now_ms: int) -> list[WorkEffect[R]]:
        """A worker has handled its record."""
        effects: list[WorkEffect[R]] = []
        task = self._out.get(task_id)
        if task is None or (state := task.move(TaskInput.FINISH)) is None:
            return effects  # answered before
        del self._out[task_id]
        self._running -= 1
        if state is TaskState.DONE:
            self._done(task, effects, now_ms)
        else:
            self._orphan_ended(task)
        return self._settled(effects, now_ms)

    def on_failed(
        self, task_id: int, error: BaseException, now_ms: int, *, retriable: bool = True, random: float = 0.5
    ) -> list[WorkEffect[R]]:
        """A worker could not handle its record; `random`, from [0, 1), spreads the retries."""
        effects: list[WorkEffect[R]] = []
        task = self._out.get(task_id)
        if task is None:
            return effects
        abandoned = task.state is TaskState.ABANDONED
        state = task.move(self._after_failure(task, retriable))
        if state is None:
            return effects
        del self._out[task_id]
        self._running -= 1
        task.error = error
        match state:
            case TaskState.DEAD_LETTERING:
                effects.append(self._dead_letter(task, error))
            case TaskState.RETRYING:
                task.partition.out -= 1
                self._wait(task, now_ms + self.config.backoff_ms(task.attempts, random))
            case TaskState.FAILED:
                task.partition.out -= 1
                self._halted = True
                effects.append(StopProcessing(task.record, error, task.attempts))
                self._end_revocations(effects, now_ms)
            case _ if abandoned:
                self._orphan_ended(task)
            case _:
                self._hand_back(task, effects, now_ms)
        return self._settled(effects, now_ms)

    def on_dead_letter_written(self, task_id: int, now_ms: int) -> list[WorkEffect[R]]:
        """A dead letter is safe: its record counts as finished."""
        effects: list[WorkEffect[R]] = []
        task = self._out.get(task_id)
        if task is None or task.move(TaskInput.WRITTEN) is None:
            return effects
        del self._out[task_id]
        self._done(task, effects, now_ms)
        return self._settled(effects, now_ms)

    def on_dead_letter_failed(self, task_id: int, now_ms: int, *, random: float = 0.5) -> list[WorkEffect[R]]:
        """A dead letter could not be written: try again, for as long as the partition is owned."""
        effects: list[WorkEffect[R]] = []
        task = self._out.get(task_id)
        if task is None:
            return effects
        draining = task.partition.revocation is not None
        state = task.move(TaskInput.LEAVE_UNWRITTEN if draining else TaskInput.WRITE_FAILED)
        if state is None:
            return effects
        del self._out[task_id]
        if state is TaskState.REWRITING:
            task.partition.out -= 1
            self._wait(task, now_ms + self.config.backoff_ms(task.writes, random))
        else:
            self._hand_back(task, effects, now_ms)
        return self._settled(effects, now_ms)

    # --- commits and time ----------------------------------------------------------------------------------------

    def commit(self) -> list[WorkEffect[R]]:
        """Commit now what has finished since the last `CommitFinished`."""
        offsets: list[OffsetToCommit] = []
        for work in self._partitions.values():
            new = work.to_commit(work.reported)
            if new:
                work.reported = new[0].offset
                offsets += new
        return [CommitFinished(tuple(offsets))] if offsets else []

    def on_commit_failed(self, partitions: Iterable[TopicPartition]) -> None:
        """The last commit of these partitions did not reach the coordinator: the next one brings them again."""
        for work in self._owned(partitions):
            work.reported = work.start

    def tick(self, now_ms: int) -> list[WorkEffect[R]]:
        """Do what has come due."""
        return self._settled([], now_ms)

    # --- inside --------------------------------------------------------------------------------------------------

    def _owned(self, partitions: Iterable[TopicPartition]) -> list[PartitionWork[R]]:
        found = (self._partitions.get(partition) for partition in dict.fromkeys(partitions))
        return [work for work in found if work is not None]

    def _after_failure(self, task: Task[R], retriable: bool) -> TaskInput:
        """Which way a failed attempt goes."""
        most = self.config.max_attempts
        if not retriable or (most is not None and task.attempts >= most):
            dead_letter = self.config.when_exhausted is ExhaustedAction.DEAD_LETTER
            return TaskInput.SET_ASIDE if dead_letter else TaskInput.GIVE_UP
        return TaskInput.HAND_BACK if task.partition.revocation is not None else TaskInput.RETRY

    def _done(self, task: Task[R], effects: list[WorkEffect[R]], now_ms: int) -> None:
        work = task.partition
        del work.unfinished[task.offset]
        work.out -= 1
        self._in_flight -= 1
        self._bytes -= task.size
        if work.revocation is not None:
            self._press((), effects)
            self._end_revocations(effects, now_ms)
            return
        if task.lane is not None:
            work.release(task.lane)
            self._rotate(work)
        if work.full or self._full:
            self._press((work,), effects)

    def _hand_back(self, task: Task[R], effects: list[WorkEffect[R]], now_ms: int) -> None:
        """Its partition drains: whoever owns it next tries again."""
        task.partition.out -= 1
        task.partition.hand_back(task)
        self._uncount([task])
        self._press((), effects)
        self._end_revocations(effects, now_ms)

    def _orphan_ended(self, task: Task[R]) -> None:
        """An abandoned worker is free: so is its lane, if the partition has come back."""
        if task.lane is None:
            return
        partition = task.partition.topic_partition
        self._orphans.remove((partition, task.lane))
        work = self._partitions.get(partition)
        if work is not None and work.revocation is None:
            work.release(task.lane)
            self._rotate(work)

    def _dead_letter(self, task: Task[R], error: BaseException) -> WriteDeadLetter[R]:
        self._last_id += 1
        self._out[self._last_id] = task
        task.writes += 1
        return WriteDeadLetter(self._last_id, task.record, error, task.attempts)

    def _wait(self, task: Task[R], due_ms: int) -> None:
        self._last_id += 1  # breaks ties, so that tasks are never compared
        heappush(self._retries, (due_ms, self._last_id, task))
        self._wake_at(due_ms)

    def _arm_commit(self, now_ms: int) -> None:
        if self.config.auto_commit_interval_ms is not None:
            self._commit_due_ms = now_ms + self.config.auto_commit_interval_ms
            self._wake_at(self._commit_due_ms)

    def _wake_at(self, due_ms: int) -> None:
        if self._wake_ms is None or due_ms < self._wake_ms:
            self._wake_ms = due_ms

    def _rotate(self, work: PartitionWork[R]) -> None:
        if not work.rotating and work.ready:
            work.rotating = True
            self._rotation.append(work)

    def _uncount(self, tasks: list[Task[R]]) -> None:
        self._in_flight -= len(tasks)
        self._bytes -= sum(task.size for task in tasks)

    def _forget(self, leaving: list[PartitionWork[R]], effects: list[WorkEffect[R]]) -> None:
        """End these assignments: drop all their work, and let no late result count."""
        for work in leaving:
            del self._partitions[work.topic_partition]
            if work.revocation is not None:
                work.revocation.partitions.remove(work)
                work.revocation = None
            self._uncount(list(work.unfinished.values()))
        gone = set(map(id, leaving))
        abandoned: list[int] = []
        for task_id, task in list(self._out.items()):
            if id(task.partition) not in gone:
                continue
            if task.move(TaskInput.DROP) is TaskState.ABANDONED:
                abandoned.append(task_id)
                if task.lane is not None:
                    self._orphans.add((task.partition.topic_partition, task.lane))
            else:
                del self._out[task_id]  # a dead-letter write holds no worker: its answer is not waited for
        for work in leaving:
            work.stop()
        if abandoned:
            effects.append(AbandonTasks(tuple(abandoned)))
        if not self._partitions:
            self._commit_due_ms = None
        self._press((), effects)

    def _end_revocations(self, effects: list[WorkEffect[R]], now_ms: int) -> None:
        """Let go what has drained, and what has had its time."""
        for revocation in list(self._revocations):
            if revocation.over() or now_ms >= revocation.deadline_ms:
                self._revocations.remove(revocation)
                drained = revocation.drained()
                self._forget(list(revocation.partitions), effects)
                effects.append(drained)

    def _press(self, touched: Iterable[PartitionWork[R]], effects: list[WorkEffect[R]]) -> None:
        """Pause and resume as the marks say: the touched partitions, and all when the total crosses its own."""
        config = self.config
        for work in touched:
            work.measure(config)
        if self._full:
            full = self._in_flight > config.total_low_water_records or self._bytes > config.total_low_water_bytes
        else:
            full = self._in_flight >= config.total_high_water_records or self._bytes >= config.total_high_water_bytes
        if full is not self._full:
            self._full = full
            touched = self._partitions.values()
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        for work in touched:
            paused = full or work.full or work.revocation is not None
            if paused is not work.paused:
                work.paused = paused
                (pause if paused else resume).append(work.topic_partition)
        if pause:
            effects.append(PausePartitions(tuple(pause)))
        if resume:
            effects.append(ResumePartitions(tuple(resume)))

    def _settled(self, effects: list[WorkEffect[R]], now_ms: int) -> list[WorkEffect[R]]:
        """What every input ends with: carry out what is due, and keep the workers busy."""
        if self._wake_ms is not None and now_ms >= self._wake_ms:
            self._end_revocations(effects, now_ms)
            self._retry_due(effects, now_ms)
            if self._commit_due_ms is not None and now_ms >= self._commit_due_ms:
                effects += self.commit()
                self._arm_commit(now_ms)
            self.next_due_ms()
        free = self.config.workers - self._running
        if free > 0 and self._rotation and not self._halted:
            self._hand_out(free, effects)
        return effects

    def _retry_due(self, effects: list[WorkEffect[R]], now_ms: int) -> None:
        while self._retries and self._retries[0][0] <= now_ms:
            task = heappop(self._retries)[2]
            work = task.partition
            match task.move(TaskInput.DUE):
                case TaskState.QUEUED:
                    work.ready.appendleft(task)  # it holds up the committed offset
                    self._rotate(work)
                case TaskState.DEAD_LETTERING if task.error is not None:
                    work.out += 1
                    effects.append(self._dead_letter(task, task.error))
                case _:
                    pass  # dropped while it waited

    def _hand_out(self, free: int, effects: list[WorkEffect[R]]) -> None:
        """Deal free workers to the partitions in turn."""
        rotation = self._rotation
        while free > 0 and rotation:
            work = rotation.popleft()
            ready = work.ready
            if not ready:  # dropped or drained since it was put here
                work.rotating = False
                continue
            task = ready.popleft()
            if ready:
                rotation.append(work)
            else:
                work.rotating = False
            task.move(TaskInput.HAND_OUT)
            task.attempts += 1
            work.out += 1
            self._last_id += 1
            self._out[self._last_id] = task
            self._running += 1
            free -= 1
            effects.append(StartTask(self._last_id, task.record, task.attempts))
