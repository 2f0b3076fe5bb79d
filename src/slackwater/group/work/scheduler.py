"""The work scheduler: starts records in workers off the poll thread and computes the offsets to commit.

Invariants:
- Order is kept per partition, per key, or not at all. An ordering key never has two active records, not even one of
  this assignment and one of an assignment that was lost.
- A committed offset never passes an unfinished record; finished means processed, or written to the dead-letter topic.
- Back-pressure is pause and resume; a poll never blocks. A partition assigned while everything is paused starts paused.
- A retry delays only its own ordering key. Attempts are counted per assignment.
- On revoke, records that are not started are dropped at once; running ones are awaited until the deadline. A lost
  partition is dropped at once, without a commit.
- A result counts only for the assignment in which its task was started, even if the partition was assigned again.

Each input returns its effects in order and also runs the timers that are due; `tick` only runs timers. Free workers are
given to partitions in turn, so that a partition with a long queue does not delay the others. Within an assignment the
offsets of a partition only increase: a record received again is ignored. A shell that seeks backwards calls `on_lost`
and `on_assigned` for that partition.
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
from slackwater.group.work.partition import PARTITION_KEY, UNKNOWN, PartitionWork
from slackwater.group.work.revocation import Revocation
from slackwater.group.work.task import Task, TaskInput, TaskState


class WorkScheduler(Generic[R]):
    """Decides which record starts when, and which offsets may be committed."""

    def __init__(self, config: WorkConfig) -> None:
        self.config = config
        self._partitions: dict[tuple[str, int], PartitionWork[R]] = {}
        self._rotation: deque[PartitionWork[R]] = deque()  # partitions with ready tasks, in turn
        self._active_tasks: dict[int, Task[R]] = {}  # by task id: tasks with a worker or the dead-letter writer
        self._abandoned: set[tuple[TopicPartition, bytes]] = set()  # ordering keys blocked by abandoned tasks
        self._retries: list[tuple[int, int, Task[R]]] = []  # a heap; dropped tasks are removed when they are due
        self._revocations: list[Revocation[R]] = []
        self._last_id = 0
        self._running = 0
        self._in_flight = 0
        self._bytes = 0
        self._is_full = False
        self._is_halted = False
        self._commit_due_ms: int | None = None
        self._wake_ms: int | None = None  # no timer is due earlier

    # --- properties -----------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Unfinished records of owned partitions."""
        return self._in_flight

    @property
    def in_flight_bytes(self) -> int:
        """The size of the records in flight."""
        return self._bytes

    @property
    def running(self) -> int:
        """The number of busy workers, including abandoned tasks."""
        return self._running

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The owned partitions, including draining ones."""
        return frozenset(work.topic_partition for work in self._partitions.values())

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(work.topic_partition for work in self._partitions.values() if work.is_paused)

    def committable(self) -> tuple[OffsetToCommit, ...]:
        """The position of every partition that finished any record."""
        return tuple(offset for work in self._partitions.values() for offset in work.to_commit(work.start))

    def next_due_ms(self) -> int | None:
        """When to call `tick`, or None if no timer runs."""
        while self._retries and self._retries[0][2].state not in (TaskState.RETRYING, TaskState.REWRITING):
            heappop(self._retries)
        due = [revocation.deadline_ms for revocation in self._revocations]
        if self._retries:
            due.append(self._retries[0][0])
        if self._commit_due_ms is not None:
            due.append(self._commit_due_ms)
        self._wake_ms = min(due, default=None)
        return self._wake_ms

    # --- assignment -----------------------------------------------------------------------------------------------

    def on_assigned(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[WorkEffect[R]]:
        """Add these partitions; one that is owned already keeps its work."""
        effects: list[WorkEffect[R]] = []
        added: list[PartitionWork[R]] = []
        for partition in partitions:
            current = self._partitions.get(partition)
            if current is not None:
                if current.revocation is None:
                    continue
                # It is assigned again while it drains: a new assignment.
                self._end_assignments([current], effects)
                self._end_revocations(effects, now_ms)
            work: PartitionWork[R] = PartitionWork(partition)
            # A worker may still process a record of a lost assignment: its ordering key is blocked until it ends.
            work.queues = {order_key: None for owner, order_key in self._abandoned if owner == partition}
            self._partitions[partition] = work
            added.append(work)
        if added and self._commit_due_ms is None:
            self._arm_commit(now_ms)
        self._update_paused(added, effects)
        return self._finish_input(effects, now_ms)

    def revoke(
        self, partitions: Iterable[TopicPartition], now_ms: int, deadline_ms: int, mode: RevokeMode = RevokeMode.DRAIN
    ) -> list[WorkEffect[R]]:
        """Drain these partitions until `deadline_ms` at the latest; `PartitionsDrained` reports the end."""
        effects: list[WorkEffect[R]] = []
        leaving = self._owned(partitions)
        for work in leaving:
            if work.revocation is None:
                self._subtract(work.stop())
            else:
                work.revocation.partitions.remove(work)  # the later call replaces the earlier one
        revocation = Revocation(leaving, now_ms if mode is RevokeMode.ABANDON else deadline_ms)
        for work in leaving:
            work.revocation = revocation
        self._revocations.append(revocation)
        self._end_revocations(effects, now_ms)
        self._update_paused([work for work in leaving if work.topic_partition in self._partitions], effects)
        if revocation in self._revocations:
            self._wake_at(deadline_ms)
        return self._finish_input(effects, now_ms)

    def on_lost(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[WorkEffect[R]]:
        """Drop the work of these partitions without a commit: other members own them."""
        effects: list[WorkEffect[R]] = []
        self._end_assignments(self._owned(partitions), effects)
        self._end_revocations(effects, now_ms)
        return self._finish_input(effects, now_ms)

    # --- records and results --------------------------------------------------------------------------------------

    def on_records(
        self, records: Iterable[R], now_ms: int, next_offsets: Mapping[TopicPartition, int] | None = None
    ) -> list[WorkEffect[R]]:
        """Add the records of a poll.

        `next_offsets` are the consumer's positions after the poll, where known. They are beyond the last record if
        transaction markers follow, and let the committed offset reach the end of the log.
        """
        effects: list[WorkEffect[R]] = []
        changed: dict[tuple[str, int], PartitionWork[R]] = {}
        work: PartitionWork[R] | None = None
        topic, number = "", UNKNOWN
        order = self.config.order
        count = size = 0
        for record in records:
            if record.partition != number or record.topic != topic:
                topic, number = record.topic, record.partition
                work = self._partitions.get((topic, number))
                if work is not None and work.revocation is not None:
                    work = None  # the partition drains: its next owner reads this record
                if work is not None:
                    changed[topic, number] = work
            if work is None:
                continue
            offset = record.offset
            if offset < work.next_offset:
                continue
            if work.next_offset == UNKNOWN:
                work.start = work.reported = offset
            work.next_offset = offset + 1
            if order is ProcessingOrder.PARTITION:
                order_key: bytes | None = PARTITION_KEY
            else:
                order_key = record.key if order is ProcessingOrder.KEY else None
            task = Task(record, offset, work, order_key, work.received)
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
        for work in changed.values():
            self._rotate(work)
        self._update_paused(changed.values(), effects)
        return self._finish_input(effects, now_ms)

    def on_finished(self, task_id: int, now_ms: int) -> list[WorkEffect[R]]:
        """Handle the success of a worker."""
        effects: list[WorkEffect[R]] = []
        task = self._active_tasks.get(task_id)
        if task is None or (state := task.apply(TaskInput.FINISH)) is None:
            return effects  # reported before
        del self._active_tasks[task_id]
        self._running -= 1
        if state is TaskState.DONE:
            self._done(task, effects, now_ms)
        else:
            self._abandoned_ended(task)
        return self._finish_input(effects, now_ms)

    def on_failed(
        self, task_id: int, error: BaseException, now_ms: int, *, retriable: bool = True, random: float = 0.5
    ) -> list[WorkEffect[R]]:
        """Handle the failure of a worker; `random`, from [0, 1), is the jitter of the retry."""
        effects: list[WorkEffect[R]] = []
        task = self._active_tasks.get(task_id)
        if task is None:
            return effects
        abandoned = task.state is TaskState.ABANDONED
        state = task.apply(self._after_failure(task, retriable))
        if state is None:
            return effects
        del self._active_tasks[task_id]
        self._running -= 1
        task.error = error
        match state:
            case TaskState.DEAD_LETTERING:
                effects.append(self._dead_letter(task, error))
            case TaskState.RETRYING:
                task.partition.active_count -= 1
                self._wait(task, now_ms + self.config.backoff_ms(task.attempts, random))
            case TaskState.FAILED:
                task.partition.active_count -= 1
                self._is_halted = True
                effects.append(StopProcessing(task.record, error, task.attempts))
                self._end_revocations(effects, now_ms)
            case _ if abandoned:
                self._abandoned_ended(task)
            case _:
                self._return_unprocessed(task, effects, now_ms)
        return self._finish_input(effects, now_ms)

    def on_dead_letter_written(self, task_id: int, now_ms: int) -> list[WorkEffect[R]]:
        """Handle a written dead letter: its record counts as finished."""
        effects: list[WorkEffect[R]] = []
        task = self._active_tasks.get(task_id)
        if task is None or task.apply(TaskInput.WRITTEN) is None:
            return effects
        del self._active_tasks[task_id]
        self._done(task, effects, now_ms)
        return self._finish_input(effects, now_ms)

    def on_dead_letter_failed(self, task_id: int, now_ms: int, *, random: float = 0.5) -> list[WorkEffect[R]]:
        """Handle a failed dead-letter write: retry it while the partition is owned."""
        effects: list[WorkEffect[R]] = []
        task = self._active_tasks.get(task_id)
        if task is None:
            return effects
        draining = task.partition.revocation is not None
        state = task.apply(TaskInput.LEAVE_UNWRITTEN if draining else TaskInput.WRITE_FAILED)
        if state is None:
            return effects
        del self._active_tasks[task_id]
        if state is TaskState.REWRITING:
            task.partition.active_count -= 1
            self._wait(task, now_ms + self.config.backoff_ms(task.writes, random))
        else:
            self._return_unprocessed(task, effects, now_ms)
        return self._finish_input(effects, now_ms)

    # --- commits and time ----------------------------------------------------------------------------------------

    def commit(self) -> list[WorkEffect[R]]:
        """Commit the positions that advanced since the last `CommitFinished`."""
        offsets: list[OffsetToCommit] = []
        for work in self._partitions.values():
            offset_to_commit = work.to_commit(work.reported)
            if offset_to_commit:
                work.reported = offset_to_commit[0].offset
                offsets += offset_to_commit
        return [CommitFinished(tuple(offsets))] if offsets else []

    def on_commit_failed(self, partitions: Iterable[TopicPartition]) -> None:
        """Handle a failed commit: the next commit includes these partitions again."""
        for work in self._owned(partitions):
            work.reported = work.start

    def tick(self, now_ms: int) -> list[WorkEffect[R]]:
        """Run what is due."""
        return self._finish_input([], now_ms)

    # --- internal -------------------------------------------------------------------------------------------------

    def _owned(self, partitions: Iterable[TopicPartition]) -> list[PartitionWork[R]]:
        works = (self._partitions.get(partition) for partition in dict.fromkeys(partitions))
        return [work for work in works if work is not None]

    def _after_failure(self, task: Task[R], retriable: bool) -> TaskInput:
        """The task input for a failed attempt."""
        max_attempts = self.config.max_attempts
        if not retriable or (max_attempts is not None and task.attempts >= max_attempts):
            dead_letter = self.config.after_last_attempt is ExhaustedAction.DEAD_LETTER
            return TaskInput.DEAD_LETTER if dead_letter else TaskInput.FAIL
        return TaskInput.RETURN_UNPROCESSED if task.partition.revocation is not None else TaskInput.RETRY

    def _done(self, task: Task[R], effects: list[WorkEffect[R]], now_ms: int) -> None:
        work = task.partition
        del work.unfinished[task.offset]
        work.active_count -= 1
        self._in_flight -= 1
        self._bytes -= task.size
        if work.revocation is not None:
            self._update_paused((), effects)
            self._end_revocations(effects, now_ms)
            return
        if task.order_key is not None:
            work.release(task.order_key)
            self._rotate(work)
        if work.is_full or self._is_full:
            self._update_paused((work,), effects)

    def _return_unprocessed(self, task: Task[R], effects: list[WorkEffect[R]], now_ms: int) -> None:
        """Leave a record of a draining partition to the next owner."""
        task.partition.active_count -= 1
        task.partition.return_unprocessed(task)
        self._subtract([task])
        self._update_paused((), effects)
        self._end_revocations(effects, now_ms)

    def _abandoned_ended(self, task: Task[R]) -> None:
        """Unblock the ordering key of an abandoned task that ended, if the partition is owned again."""
        if task.order_key is None:
            return
        partition = task.partition.topic_partition
        self._abandoned.remove((partition, task.order_key))
        work = self._partitions.get(partition)
        if work is not None and work.revocation is None:
            work.release(task.order_key)
            self._rotate(work)

    def _dead_letter(self, task: Task[R], error: BaseException) -> WriteDeadLetter[R]:
        self._last_id += 1
        self._active_tasks[self._last_id] = task
        task.writes += 1
        return WriteDeadLetter(self._last_id, task.record, error, task.attempts)

    def _wait(self, task: Task[R], due_ms: int) -> None:
        self._last_id += 1  # breaks ties: tasks are not comparable
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
        if not work.is_rotating and work.ready:
            work.is_rotating = True
            self._rotation.append(work)

    def _subtract(self, tasks: list[Task[R]]) -> None:
        self._in_flight -= len(tasks)
        self._bytes -= sum(task.size for task in tasks)

    def _end_assignments(self, leaving: list[PartitionWork[R]], effects: list[WorkEffect[R]]) -> None:
        """End these assignments: drop their work and ignore late results."""
        for work in leaving:
            del self._partitions[work.topic_partition]
            if work.revocation is not None:
                work.revocation.partitions.remove(work)
                work.revocation = None
            self._subtract(list(work.unfinished.values()))
        gone = set(map(id, leaving))
        abandoned: list[int] = []
        for task_id, task in list(self._active_tasks.items()):
            if id(task.partition) not in gone:
                continue
            if task.apply(TaskInput.DROP) is TaskState.ABANDONED:
                abandoned.append(task_id)
                if task.order_key is not None:
                    self._abandoned.add((task.partition.topic_partition, task.order_key))
            else:
                del self._active_tasks[task_id]  # a dead-letter write occupies no worker
        for work in leaving:
            work.stop()
        if abandoned:
            effects.append(AbandonTasks(tuple(abandoned)))
        if not self._partitions:
            self._commit_due_ms = None
        self._update_paused((), effects)

    def _end_revocations(self, effects: list[WorkEffect[R]], now_ms: int) -> None:
        """Complete the revocations that have drained or reached their deadline."""
        for revocation in list(self._revocations):
            if revocation.is_over() or now_ms >= revocation.deadline_ms:
                self._revocations.remove(revocation)
                drained = revocation.drained()
                self._end_assignments(list(revocation.partitions), effects)
                effects.append(drained)

    def _update_paused(self, changed: Iterable[PartitionWork[R]], effects: list[WorkEffect[R]]) -> None:
        """Pause and resume the given partitions by their marks, and all partitions when the total crosses its marks."""
        config = self.config
        for work in changed:
            work.update_full(config)
        if self._is_full:
            is_full = self._in_flight > config.total_low_water_records or self._bytes > config.total_low_water_bytes
        else:
            is_full = self._in_flight >= config.total_high_water_records or self._bytes >= config.total_high_water_bytes
        if is_full is not self._is_full:
            self._is_full = is_full
            changed = self._partitions.values()
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        for work in changed:
            paused = is_full or work.is_full or work.revocation is not None
            if paused is not work.is_paused:
                work.is_paused = paused
                (pause if paused else resume).append(work.topic_partition)
        if pause:
            effects.append(PausePartitions(tuple(pause)))
        if resume:
            effects.append(ResumePartitions(tuple(resume)))

    def _finish_input(self, effects: list[WorkEffect[R]], now_ms: int) -> list[WorkEffect[R]]:
        """Run due timers and start tasks in free workers; every input ends with it."""
        if self._wake_ms is not None and now_ms >= self._wake_ms:
            self._end_revocations(effects, now_ms)
            self._retry_due(effects, now_ms)
            if self._commit_due_ms is not None and now_ms >= self._commit_due_ms:
                effects += self.commit()
                self._arm_commit(now_ms)
            self.next_due_ms()
        free = self.config.workers - self._running
        if free > 0 and self._rotation and not self._is_halted:
            self._start_tasks(free, effects)
        return effects

    def _retry_due(self, effects: list[WorkEffect[R]], now_ms: int) -> None:
        while self._retries and self._retries[0][0] <= now_ms:
            task = heappop(self._retries)[2]
            work = task.partition
            match task.apply(TaskInput.DUE):
                case TaskState.QUEUED:
                    work.ready.appendleft(task)  # it blocks the committed offset
                    self._rotate(work)
                case TaskState.DEAD_LETTERING if task.error is not None:
                    work.active_count += 1
                    effects.append(self._dead_letter(task, task.error))
                case _:
                    pass  # dropped meanwhile

    def _start_tasks(self, free: int, effects: list[WorkEffect[R]]) -> None:
        """Give free workers to the partitions in turn."""
        rotation = self._rotation
        while free > 0 and rotation:
            work = rotation.popleft()
            ready = work.ready
            if not ready:  # dropped or drained meanwhile
                work.is_rotating = False
                continue
            task = ready.popleft()
            if ready:
                rotation.append(work)
            else:
                work.is_rotating = False
            task.apply(TaskInput.START)
            task.attempts += 1
            work.active_count += 1
            self._last_id += 1
            self._active_tasks[self._last_id] = task
            self._running += 1
            free -= 1
            effects.append(StartTask(self._last_id, task.record, task.attempts))
