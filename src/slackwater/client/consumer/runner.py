"""`consumer.run`: records handled by worker threads, while the poll goes on.

Rules kept here
- The core's work scheduler decides which record goes to a worker when, and what may be committed; here are its
  threads, its timer, and the carrying out. Everything about it happens under the consumer's one lock, so that a
  commit's outcome, a worker's result and a rebalance can never wait for each other.
- The thread that called `run` polls, and does nothing else that takes time. A handler may take as long as it likes:
  heartbeats and polls go on, its partition is paused when enough waits, its record is committed when it is done.
- Before partitions go, the records under way are waited for, up to `drain_timeout_s`, and what was finished is
  committed.
- A handler that fails is retried after a back-off, up to `max_attempts`. Then the record goes to the dead-letter topic;
  without one, `run` raises `HandlerFailedError`. Writing a dead letter is retried; if the broker rejects it for good,
  `run` raises `DeadLetterError` and the record is not committed.
- SIGTERM (where `run` is called on the main thread), `stop` and `wakeup` end it: nothing new is begun, what is under
  way is waited for up to `stop_timeout_s`, what was finished is committed. The consumer stands then at the first
  record that was not handled.
"""

import logging
import queue
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
from typing import TYPE_CHECKING, Final

from slackwater.client.config import PRODUCER_SETTINGS, int_value
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.producer import Producer, RecordMetadata, UnknownTopicError
from slackwater.group.errors import BrokerError, SlackwaterError, UsageError
from slackwater.group.member import OffsetAndMetadata, Wakeup
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

if TYPE_CHECKING:
    from slackwater.client.consumer.consumer import Consumer, RebalanceListener

log = logging.getLogger("slackwater.client.consumer.runner")
Handler = Callable[[ConsumerRecord], object]
Effects = list[WorkEffect[ConsumerRecord]]
Scheduler = WorkScheduler[ConsumerRecord]
LetterDone = Callable[[WriteDeadLetter[ConsumerRecord], SlackwaterError | None], None]
POLL_S: Final = 1.0
STOP_POLL_S: Final = 0.05
COMMIT_S: Final = 10.0
_NAMED_OTHERWISE: Final = ("when_exhausted", "auto_commit_interval_ms", "retry_backoff_jitter")
SLACK_S: Final = 1.0
JOIN_S: Final = 1.0
LETTER_BLOCK_MS: Final = 10_000


class HandlerFailedError(SlackwaterError):
    """A record could not be handled, and there is no dead-letter topic to put it in."""

    def __init__(self, record: ConsumerRecord, error: BaseException, attempts: int) -> None:
        self.record = record
        super().__init__(
            f"The handler failed {attempts} times at {record.topic_partition}, offset {record.offset}: {error!r}. It "
            "was not committed; mend the handler, or give run() a dead_letter_topic."
        )


class DeadLetterError(SlackwaterError):
    """A record could not be handled, and its dead letter can never be written."""

    def __init__(self, record: ConsumerRecord, topic: str, error: SlackwaterError) -> None:
        self.record = record
        super().__init__(
            f"The dead letter of {record.topic_partition}, offset {record.offset}, cannot be written to {topic}: "
            f"{str(error).rstrip('.')}. The record was not committed; make {topic} take it, or choose another "
            "dead_letter_topic, and run again."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `Consumer.run` takes beside the handler, which describes it."""

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
        """What the scheduler takes."""
        if self.order not in tuple(ProcessingOrder):
            raise UsageError(f"order = {self.order!r} is unknown; use partition, key or none.")
        known = [one.name for one in fields(WorkConfig)]
        for name in self.limits:
            if name not in known or name in _NAMED_OTHERWISE:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else "."
                raise UsageError(f"run() has no option {name}{hint}")
        return WorkConfig(
            workers=self.workers,
            order=ProcessingOrder(self.order),
            max_attempts=self.max_attempts,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=max(self.retry_backoff_max_ms, self.retry_backoff_ms),
            when_exhausted=ExhaustedAction.DEAD_LETTER if self.dead_letter_topic else ExhaustedAction.FAIL,
            auto_commit_interval_ms=auto_commit_interval_ms,
            **self.limits,
        )


class Runner:
    """One call of `run`."""

    def __init__(self, consumer: "Consumer", handler: Handler, options: RunOptions) -> None:
        config = options.work_config(int_value(consumer._settings, "auto.commit.interval.ms"))
        self._consumer = consumer
        self._lock = consumer._changed
        self._mutex: threading.RLock = consumer._lock  # the same lock, without the condition around it
        self._now_ms = consumer._clock.now_ms
        self._handler = handler
        self._no_retry = options.no_retry
        self._letters = DeadLetters(consumer, options.dead_letter_topic) if options.dead_letter_topic else None
        self._drain_s = _drain_s(consumer) if options.drain_timeout_s is None else options.drain_timeout_s
        self._stop_s = options.stop_timeout_s
        self._scheduler: Scheduler = WorkScheduler(config)
        self._tasks: queue.SimpleQueue[StartTask[ConsumerRecord] | None] = queue.SimpleQueue()
        self._results: deque[int] = deque()  # tasks that were done, and that the scheduler has not heard of yet
        self._reporting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._first: dict[TopicPartition, int] = {}  # where this assignment began to be handed out
        self._final: dict[TopicPartition, int] = {}  # where partitions stood when they were drained
        self._paused: set[TopicPartition] = set()
        self._failure: HandlerFailedError | DeadLetterError | None = None
        self._stopping = False
        self._timer: TimerHandle | None = None
        self._armed_ms: int | None = None

    def run(self) -> None:
        """Poll and hand out, until something ends it."""
        consumer = self._consumer
        with self._in_charge(), self._on_sigterm():
            try:
                self._start()
                while self._failure is None:
                    records = consumer._poll(POLL_S, consumer._take_records)
                    if records:
                        self._received(records)
            except Wakeup:
                pass
            finally:
                self._stop()
        if self._failure is not None:
            raise self._failure

    # --- in charge ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _in_charge(self) -> Iterator[None]:
        """Hear of rebalances before the application does, and say instead of the poll what was consumed."""
        consumer = self._consumer
        listener = consumer._listener
        consumer._listener = _Listener(self, listener)
        consumer._handing_over = True
        try:
            yield
        finally:
            consumer._handing_over = False
            consumer._listener = listener

    @contextmanager
    def _on_sigterm(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, lambda _number, _frame: self._consumer.stop())
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def _start(self) -> None:
        for number_ in range(self._scheduler.config.workers):
            name = f"{self._consumer.client_id}-worker-{number_ + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        if self._letters is not None:
            self._letters.start(self._letter_done)
        self.assigned(self._consumer.assignment)

    def _stop(self) -> None:
        """Begin nothing new, wait for what is under way, commit, and leave the consumer at the first record undone."""
        consumer, scheduler = self._consumer, self._scheduler
        deadline = time.monotonic() + self._stop_s + SLACK_S
        with self._lock:
            self._stopping = True
            owned = scheduler.partitions
            self._do(lambda work, now_ms: work.revoke(owned, now_ms, now_ms + int(self._stop_s * 1000)))
        try:
            while self._draining() and time.monotonic() < deadline:
                self._keep_alive()
            with self._lock:
                owned = frozenset(state.partition for state in consumer._positions)
                self._commit_now({one: at for one, at in self._final.items() if one in owned})
        finally:
            with self._lock:
                self._do(lambda work, now_ms: work.on_lost(work.partitions, now_ms))
                self._stand_at_first_undone()
            self._end_threads()

    def _draining(self) -> bool:
        with self._lock:
            self._do(lambda work, now_ms: work.tick(now_ms))
            return bool(self._scheduler.partitions)

    def _keep_alive(self) -> None:
        try:
            self._consumer._poll(STOP_POLL_S, lambda: None)
        except Wakeup:
            pass  # it is ending already
        except SlackwaterError as error:
            log.warning("While the last records are handled: %s", error)
            time.sleep(STOP_POLL_S)

    def _stand_at_first_undone(self) -> None:
        positions = self._consumer._positions
        for state in list(positions):
            if state.partition in self._paused:
                state.paused = False
            at = self._final.get(state.partition, self._first.get(state.partition))
            if at is not None and state.position is not None and at < state.position:
                positions.seek(state, at)
        self._consumer._fetcher.kick()

    def _end_threads(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        deadline = time.monotonic() + JOIN_S
        for thread in self._threads:  # one that is still busy with what was given up ends by itself
            thread.join(max(deadline - time.monotonic(), 0.0))
        if self._letters is not None:
            self._letters.stop()

    # --- rebalances, on the polling thread ----------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These are ours."""
        wanted = list(partitions)
        with self._lock:
            for partition in wanted:
                self._first.pop(partition, None)
                self._final.pop(partition, None)
            if not self._stopping:
                self._do(lambda work, now_ms: work.on_assigned(wanted, now_ms))

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """These go: wait for what is under way, and commit what was finished."""
        leaving = frozenset(partitions)
        deadline = time.monotonic() + self._drain_s + SLACK_S  # the scheduler's own comes first
        with self._lock:
            self._do(lambda work, now_ms: work.revoke(leaving, now_ms, now_ms + int(self._drain_s * 1000)))
            while not leaving.isdisjoint(self._scheduler.partitions):
                left = deadline - time.monotonic()
                if left <= 0:
                    self._do(lambda work, now_ms: work.on_lost(leaving, now_ms))
                    break
                self._lock.wait(left)
                self._do(lambda work, now_ms: work.tick(now_ms))
            self._commit_now({one: at for one in leaving if (at := self._final.pop(one, None)) is not None})
            self._paused -= leaving

    def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """These are somebody else's already."""
        gone = frozenset(partitions)
        with self._lock:
            self._do(lambda work, now_ms: work.on_lost(gone, now_ms))
            for partition in gone:
                self._final.pop(partition, None)
            self._paused -= gone

    # --- records in, results in ---------------------------------------------------------------------------------------

    def _received(self, records: list[ConsumerRecord]) -> None:
        with self._lock:
            ends: dict[TopicPartition, int] = {}
            topic, number_ = "", -1
            for record in records:
                if record.partition == number_ and record.topic == topic:
                    continue
                topic, number_ = record.topic, record.partition
                partition = record.topic_partition
                self._first.setdefault(partition, record.offset)
                state = self._consumer._positions.get(partition)
                if state is not None and state.position is not None:
                    ends[partition] = state.position
            self._do(lambda work, now_ms: work.on_records(records, now_ms, ends))

    def _work(self) -> None:
        """One worker; what a result lets begin is begun by the same worker, as far as one can."""
        handler, finish = self._handler, self._finish
        task: StartTask[ConsumerRecord] | None = None
        while True:
            if task is None:
                task = self._tasks.get()
                if task is None:
                    return
            try:
                handler(task.record)
            except BaseException as error:
                task = self._fail(task, error)
            else:
                task = finish(task.task_id)

    def _finish(self, task_id: int) -> StartTask[ConsumerRecord] | None:
        """A record was handled; the answer is what this worker begins next.

        A worker that finds another one here leaves its result to that one and waits for a task: were each to wait for
        the lock, every record would cost a switch of threads.
        """
        results, reporting = self._results, self._reporting
        results.append(task_id)
        kept: StartTask[ConsumerRecord] | None = None
        while results and reporting.acquire(blocking=False):  # whoever came too late for us is seen by the next look
            try:
                with self._mutex:
                    kept = self._report(kept)
            finally:
                reporting.release()
        return kept

    def _report(self, kept: StartTask[ConsumerRecord] | None) -> StartTask[ConsumerRecord] | None:
        """Tell the scheduler what was handled; the first start is kept. No timer can be due earlier by it."""
        results, scheduler, now_ms = self._results, self._scheduler, self._now_ms()
        while results:
            effects = scheduler.on_finished(results.popleft(), now_ms)
            if kept is None and len(effects) == 1 and type(start := effects[0]) is StartTask:
                kept = start
            else:
                kept = self._carry_out_all(effects, keep_one=kept is None) or kept
        return kept

    def _fail(self, task: StartTask[ConsumerRecord], error: BaseException) -> StartTask[ConsumerRecord] | None:
        where, offset = task.record.topic_partition, task.record.offset
        log.warning("Attempt %d at %s, offset %d, failed: %r", task.attempt, where, offset, error)
        retriable, spread = not isinstance(error, self._no_retry), random.random()
        with self._lock:
            return self._do(
                lambda work, now_ms: work.on_failed(task.task_id, error, now_ms, retriable=retriable, random=spread),
                keep_one=True,
            )

    def _letter_done(self, letter: WriteDeadLetter[ConsumerRecord], error: SlackwaterError | None) -> None:
        task_id = letter.task_id
        with self._lock:
            if error is None:
                self._do(lambda work, now_ms: work.on_dead_letter_written(task_id, now_ms))
                return
            if self._letters is not None and _is_final(error):
                self._end_with(DeadLetterError(letter.record, self._letters.topic, error), error)
            spread = random.random()
            self._do(lambda work, now_ms: work.on_dead_letter_failed(task_id, now_ms, random=spread))

    # --- effects, under the lock --------------------------------------------------------------------------------------

    def _do(
        self, call: Callable[[Scheduler, int], Effects], *, keep_one: bool = False
    ) -> StartTask[ConsumerRecord] | None:
        """Call the scheduler, carry out what it wants, and set the timer; `keep_one` answers with the first start."""
        kept = self._carry_out_all(call(self._scheduler, self._now_ms()), keep_one=keep_one)
        due_ms = self._scheduler.next_due_ms()
        if due_ms is not None and (self._armed_ms is None or due_ms < self._armed_ms):
            self._armed_ms = due_ms
            self._consumer._network.call_soon(self._arm, due_ms)
        return kept

    def _carry_out_all(self, effects: Effects, *, keep_one: bool) -> StartTask[ConsumerRecord] | None:
        kept: StartTask[ConsumerRecord] | None = None
        for effect in effects:
            if isinstance(effect, StartTask):
                if keep_one and kept is None:
                    kept = effect
                else:
                    self._tasks.put(effect)
            else:
                self._carry_out(effect)
        return kept

    def _carry_out(self, effect: WorkEffect[ConsumerRecord]) -> None:
        match effect:
            case PausePartitions():
                self._press(effect.partitions, paused=True)
            case ResumePartitions():
                self._press(effect.partitions, paused=False)
            case CommitFinished():
                self._commit(effect.offsets)
            case PartitionsDrained():
                self._final |= {TopicPartition(one.topic, one.partition): one.offset for one in effect.offsets}
                self._lock.notify_all()
            case WriteDeadLetter():
                assert self._letters is not None
                self._letters.put(effect)
            case StopProcessing():
                self._end_with(HandlerFailedError(effect.record, effect.error, effect.attempts), effect.error)
            case AbandonTasks():
                log.warning("%d records are still being handled although their partitions went.", len(effect.task_ids))
            case StartTask():
                self._tasks.put(effect)

    def _end_with(self, failure: HandlerFailedError | DeadLetterError, cause: BaseException) -> None:
        if self._failure is None:
            self._failure = failure
            self._failure.__cause__ = cause
            self._consumer.wakeup()

    def _press(self, partitions: tuple[TopicPartition, ...], *, paused: bool) -> None:
        for partition in partitions:
            (self._paused.add if paused else self._paused.discard)(partition)
            state = self._consumer._positions.get(partition)
            if state is not None:
                state.paused = paused
        if not paused:
            self._consumer._fetcher.kick()
            self._lock.notify_all()

    def _commit(self, offsets: tuple[OffsetToCommit, ...]) -> None:
        membership = self._consumer._membership
        if membership is None:
            return
        wanted = {TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset) for one in offsets}

        def heard(error: SlackwaterError | None) -> None:
            if error is not None:
                log.info("A commit failed, and is made good by the next one: %s", error)
                self._scheduler.on_commit_failed(wanted)

        membership.member.set_consumed(wanted)  # or an auto-commit would fall behind it
        membership.commit(wanted, heard)

    def _commit_now(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit, and wait for it, whatever else is wanted meanwhile."""
        membership = self._consumer._membership
        if membership is None or not offsets:
            return
        wanted = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        outcome: list[SlackwaterError | None] = []
        membership.member.set_consumed(wanted)
        membership.commit(wanted, outcome.append, sync=True)
        deadline = time.monotonic() + COMMIT_S
        while not outcome and (left := deadline - time.monotonic()) > 0:
            self._lock.wait(left)
        if not outcome or outcome[0] is not None:
            log.warning("What was handled could not be committed: %s", outcome[0] if outcome else "no answer came")

    # --- time, on the network's thread --------------------------------------------------------------------------------

    def _arm(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(due_ms - self._consumer._clock.now_ms(), 0) / 1000
        self._timer = self._consumer._network.loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        with self._lock:
            self._timer = self._armed_ms = None
            self._do(lambda work, now_ms: work.tick(now_ms))


def _drain_s(consumer: "Consumer") -> float:
    """How long a rebalance may be kept waiting: nobody must be late to join it, or be taken for stalled."""
    membership = consumer._membership
    if membership is None:
        return 0.0
    config = membership.member.config
    timeout_ms = min(config.join_rebalance_timeout_ms, config.max_poll_interval_ms)
    return max(timeout_ms - 2 * config.heartbeat_interval_ms, timeout_ms // 2) / 1000


class _Listener:
    """Tells the runner of a rebalance, and then the application."""

    def __init__(self, runner: Runner, listener: "RebalanceListener | None") -> None:
        self._runner = runner
        self._listener = listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """These are ours; the application may seek before anything of them is handed out."""
        self._tell("on_partitions_assigned", partitions)
        self._runner.assigned(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """These go."""
        self._runner.revoked(partitions)
        self._tell("on_partitions_revoked", partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """These are gone."""
        self._runner.lost(partitions)
        name = "on_partitions_lost" if hasattr(self._listener, "on_partitions_lost") else "on_partitions_revoked"
        self._tell(name, partitions)

    def _tell(self, name: str, partitions: list[TopicPartition]) -> None:
        hear = getattr(self._listener, name, None)
        if hear is not None:
            hear(partitions)


class DeadLetters:
    """Writes records that nobody could handle to another topic, with headers that say where from and why.

    The headers: `dead-letter.error`, `dead-letter.topic`, `dead-letter.partition`, `dead-letter.offset` and
    `dead-letter.attempts`, after the record's own. The producer's settings are those of the consumer, and what was
    given there for a producer.
    """

    def __init__(self, consumer: "Consumer", topic: str) -> None:
        self.topic = topic
        self._client_id = f"{consumer.client_id}-dead-letters"
        given = {name: value for name, value in consumer._given.items() if name in PRODUCER_SETTINGS}
        self._settings: dict[str, object] = {"max.block.ms": LETTER_BLOCK_MS} | given | {"client.id": self._client_id}
        self._letters: queue.SimpleQueue[WriteDeadLetter[ConsumerRecord] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name=self._client_id, daemon=True)
        self._complained = False
        self._done: LetterDone = lambda _letter, _error: None

    def start(self, done: LetterDone) -> None:
        """`done` hears what became of every letter."""
        self._done = done
        self._thread.start()

    def put(self, letter: WriteDeadLetter[ConsumerRecord]) -> None:
        """Write this soon."""
        self._letters.put(letter)

    def stop(self) -> None:
        """End the thread; what it still waits for it gives up soon."""
        self._letters.put(None)
        self._thread.join(JOIN_S)

    def _write(self) -> None:
        producer: Producer | None = None
        while (letter := self._letters.get()) is not None:
            try:
                producer = producer or Producer(self._settings)
                self._send(producer, letter)
            except SlackwaterError as error:
                self._heard(letter, None, error)
        if producer is not None:
            try:
                producer.close(JOIN_S)
            except SlackwaterError as error:
                log.warning("Dead letters were left: %s", error)

    def _send(self, producer: Producer, letter: WriteDeadLetter[ConsumerRecord]) -> None:
        record = letter.record
        ours = {
            "error": repr(letter.error),
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "attempts": str(letter.attempts),
        }
        named = ((f"dead-letter.{name}", text.encode(errors="replace")) for name, text in ours.items())
        heard = partial(self._heard, letter)
        producer.send(self.topic, record.value, record.key, headers=[*record.headers, *named], on_delivery=heard)

    def _heard(
        self, letter: WriteDeadLetter[ConsumerRecord], _written: RecordMetadata | None, error: SlackwaterError | None
    ) -> None:
        if error is not None and not self._complained and not _is_final(error):
            log.warning("Dead letters cannot be written to %s for now, and are tried again: %s", self.topic, error)
        self._complained = error is not None
        self._done(letter, error)


def _is_final(error: SlackwaterError) -> bool:
    """Whether a dead letter would be refused again: it is too large, not allowed, or there is no such topic."""
    return isinstance(error, UsageError | UnknownTopicError) or (
        isinstance(error, BrokerError) and not error.error.retriable
    )
