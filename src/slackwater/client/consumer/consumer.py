"""The public consumer API, for one application thread.

Invariants:
- KIP-62: heartbeats run on the network thread; joins, listeners and errors belong to the thread that polls.
- One thread at a time may call a consumer. `wakeup`, `stop`, `metrics` and `abort` may be called from any thread.
- Records that a poll returned count as consumed from the next poll on; a record of an iteration counts when the next
  one is requested. Auto-commit commits consumed records in polls, before partitions are revoked, and in `close`.
- `close` counts the records that were returned last as consumed, unless an exception ended the `with` block or is being
  handled.
- Listeners and commit callbacks run on the thread that polls, without the lock. Listeners may commit, seek and pause.
- An unreachable cluster is retried forever and logged. A call that needs a response raises `ClientTimeoutError`, which
  names the bootstrap servers.
- With `assign` there is no group membership and no heartbeat.
"""

import asyncio
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from slackwater.client.config import merge_settings
from slackwater.client.consumer.arguments import (
    Offsets,
    check_listener,
    check_offset,
    check_offsets,
    check_partition,
    check_partitions,
    check_pattern,
    check_timeout,
    check_timestamp,
    check_topics,
)
from slackwater.client.consumer.engine import ConsumerEngine
from slackwater.client.consumer.metrics import MetricName
from slackwater.client.consumer.rebalance_listener import AnyListener, RebalanceListener
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.errors import ClientClosedError, ClientTimeoutError, NetworkError
from slackwater.client.group_metadata import ConsumerGroupMetadata
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from slackwater.escaping import get_logger
from slackwater.group.errors import Error, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from slackwater.client.consumer.workers import Handler

log = get_logger("slackwater.client.consumer.consumer")
CLOSE_TIMEOUT_S: Final = 30.0
_NO_LIMIT: Final = 2**31 - 1

__all__ = ["Consumer", "ConsumerGroupMetadata", "ConsumerRecord", "OffsetAndMetadata", "RebalanceListener"]
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], SlackwaterError | None], None]


class Consumer:
    """A Kafka consumer: `Consumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"})`."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **more: object) -> None:
        self.engine = ConsumerEngine(merge_settings(config, more))  # for tools and tests; not a stable interface
        self.client_id = self.engine.client_id
        self._lock = self.engine.lock
        self._positions = self.engine.positions
        self._calling_thread: int | None = None
        self._call_depth = 0
        self._closed = False

    def __repr__(self) -> str:
        group_id, servers = self.engine.settings["group.id"], self.engine.cluster.bootstrap_servers
        group = f" in group {group_id!r}" if group_id else ""
        state = "closed" if self._closed else f"{len(self.assignment)} partitions assigned"
        return f"<Consumer {self.client_id!r}{group} of {servers}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(CLOSE_TIMEOUT_S, None, has_failed=error is not None)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        engine, mutex = self.engine, self.engine.mutex
        while not self._closed:
            with mutex:
                record = engine.next_decoded() if self._calling_thread is None else None
            if record is None or engine.deserialize is not None:
                with self._call():
                    record = engine.poll_record(1.0, record)
            if record is not None:
                yield record

    def close(self, timeout: float = CLOSE_TIMEOUT_S, *, leave_group: bool | None = None) -> None:
        """Commit consumed offsets, leave the group, and close all connections.

        A static member stays in its group until its session expires, so that it can return. Pass `leave_group=True` if
        it will not return; pass `leave_group=False` to let any member stay.

        Inside an `except` or `finally` block that handles an exception, the records that were returned last are not
        committed: the exception may have interrupted their processing.

        >>> consumer = Consumer(config)
        >>> consumer.subscribe(["orders"])
        >>> consumer.close()
        """
        self._close(timeout, leave_group, has_failed=sys.exception() is not None)

    def _close(self, timeout: float, leave_group: bool | None, *, has_failed: bool) -> None:
        if self._closed:
            return
        with self._call():
            self.engine.not_in_listener("close()")
            try:
                self.engine.leave_group(timeout, leave_group, has_failed=has_failed)
            finally:
                self._closed = True
                self.engine.close()
                self.engine.log_lines.log_close()

    def abort(self) -> None:
        """Close all connections like a crash: no commit, no LeaveGroup. May be called from any thread.

        >>> consumer.abort()
        >>> broker.describe_group(group).state  # the member stays until its session expires
        'Stable'
        """
        self._closed = True
        self.engine.close_connections()

    # --- subscription -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: AnyListener | None = None,
    ) -> None:
        """Join the group for these topics, or for all topics whose whole name matches `pattern`.

        >>> with Consumer(config) as consumer:
        ...     consumer.subscribe(["orders"])
        ...     print(len(consumer.poll(timeout=10.0)))
        2
        >>> with Consumer(config) as consumer:
        ...     consumer.subscribe(pattern="orders|payments-.*")
        """
        if (topics is None) == (pattern is None):
            raise UsageError("subscribe() takes topics or a pattern, one of them.")
        subject = topics if pattern is None else pattern
        regex = check_pattern(subject) if pattern is not None or isinstance(subject, re.Pattern) else None
        names = check_topics(topics) if regex is None else []
        listener = check_listener(listener)
        with self._call():
            membership = self.engine.require_group("subscribe()")
            self.engine.listener = listener
            if regex is not None:
                self.engine.log_lines.log_pattern_subscription(regex)
                membership.call_member(lambda member, now_ms: member.subscribe_pattern(regex, now_ms))
            elif names:
                self.engine.log_lines.log_subscription(names)
                membership.call_member(lambda member, now_ms: member.subscribe(names, now_ms))
            else:
                self._unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group management.

        >>> with Consumer(config) as consumer:
        ...     consumer.assign([TopicPartition("orders", 0)])
        ...     print(len(consumer.poll(timeout=10.0)))
        2
        """
        assigned = check_partitions(partitions)
        with self._call():
            if not assigned:
                self._unsubscribe()
                return
            with self._lock:
                if self.engine.membership is not None:
                    self.engine.membership.call_member(lambda member, now_ms: member.assign(assigned, now_ms))
                self._positions.assign(assigned)
                self.engine.fetcher.schedule()

    def unsubscribe(self) -> None:
        """Leave the group and read no partitions.

        >>> consumer.unsubscribe()
        >>> consumer.assignment
        frozenset()
        """
        with self._call():
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        membership = self.engine.membership
        try:
            if membership is not None:
                self.engine.mark_returned_as_consumed()
                membership.call_member(lambda member, now_ms: member.unsubscribe(now_ms))
                self.engine.process_application_effects()
        finally:
            with self._lock:
                self._positions.assign(())

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics, including those that match the pattern.

        >>> consumer.subscription
        frozenset({'orders'})
        """
        membership = self.engine.membership
        return membership.member.subscription if membership is not None else frozenset()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions.

        >>> consumer.assignment
        frozenset({TopicPartition(topic='orders', partition=0)})
        """
        with self._lock:
            return self._positions.partitions

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this consumer's group, generation, member id and instance id.

        After a loss of the membership it returns the lost one until the next join, so that the coordinator rejects what
        a transactional producer sends with it.

        >>> consumer.group_metadata().generation_id
        1
        """
        with self._lock:
            member = self.engine.require_group("group_metadata()").member
            generation_id, member_id, _ = member.commit_generation
            return ConsumerGroupMetadata(
                member.config.group_id, generation_id, member_id, member.config.group_instance_id
            )

    # --- polling ------------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0) -> list[ConsumerRecord]:
        """Return available records, or wait up to `timeout` seconds for some; at most max.poll.records.

        >>> for record in consumer.poll(timeout=10.0):
        ...     print(record.offset, record.key, record.value)
        0 b'ann' b'order 0'
        1 b'bob' b'order 1'
        """
        timeout = check_timeout(timeout)
        with self._call():
            return self.engine.poll_records(timeout) or []

    def poll_arrow(
        self, timeout: float = 0.0, *, max_records: int | None = None, headers: bool = False
    ) -> "pa.Table | None":
        """Poll for a table with the columns topic, partition, offset, timestamp, timestamp_type, key, value, headers.

        No Python object is created per record. The table holds all fetched records, or `max_records` of them. Returns
        None if no record arrives within `timeout` seconds.

        >>> table = consumer.poll_arrow(timeout=10.0)
        >>> table.column("value").to_pylist()
        [b'order 0', b'order 1']
        """
        if max_records is not None and max_records < 1:
            raise UsageError(f"max_records = {max_records}: use 1 or more, or None for all fetched records.")
        if not _has_pyarrow():
            raise UsageError("poll_arrow() needs pyarrow, which is not installed: pip install 'slackwater[arrow]'.")
        if self.engine.deserialize is not None:
            raise UsageError(
                "poll_arrow() returns keys and values as bytes; remove key.deserializer and value.deserializer, or use "
                "poll()."
            )
        timeout = check_timeout(timeout)
        with self._call():
            return self.engine.poll_table(timeout, _NO_LIMIT if max_records is None else max_records, headers)

    def run(
        self,
        handler: "Handler",
        *,
        workers: int = 1,
        order: str = "partition",
        max_attempts: int | None = 5,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        no_retry: tuple[type[BaseException], ...] = (),
        dead_letter_topic: str | None = None,
        drain_timeout_s: float | None = None,
        stop_timeout_s: float = 30.0,
        **limits: int,
    ) -> None:
        """Pass every record to `handler` in `workers` threads, and commit handled records, until `stop`.

        If the handler is a coroutine function, up to `workers` coroutines run in one event loop on its own thread.
        `order` is partition, key or none: records of one partition or key are handled in order. A record that failed
        `max_attempts` times, or once with an error of `no_retry`, goes to the dead-letter topic; without one, this
        raises `HandlerFailedError`. `limits` are fields of `WorkConfig`, for example `high_water_records`.

        >>> def handle(record):
        ...     print(record.value)
        ...     if record.offset == 1:
        ...         consumer.stop()
        >>> consumer.run(handle, workers=4, order="partition")
        b'order 0'
        b'order 1'
        """
        from slackwater.client.consumer.run_context import RunContext
        from slackwater.client.consumer.runner import Runner, RunOptions

        if not callable(handler):
            raise UsageError(f"The handler is {type(handler).__name__}; pass a function of one record.")
        options = RunOptions(
            workers=workers,
            order=order,
            max_attempts=max_attempts,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            no_retry=no_retry,
            dead_letter_topic=dead_letter_topic,
            drain_timeout_s=drain_timeout_s,
            stop_timeout_s=stop_timeout_s,
            limits=limits,
        )
        with self._call():
            self.engine.not_in_listener("run()")
            Runner(RunContext(self.engine), handler, options).run()

    def stop(self) -> None:
        """End `run` cleanly. May be called from any thread and from a signal handler.

        >>> consumer.run(lambda record: consumer.stop())
        """
        self.wakeup()

    def wakeup(self) -> None:
        """Raise `Wakeup` in the current poll, or in the next one. May be called from any thread.

        >>> consumer.wakeup()
        >>> try:
        ...     consumer.poll(timeout=10.0)
        ... except Wakeup:
        ...     print("woken up")
        woken up
        """
        self.engine.wakeup()

    # --- positions ----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from this offset.

        >>> consumer.seek(TopicPartition("orders", 0), 1)
        >>> [record.offset for record in consumer.poll(timeout=10.0)]
        [1]
        """
        checked, position = check_partition(partition), check_offset(offset)
        if position.offset < 0:
            raise UsageError(f"seek to {position.offset}: offsets begin at 0; use seek_to_beginning or seek_to_end.")
        with self._call(), self._lock:
            state = self._positions.require(checked)
            self._positions.seek(state, position.offset, position.leader_epoch)
            self.engine.set_returned(state)
            self.engine.fetcher.schedule()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue from the first available record.

        >>> consumer.seek_to_beginning()
        >>> consumer.position(TopicPartition("orders", 0))
        0
        """
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue from the next record that is written.

        >>> consumer.seek_to_end([TopicPartition("orders", 0)])
        >>> consumer.position(TopicPartition("orders", 0))
        2
        """
        self._seek_to(partitions, LATEST)

    def seek_to_timestamp(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue from the first record of this time or later, or from the end if there is none.

        >>> consumer.seek_to_timestamp(0)
        >>> consumer.position(TopicPartition("orders", 0))
        0
        """
        self._seek_to(partitions, check_timestamp(timestamp_ms, "seek"))

    def _seek_to(self, partitions: Iterable[TopicPartition] | None, timestamp: int) -> None:
        checked = None if partitions is None else check_partitions(partitions)
        with self._call(), self._lock:
            states = list(self._positions)
            if checked is not None:
                states = [self._positions.require(partition) for partition in checked]
            for state in states:
                self._positions.reset(state, timestamp)
                self.engine.forget_returned(state.partition)
            self.engine.fetcher.schedule()

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next record that poll() returns.

        >>> consumer.position(TopicPartition("orders", 0))
        0
        """
        checked, deadline = check_partition(partition), time.monotonic() + self.engine.timeout_s(timeout)
        with self._call():
            while True:
                with self._lock:
                    state = self._positions.require(checked)
                    if state.position is not None:
                        return state.position
                    self.engine.raise_pending()
                    self.engine.find_start_positions()
                    self.engine.fetcher.schedule()
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise self.engine.timeout_error(f"Finding the position of {checked} timed out")
                    self._lock.wait(left)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`.

        >>> consumer.pause(consumer.assignment)
        >>> consumer.poll(timeout=0.1)
        []
        """
        self._set_paused(partitions, paused=True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again.

        >>> consumer.pause(consumer.assignment)
        >>> consumer.resume(consumer.assignment)
        >>> len(consumer.poll(timeout=10.0))
        2
        """
        self._set_paused(partitions, paused=False)

    def _set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        checked = check_partitions(partitions)
        with self._call(), self._lock:
            for state in [self._positions.require(partition) for partition in checked]:
                state.paused = paused
            if not paused:
                self.engine.fetcher.schedule()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions.

        >>> consumer.pause(consumer.assignment)
        >>> consumer.paused
        frozenset({TopicPartition(topic='orders', partition=0)})
        """
        with self._lock:
            return frozenset(state.partition for state in self._positions if state.paused)

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None, timeout: float | None = None) -> None:
        """Commit these offsets, or all positions, and wait for the response.

        >>> record = consumer.poll(timeout=10.0)[0]
        >>> consumer.commit({record.topic_partition: record.offset + 1})
        >>> consumer.commit()  # after all records of the last poll
        """
        with self._call():
            checked = self._offsets_to_commit(offsets)
            membership = self.engine.require_group("commit()")
            outcome: list[SlackwaterError | None] = []
            if checked:
                membership.commit(checked, outcome.append, sync=True)
                self.engine.wait_for(outcome, "The commit timed out, and may have succeeded", timeout)
            self.engine.run_callbacks()
        if outcome and outcome[0] is not None:
            raise self.engine.explain(outcome[0])

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Commit without waiting; a later call of this consumer runs `callback` with the outcome.

        >>> records = consumer.poll(timeout=10.0)
        >>> consumer.commit_async(callback=lambda offsets, error: print(error or "committed"))
        >>> consumer.commit()  # a later call runs the callback
        committed
        """
        with self._call():
            checked = self._offsets_to_commit(offsets)

            def on_commit(error: SlackwaterError | None) -> None:
                if callback is not None:
                    self.engine.callbacks.append(partial(_run_callback, callback, checked, error))
                elif error is not None:
                    log.warning("An asynchronous commit failed: %s", error)

            self.engine.require_group("commit_async()").commit(checked, on_commit)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of the group; None where it has none.

        >>> partition = TopicPartition("orders", 0)
        >>> consumer.commit({partition: 1})
        >>> consumer.committed([partition])[partition].offset
        1
        """
        checked = check_partitions(partitions)
        outcome: list[tuple[Mapping[TopicPartition, OffsetAndMetadata | None], SlackwaterError | None]] = []
        with self._call():
            membership = self.engine.require_group("committed()")
            membership.fetch_committed(checked, lambda offsets, error: outcome.append((offsets, error)))
            self.engine.wait_for(outcome, "Fetching the committed offsets timed out", timeout)
        offsets, error = outcome[0]
        if error is not None:
            raise self.engine.explain(error)
        return {partition: offsets.get(partition) for partition in checked}

    def _offsets_to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is not None:
            return check_offsets(offsets)
        with self._lock:
            return {
                state.partition: OffsetAndMetadata(state.position, state.leader_epoch)
                for state in self._positions
                if state.position is not None
            }

    def enforce_rebalance(self, reason: str = "") -> None:
        """Rejoin the group at the next poll.

        >>> consumer.enforce_rebalance("the weights of the assignor changed")
        """
        with self._call():
            membership = self.engine.require_group("enforce_rebalance()")
            membership.call_member(lambda member, now_ms: member.enforce_rebalance(reason, now_ms))

    # --- cluster ------------------------------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        >>> consumer.beginning_offsets(consumer.assignment)
        {TopicPartition(topic='orders', partition=0): 0}
        """
        return self._bounds(partitions, EARLIEST)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition.

        >>> consumer.end_offsets(consumer.assignment)
        {TopicPartition(topic='orders', partition=0): 2}
        """
        return self._bounds(partitions, LATEST)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each time or later; None where there is none.

        >>> partition = TopicPartition("orders", 0)
        >>> consumer.offsets_for_times({partition: 0})[partition].offset
        0
        """
        checked = {
            check_partition(partition): check_timestamp(time_ms, partition) for partition, time_ms in times.items()
        }
        with self._call():
            return self._list_offsets(checked)

    def _bounds(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        timestamps = dict.fromkeys(check_partitions(partitions), timestamp)
        with self._call():
            offsets = self._list_offsets(timestamps)
        return {partition: offset.offset for partition, offset in offsets.items() if offset is not None}

    def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        engine = self.engine
        read_committed = engine.settings["isolation.level"] == "read_committed"
        timeout_s = engine.timeout_s(None)
        work = list_offsets(engine.cluster, timestamps, read_committed=read_committed, timeout_s=timeout_s)
        try:
            return engine.network.run(work, timeout_s + 1.0)
        except ClientTimeoutError as error:
            raise engine.timeout_error(str(error)) from None

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic; an empty list if it does not exist.

        >>> consumer.partitions_for("orders")
        [TopicPartition(topic='orders', partition=0)]
        """
        with self._call():
            timeout_s = self.engine.timeout_s(timeout)
            try:
                return self.engine.network.run(_find_partitions(self.engine.cluster, topic), timeout_s)
            except ClientTimeoutError:
                what = f"Finding the partitions of {topic} timed out after {timeout_s:g} s"
                raise self.engine.timeout_error(what) from None

    # --- observation --------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[MetricName, float]:
        """Return every metric under the Java client's name. May be called from any thread.

        >>> {name.name: value for name, value in consumer.metrics().items()}["rebalance-total"]
        1
        """
        return self.engine.metrics()

    def on_event(self, handler: Callable[[GroupEvent], None]) -> None:
        """Call `handler` for every group event of this member, in order.

        The handler runs on the network thread and must return quickly: heartbeats wait for it.

        >>> consumer.on_event(lambda event: print(event.kind))
        """
        self.engine.event_handlers.append(handler)

    # --- one thread at a time -----------------------------------------------------------------------------------------

    @contextmanager
    def _call(self) -> Iterator[None]:
        if self._closed:
            raise ClientClosedError("This consumer was closed; make a new one.")
        this_thread = threading.get_ident()
        with self._lock:
            if self._calling_thread not in (None, this_thread):
                raise UsageError(
                    "This consumer is in use by another thread. Give each thread its own, or use wakeup() to interrupt."
                )
            self._calling_thread = this_thread
            self._call_depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._call_depth -= 1
                if not self._call_depth:
                    self._calling_thread = None


@cache
def _has_pyarrow() -> bool:
    return find_spec("pyarrow") is not None


async def _find_partitions(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """Request metadata until a broker responds; the caller sets the timeout."""
    while True:
        try:
            metadata = (await cluster.refresh([topic])).get(topic)
        except NetworkError:
            await asyncio.sleep(cluster.config.retry_backoff_ms / 1000)
            continue
        if metadata is None or metadata.error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID):
            return []
        if not metadata.partitions:
            text = f"The metadata of {topic} is not available: {metadata.error.name}."
            raise cluster.error(metadata.error, text, f"Describe on topic {topic}")
        return [TopicPartition(topic, partition.index) for partition in metadata.partitions]


def _run_callback(
    callback: CommitCallback, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: SlackwaterError | None
) -> None:
    try:
        callback(offsets, error)
    except Exception:
        log.exception("A commit callback failed.")
