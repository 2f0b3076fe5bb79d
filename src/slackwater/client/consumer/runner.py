"""`Consumer.run`: workers handle records while the consumer keeps polling.

Invariants:
- The work scheduler (group.work) decides which record a worker handles next and what may be committed. This module
  provides its workers and its timer. All scheduler calls hold the consumer's lock, so a commit, a worker's result and a
  rebalance never wait for each other.
- The thread that called `run` only polls. A handler may take any time: heartbeats and polls continue, its partition is
  paused when enough records wait, and its record is committed when it is done.
- Before partitions are revoked, running handlers get up to `drain_timeout_s` to finish, and finished records are
  committed.
- A failed handler is retried after a backoff, up to `max_attempts`. Then the record goes to the dead-letter topic;
  without one, `run` raises `HandlerFailedError`. Writing a dead letter is retried; if the broker rejects it for good,
  `run` raises `DeadLetterError` and the record is not committed.
- Records are deserialized in the workers. A record that cannot be deserialized is not retried, and its dead letter has
  the bytes that were read.
- SIGTERM (if `run` was called on the main thread), `stop` and `wakeup` end it: no new record is started, running
  handlers get up to `stop_timeout_s`, finished records are committed. The consumer's positions are then at the first
  record that was not handled.
"""

import random
import signal
import threading
import time
from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import Final

from slackwater.client.consumer.dead_letters import DeadLetterWriter, is_permanent
from slackwater.client.consumer.deserialization import DeserializationError
from slackwater.client.consumer.rebalance_listener import AnyListener
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.consumer.run_context import RunContext
from slackwater.client.consumer.workers import Handler, UnawaitedHandlerError, deserialize_first, make_workers
from slackwater.escaping import get_logger
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.member import Wakeup
from slackwater.group.messages import OffsetToCommit
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.work.config import ExhaustedAction, ProcessingOrder, WorkConfig
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

log = get_logger("slackwater.client.consumer.runner")
Effects = list[WorkEffect[ConsumerRecord]]
Scheduler = WorkScheduler[ConsumerRecord]
POLL_TIMEOUT_S: Final = 1.0
STOP_POLL_TIMEOUT_S: Final = 0.05
COMMIT_TIMEOUT_S: Final = 10.0
GRACE_S: Final = 1.0  # the scheduler's own deadline comes first
_NOT_LIMITS: Final = ("after_last_attempt", "auto_commit_interval_ms", "retry_backoff_jitter")


class HandlerFailedError(SlackwaterError):
    """The handler failed for a record, and there is no dead-letter topic."""

    def __init__(self, record: ConsumerRecord, error: BaseException, attempts: int) -> None:
        self.record = record
        super().__init__(
            f"The handler failed {attempts} times at {record.topic_partition}, offset {record.offset}: {error!r}. The "
            "record was not committed. Fix the handler, or pass a dead_letter_topic to run()."
        )


class DeadLetterError(SlackwaterError):
    """The handler failed for a record, and the broker rejected its dead letter for good."""

    def __init__(self, record: ConsumerRecord, topic: str, error: SlackwaterError) -> None:
        self.record = record
        super().__init__(
            f"The dead letter of {record.topic_partition}, offset {record.offset}, cannot be written to {topic}: "
            f"{str(error).rstrip('.')}. The record was not committed. Make {topic} accept it, or use another "
            "dead_letter_topic, and run again."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `Consumer.run`, which documents them."""

    workers: int = 1
    order: str = ProcessingOrder.PARTITION
    max_attempts: int | None = 5
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    no_retry: tuple[type[BaseException], ...] = ()
    dead_letter_topic: str | None = None
    drain_timeout_s: float | None = None
    stop_timeout_s: float = 30.0
    limits: Mapping[str, int] = field(default_factory=dict)

    def work_config(self, auto_commit_interval_ms: int) -> WorkConfig:
        """Return the configuration of the scheduler."""
        if self.order not in tuple(ProcessingOrder):
            raise UsageError(f"order = {self.order!r} is unknown; use partition, key or none.")
        known = [limit.name for limit in fields(WorkConfig)]
        for name in self.limits:
            if name not in known or name in _NOT_LIMITS:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else "."
                raise UsageError(f"run() has no option {name}{hint}")
        return WorkConfig(
            workers=self.workers,
            order=ProcessingOrder(self.order),
            max_attempts=self.max_attempts,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=max(self.retry_backoff_max_ms, self.retry_backoff_ms),
            after_last_attempt=ExhaustedAction.DEAD_LETTER if self.dead_letter_topic else ExhaustedAction.FAIL,
            auto_commit_interval_ms=auto_commit_interval_ms,
            **self.limits,
        )


class Runner:
    """One call of `Consumer.run`."""

    def __init__(self, context: RunContext, handler: Handler, options: RunOptions) -> None:
        self._context = context
        self._lock = context.lock
        self._no_retry = options.no_retry
        self._dead_letters: DeadLetterWriter | None = None
        if options.dead_letter_topic:
            settings = context.producer_settings()
            self._dead_letters = DeadLetterWriter(options.dead_letter_topic, context.client_id, settings)
        drain_timeout_s = options.drain_timeout_s
        self._drain_timeout_s = context.drain_timeout_s if drain_timeout_s is None else drain_timeout_s
        self._stop_timeout_s = options.stop_timeout_s
        self._scheduler: Scheduler = WorkScheduler(options.work_config(context.auto_commit_interval_ms))
        if context.deserialize is not None:
            handler = deserialize_first(context.deserialize, handler)
        self._workers = make_workers(handler, options.workers, context.client_id, self._finish, self._fail)
        self._results: deque[int] = deque()  # finished tasks that were not reported to the scheduler yet
        self._reporting = threading.Lock()
        self._first_offsets: dict[TopicPartition, int] = {}  # of the current assignment
        self._drained_offsets: dict[TopicPartition, int] = {}  # the first offset that was not handled
        self._paused: set[TopicPartition] = set()
        self._failure: SlackwaterError | None = None
        self._stopping = False
        self._timer: TimerHandle | None = None
        self._timer_due_ms: int | None = None

    def run(self) -> None:
        """Poll, and pass records to the workers, until an error or a stop."""
        with self._context.intercept_rebalances(partial(_RunnerListener, self)), self._stop_on_sigterm():
            try:
                self._start()
                while self._failure is None:
                    records = self._context.poll_bytes(POLL_TIMEOUT_S)
                    if records:
                        self._schedule(records)
            except Wakeup:
                pass
            finally:
                self._stop()
        if self._failure is not None:
            raise self._failure

    # --- start and stop -----------------------------------------------------------------------------------------------

    @contextmanager
    def _stop_on_sigterm(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.signal(signal.SIGTERM, lambda _number, _frame: self._context.wakeup())
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)

    def _start(self) -> None:
        self._workers.start()
        if self._dead_letters is not None:
            self._dead_letters.start(self._on_dead_letter)
        with self._lock:
            self.assigned(self._context.assignment)

    def _stop(self) -> None:
        """Start no new record, wait for running handlers, commit, and seek to the first record not handled."""
        scheduler, timeout_ms = self._scheduler, int(self._stop_timeout_s * 1000)
        deadline = time.monotonic() + self._stop_timeout_s + GRACE_S
        with self._lock:
            self._stopping = True
            owned = scheduler.partitions
            self._call(lambda work, now_ms: work.revoke(owned, now_ms, now_ms + timeout_ms))
        try:
            while self._is_draining() and time.monotonic() < deadline:
                self._poll_while_stopping()
            with self._lock:
                assigned = self._context.assignment
                self._commit_and_wait(
                    {partition: offset for partition, offset in self._drained_offsets.items() if partition in assigned}
                )
        finally:
            with self._lock:
                self._call(lambda work, now_ms: work.on_lost(work.partitions, now_ms))
                self._seek_to_first_unprocessed()
            self._workers.stop()
            if self._dead_letters is not None:
                self._dead_letters.stop()

    def _is_draining(self) -> bool:
        with self._lock:
            self._call(lambda work, now_ms: work.tick(now_ms))
            return bool(self._scheduler.partitions)

    def _poll_while_stopping(self) -> None:
        try:
            self._context.poll_without_records(STOP_POLL_TIMEOUT_S)
        except Wakeup:
            pass  # already stopping
        except SlackwaterError as error:
            log.warning("While waiting for the last handlers: %s", error)
            time.sleep(STOP_POLL_TIMEOUT_S)

    def _seek_to_first_unprocessed(self) -> None:
        self._context.set_paused(self._paused, paused=False)
        self._context.seek_back(self._first_offsets | self._drained_offsets)

    # --- rebalances, on the polling thread ----------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Start to schedule records of these partitions."""
        added = list(partitions)
        with self._lock:
            for partition in added:
                self._first_offsets.pop(partition, None)
                self._drained_offsets.pop(partition, None)
            if not self._stopping:
                self._call(lambda work, now_ms: work.on_assigned(added, now_ms))

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait for running handlers of these partitions, and commit their finished records."""
        removed = frozenset(partitions)
        timeout_ms = int(self._drain_timeout_s * 1000)
        deadline = time.monotonic() + self._drain_timeout_s + GRACE_S
        with self._lock:
            self._call(lambda work, now_ms: work.revoke(removed, now_ms, now_ms + timeout_ms))
            while not removed.isdisjoint(self._scheduler.partitions):
                left = deadline - time.monotonic()
                if left <= 0:
                    self._call(lambda work, now_ms: work.on_lost(removed, now_ms))
                    break
                self._lock.wait(left)
                self._call(lambda work, now_ms: work.tick(now_ms))
            drained = {partition: self._drained_offsets.pop(partition, None) for partition in removed}
            self._commit_and_wait({partition: offset for partition, offset in drained.items() if offset is not None})
            self._paused -= removed

    def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the records of these partitions without a commit."""
        removed = frozenset(partitions)
        with self._lock:
            self._call(lambda work, now_ms: work.on_lost(removed, now_ms))
            for partition in removed:
                self._drained_offsets.pop(partition, None)
            self._paused -= removed

    # --- records and results ------------------------------------------------------------------------------------------

    def _schedule(self, records: list[ConsumerRecord]) -> None:
        with self._lock:
            ends: dict[TopicPartition, int] = {}
            topic, number = "", -1
            for record in records:
                if record.partition == number and record.topic == topic:
                    continue
                topic, number = record.topic, record.partition
                partition = record.topic_partition
                self._first_offsets.setdefault(partition, record.offset)
                position = self._context.position(partition)
                if position is not None:
                    ends[partition] = position
            self._call(lambda work, now_ms: work.on_records(records, now_ms, ends))

    def _finish(self, task_id: int) -> StartTask[ConsumerRecord] | None:
        """Report a handled record and return the next task of this worker.

        If another worker is reporting, this one leaves its result to it and takes a task from the queue. Waiting for
        the lock would cost a thread switch per record.
        """
        results, reporting = self._results, self._reporting
        results.append(task_id)
        next_task: StartTask[ConsumerRecord] | None = None
        while results and reporting.acquire(blocking=False):  # the loop picks up results that arrive meanwhile
            try:
                with self._context.mutex:
                    next_task = self._report(next_task)
            finally:
                reporting.release()
        return next_task

    def _report(self, next_task: StartTask[ConsumerRecord] | None) -> StartTask[ConsumerRecord] | None:
        """Report finished tasks to the scheduler; a finished task never brings the timer forward."""
        results, scheduler, now_ms = self._results, self._scheduler, self._context.now_ms()
        while results:
            effects = scheduler.on_finished(results.popleft(), now_ms)
            if next_task is None and len(effects) == 1 and type(start := effects[0]) is StartTask:
                next_task = start
            else:
                next_task = self._apply_all(effects, first_task_for_this_worker=next_task is None) or next_task
        return next_task

    def _fail(self, task: StartTask[ConsumerRecord], error: BaseException) -> StartTask[ConsumerRecord] | None:
        partition, offset = task.record.topic_partition, task.record.offset
        log.warning("Attempt %d at %s, offset %d, failed: %r", task.attempt, partition, offset, error)
        retriable, jitter = not isinstance(error, (DeserializationError, *self._no_retry)), random.random()
        with self._lock:
            if isinstance(error, UnawaitedHandlerError):  # no record was handled: commit none, write no dead letter
                self._end_with(error)
                self._call(lambda work, now_ms: work.on_lost(work.partitions, now_ms))
            return self._call(
                lambda work, now_ms: work.on_failed(task.task_id, error, now_ms, retriable=retriable, random=jitter),
                first_task_for_this_worker=True,
            )

    def _on_dead_letter(self, letter: WriteDeadLetter[ConsumerRecord], error: SlackwaterError | None) -> None:
        task_id = letter.task_id
        with self._lock:
            if error is None:
                self._call(lambda work, now_ms: work.on_dead_letter_written(task_id, now_ms))
                return
            if self._dead_letters is not None and is_permanent(error):
                self._end_with(DeadLetterError(letter.record, self._dead_letters.topic, error), error)
            jitter = random.random()
            self._call(lambda work, now_ms: work.on_dead_letter_failed(task_id, now_ms, random=jitter))

    # --- effects, with the lock held ----------------------------------------------------------------------------------

    def _call(
        self, call: Callable[[Scheduler, int], Effects], *, first_task_for_this_worker: bool = False
    ) -> StartTask[ConsumerRecord] | None:
        """Call the scheduler, apply its effects, and set the timer; return the first task if the worker takes it."""
        next_task = self._apply_all(
            call(self._scheduler, self._context.now_ms()), first_task_for_this_worker=first_task_for_this_worker
        )
        due_ms = self._scheduler.next_due_ms()
        if due_ms is not None and (self._timer_due_ms is None or due_ms < self._timer_due_ms):
            self._timer_due_ms = due_ms
            self._context.call_soon(self._set_timer, due_ms)
        return next_task

    def _apply_all(self, effects: Effects, *, first_task_for_this_worker: bool) -> StartTask[ConsumerRecord] | None:
        first: StartTask[ConsumerRecord] | None = None
        for effect in effects:
            if isinstance(effect, StartTask):
                if first_task_for_this_worker and first is None:
                    first = effect
                else:
                    self._workers.put(effect)
            else:
                self._apply(effect)
        return first

    def _apply(self, effect: WorkEffect[ConsumerRecord]) -> None:
        match effect:
            case PausePartitions():
                self._set_paused(effect.partitions, paused=True)
            case ResumePartitions():
                self._set_paused(effect.partitions, paused=False)
            case CommitFinished():
                self._commit(effect.offsets)
            case PartitionsDrained():
                self._drained_offsets |= _by_partition(effect.offsets)
                self._lock.notify_all()
            case WriteDeadLetter():
                assert self._dead_letters is not None
                self._dead_letters.put(effect)
            case StopProcessing():
                if isinstance(effect.error, DeserializationError):
                    self._end_with(effect.error, effect.error.__cause__)
                else:
                    self._end_with(HandlerFailedError(effect.record, effect.error, effect.attempts), effect.error)
            case AbandonTasks():
                self._workers.abandon(effect.task_ids)
            case StartTask():
                self._workers.put(effect)

    def _end_with(self, failure: SlackwaterError, cause: BaseException | None = None) -> None:
        if self._failure is None:
            self._failure = failure
            self._failure.__cause__ = cause
            self._context.wakeup()

    def _set_paused(self, partitions: tuple[TopicPartition, ...], *, paused: bool) -> None:
        if paused:
            self._paused.update(partitions)
        else:
            self._paused.difference_update(partitions)
        self._context.set_paused(partitions, paused=paused)
        if not paused:
            self._lock.notify_all()

    def _commit(self, offsets: tuple[OffsetToCommit, ...]) -> None:
        committed = _by_partition(offsets)

        def on_commit(error: SlackwaterError | None) -> None:
            if error is not None:
                log.info("A commit failed; the next commit covers its offsets: %s", error)
                self._scheduler.on_commit_failed(committed)

        self._context.commit(committed, on_commit)

    def _commit_and_wait(self, offsets: Mapping[TopicPartition, int]) -> None:
        outcome: list[SlackwaterError | None] = []
        if not offsets or not self._context.commit(offsets, outcome.append, sync=True):
            return
        deadline = time.monotonic() + COMMIT_TIMEOUT_S
        while not outcome and (left := deadline - time.monotonic()) > 0:
            self._lock.wait(left)
        if not outcome or outcome[0] is not None:
            log.warning("Handled records could not be committed: %s", outcome[0] if outcome else "no response")

    # --- timer, on the network thread ---------------------------------------------------------------------------------

    def _set_timer(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._context.call_at(due_ms, self._on_timer)

    def _on_timer(self) -> None:
        with self._lock:
            self._timer = self._timer_due_ms = None
            self._call(lambda work, now_ms: work.tick(now_ms))


def _by_partition(offsets: Iterable[OffsetToCommit]) -> dict[TopicPartition, int]:
    return {TopicPartition(offset.topic, offset.partition): offset.offset for offset in offsets}


class _RunnerListener:
    """Calls the runner around a rebalance, and then the application's listener."""

    def __init__(self, runner: Runner, listener: AnyListener | None) -> None:
        self._runner = runner
        self._listener = listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Let the application seek before its first record is scheduled."""
        self._call("on_partitions_assigned", partitions)
        self._runner.assigned(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Drain and commit first."""
        self._runner.revoked(partitions)
        self._call("on_partitions_revoked", partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Drop the work first."""
        self._runner.lost(partitions)
        name = "on_partitions_lost" if hasattr(self._listener, "on_partitions_lost") else "on_partitions_revoked"
        self._call(name, partitions)

    def _call(self, name: str, partitions: list[TopicPartition]) -> None:
        method = getattr(self._listener, name, None)
        if method is not None:
            method(partitions)
