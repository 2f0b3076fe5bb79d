"""The consumer: Kafka's thick client, for one application thread.

Rules kept here
- KIP-62: heartbeats go out on the network's thread; joins, listeners and errors belong to the thread that polls.
- One thread at a time may call; `wakeup` alone may come from any thread.
- What a poll gave out counts as consumed from the next poll on: that is what auto-commit commits, in polls, before
  partitions go, and at the end.
- Listeners, and the callbacks of asynchronous commits, run on the thread that polls and without the lock, so that
  heartbeats and answers go on. Listeners may commit, seek, pause, and ask.
- A cluster that cannot be reached is tried again without end, and the log says so; a call that must have an answer
  ends with `ClientTimeoutError`, which names the servers.
- With `assign` there is no membership, and no heartbeat.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from slackwater.client.consumer.arguments import (
    Offsets,
    offsets_to_commit,
    position,
    rebalance_listener,
    seconds,
    timestamp,
    topic_names,
    topic_partition,
    topic_partitions,
    topic_pattern,
)
from slackwater.client.consumer.base import ConsumerBase, RebalanceListener
from slackwater.client.consumer.metrics import FETCH_GROUP, MetricName
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.member import METRIC_GROUPS, OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from slackwater.client.consumer.runner import Handler

log = logging.getLogger("slackwater.client.consumer.consumer")
CLOSE_TIMEOUT_S: Final = 30.0
EVENTS_TIMEOUT_S: Final = 1.0
NO_LIMIT: Final = 2**31 - 1

__all__ = ["Consumer", "ConsumerRecord", "OffsetAndMetadata", "RebalanceListener"]
Heard = Callable[[Mapping[TopicPartition, OffsetAndMetadata], SlackwaterError | None], None]


class Consumer(ConsumerBase):
    """A consumer; `Consumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"})`."""

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while not self._closed:
            yield from self.poll(1.0)

    def close(self, timeout: float = CLOSE_TIMEOUT_S, *, leave_group: bool | None = None) -> None:
        """Commit what was consumed, leave the group, and let go of everything.

        A static member stays in its group until its session ends, so that it can come back. `leave_group=True` is for
        one that will not; `leave_group=False` lets any member stay so.
        """
        if self._closed:
            return
        with self._use():
            self._not_in_listener("close()")
            try:
                self._leave(timeout, leave_group)
            finally:
                self._closed = True
                with self._changed:
                    self._fetcher.close()
                self._house.cancel()
                self._network.run(self._finish())
                self._network.close()
                self._call_back()

    async def _finish(self) -> None:
        if self._publisher is not None:
            await self._publisher.finish(EVENTS_TIMEOUT_S)
        await self._cluster.close()

    def _leave(self, timeout: float, leave_group: bool | None) -> None:
        membership = self._membership
        if membership is None:
            return
        self._note_consumed()
        member, deadline = membership.member, time.monotonic() + timeout
        timeout_ms = int(timeout * 1000)
        membership.do(lambda machine, now_ms: machine.close(now_ms, timeout_ms=timeout_ms, leave_group=leave_group))
        error: BaseException | None = None
        while not member.is_closed:
            try:
                self._do_due()
            except SlackwaterError as raised:
                error = error or raised
            with self._changed:
                if not membership.due and not member.is_closed:
                    self._changed.wait(max(min(deadline - time.monotonic(), 0.1), 0.001))
        self._call_back()
        if error is not None:
            raise error

    # --- what to read -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Be a member of the group for these topics, or for all whose whole name matches `pattern`."""
        if (topics is None) == (pattern is None):
            raise UsageError("subscribe() takes topics or a pattern, one of them.")
        wish = topics if pattern is None else pattern
        text = topic_pattern(wish) if pattern is not None or isinstance(wish, re.Pattern) else None
        names = topic_names(topics) if text is None else []
        listener = rebalance_listener(listener)
        with self._use():
            membership = self._needs_group("subscribe()")
            self._listener = listener
            if text is not None:
                membership.do(lambda member, now_ms: member.subscribe_pattern(text, now_ms))
            elif names:
                membership.do(lambda member, now_ms: member.subscribe(names, now_ms))
            else:
                self._unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's help."""
        wanted = topic_partitions(partitions)
        with self._use():
            if not wanted:
                self._unsubscribe()
                return
            with self._changed:
                if self._membership is not None:
                    self._membership.do(lambda member, now_ms: member.assign(wanted, now_ms))
                self._positions.assign(wanted)
                self._fetcher.kick()

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing."""
        with self._use():
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        membership = self._membership
        try:
            if membership is not None:
                self._note_consumed()
                membership.do(lambda member, now_ms: member.unsubscribe(now_ms))
                self._do_due()
        finally:
            with self._changed:
                self._positions.assign(())

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that were subscribed to, or that the pattern has found."""
        return self._membership.member.subscription if self._membership is not None else frozenset()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        with self._changed:
            return frozenset(state.partition for state in self._positions)

    # --- polling ------------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 0.0) -> list[ConsumerRecord]:
        """Records that are there, or that come within `timeout` seconds; at most max.poll.records."""
        timeout = seconds(timeout)
        with self._use():
            return self._poll(timeout, self._take_records) or []

    def poll_arrow(
        self, timeout: float = 0.0, *, max_records: int | None = None, headers: bool = False
    ) -> "pa.Table | None":
        """What `poll` would give, as a table: topic, partition, offset, timestamp, timestamp_type, key, value, headers.

        No Python object is made per record. All that was fetched is given out, or `max_records` of it; None if
        nothing came within `timeout` seconds.
        """
        if max_records is not None and max_records < 1:
            raise UsageError(f"max_records = {max_records}: use 1 or more, or None for all that was fetched.")
        if not _has_pyarrow():
            raise UsageError("poll_arrow() needs pyarrow, which is not installed: pip install 'slackwater[arrow]'.")
        timeout = seconds(timeout)
        with self._use():
            room = NO_LIMIT if max_records is None else max_records
            return self._poll(timeout, partial(self._take_table, room, headers))

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
        """Hand every record to `handler` in worker threads, and commit what was handled, until `stop`.

        `order` is partition, key or none: which records may not overtake each other. A record that failed
        `max_attempts` times, or once with an error of `no_retry`, goes to the dead-letter topic; without one, this
        raises `HandlerFailedError`. `limits` are the marks of `WorkConfig` (high_water_records and the like).
        """
        from slackwater.client.consumer.runner import Runner, RunOptions

        if not callable(handler):
            raise UsageError(f"The handler is {type(handler).__name__}; give a function of one record.")
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
        with self._use():
            self._not_in_listener("run()")
            Runner(self, handler, options).run()

    def stop(self) -> None:
        """End `run` cleanly; from any thread, and from a signal's handler."""
        self.wakeup()

    def wakeup(self) -> None:
        """End the poll that is under way, or the next one, with `Wakeup`; from any thread."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    # --- positions ----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on from this offset."""
        where, at = topic_partition(partition), position(offset)
        if at.offset < 0:
            raise UsageError(f"seek to {at.offset}: offsets begin at 0; use seek_to_beginning or seek_to_end.")
        with self._use(), self._changed:
            state = self._positions.of(where)
            self._positions.seek(state, at.offset, at.leader_epoch)
            self._consumed_to(state)
            self._fetcher.kick()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on from the first record there is."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on from the next record that comes."""
        self._seek_to(partitions, LATEST)

    def seek_to_timestamp(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on from the first record of this time or later; from the end where there is none."""
        self._seek_to(partitions, timestamp(timestamp_ms, "seek"))

    def _seek_to(self, partitions: Iterable[TopicPartition] | None, when: int) -> None:
        named = None if partitions is None else topic_partitions(partitions)
        with self._use(), self._changed:
            for state in list(self._positions) if named is None else [self._positions.of(one) for one in named]:
                self._positions.reset(state, when)
                self._polled.pop(state.partition, None)
            self._fetcher.kick()

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record that will be given out."""
        where, deadline = topic_partition(partition), time.monotonic() + self._timeout_s(timeout)
        with self._use():
            while True:
                with self._changed:
                    state = self._positions.of(where)
                    if state.position is not None:
                        return state.position
                    self._raise_pending()
                    self._find_starts()
                    self._fetcher.kick()
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise self._late(f"The position of {where} could not be found in time")
                    self._changed.wait(left)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out nothing of these until `resume`."""
        wanted = topic_partitions(partitions)
        with self._use(), self._changed:
            for state in [self._positions.of(one) for one in wanted]:
                state.paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out these again."""
        wanted = topic_partitions(partitions)
        with self._use(), self._changed:
            for state in [self._positions.of(one) for one in wanted]:
                state.paused = False
            self._fetcher.kick()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        with self._changed:
            return frozenset(state.partition for state in self._positions if state.paused)

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets | None = None, timeout: float | None = None) -> None:
        """Commit these offsets, or all positions; returns when the group has them."""
        with self._use():
            wanted = self._to_commit(offsets)
            membership = self._needs_group("commit()")
            outcome: list[SlackwaterError | None] = []
            if wanted:
                membership.commit(wanted, outcome.append, sync=True)
                self._wait_for(outcome, "The commit was not answered in time, and may have been done", timeout)
            self._call_back()
        if outcome and outcome[0] is not None:
            raise self._explained(outcome[0])

    def commit_async(self, offsets: Offsets | None = None, callback: Heard | None = None) -> None:
        """Commit without waiting; `callback` hears the outcome, inside a later call of this consumer."""
        with self._use():
            wanted = self._to_commit(offsets)

            def heard(error: SlackwaterError | None) -> None:
                if callback is not None:
                    self._callbacks.append(partial(_called, callback, wanted, error))
                elif error is not None:
                    log.warning("An asynchronous commit failed: %s", error)

            self._needs_group("commit_async()").commit(wanted, heard)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing."""
        wanted = topic_partitions(partitions)
        outcome: list[tuple[Mapping[TopicPartition, OffsetAndMetadata | None], SlackwaterError | None]] = []
        with self._use():
            membership = self._needs_group("committed()")
            membership.fetch_committed(wanted, lambda offsets, error: outcome.append((offsets, error)))
            self._wait_for(outcome, "The committed offsets could not be had in time", timeout)
        offsets, error = outcome[0]
        if error is not None:
            raise self._explained(error)
        return {partition: offsets.get(partition) for partition in wanted}

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            with self._changed:
                return {
                    state.partition: OffsetAndMetadata(state.position, state.leader_epoch)
                    for state in self._positions
                    if state.position is not None
                }
        return offsets_to_commit(offsets)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Ask for a rebalance at the next poll."""
        with self._use():
            membership = self._needs_group("enforce_rebalance()")
            membership.do(lambda member, now_ms: member.enforce_rebalance(reason, now_ms))

    # --- the cluster --------------------------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return self._bounds(partitions, EARLIEST)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each."""
        return self._bounds(partitions, LATEST)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each time or later; None where there is none."""
        wanted = {topic_partition(partition): timestamp(when, partition) for partition, when in times.items()}
        with self._use():
            return self._list_offsets(wanted)

    def _bounds(self, partitions: Iterable[TopicPartition], when: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(topic_partitions(partitions), when)
        with self._use():
            found = self._list_offsets(wanted)
        return {partition: one.offset for partition, one in found.items() if one is not None}

    def _list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        read_committed = self._settings["isolation.level"] == "read_committed"
        timeout_s = self._timeout_s(None)
        work = list_offsets(self._cluster, wanted, read_committed=read_committed, timeout_s=timeout_s)
        try:
            return self._network.run(work, timeout_s + 1.0)
        except ClientTimeoutError as error:
            raise self._late(str(error)) from None

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; none if there is no such topic."""
        with self._use():
            timeout_s = self._timeout_s(timeout)
            try:
                return self._network.run(_find_partitions(self._cluster, topic), timeout_s)
            except ClientTimeoutError:
                raise self._late(f"The partitions of {topic} could not be had within {timeout_s:g} s") from None

    # --- what is going on ---------------------------------------------------------------------------------------------

    def metrics(self) -> dict[MetricName, float]:
        """Every metric under the Java client's name; from any thread."""
        now_ms = self._clock.now_ms()
        with self._changed:
            lags = [lag for state in self._positions if (lag := state.lag) is not None]
            values = {
                MetricName(name, FETCH_GROUP, self.client_id): value
                for name, value in self._fetcher.metrics.read(now_ms, lags).items()
            }
            if self._membership is not None:
                for name, value in self._membership.member.metrics(now_ms).items():
                    values[MetricName(name, METRIC_GROUPS[name], self.client_id)] = value
        return values

    def on_event(self, hear: Callable[[GroupEvent], None]) -> None:
        """Hear this member's group events, in order, on the network's thread: be quick, heartbeats wait."""
        self._events.append(hear)


@cache
def _has_pyarrow() -> bool:
    return find_spec("pyarrow") is not None


async def _find_partitions(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """Ask until somebody answers; the caller bounds the time."""
    while True:
        try:
            found = (await cluster.refresh([topic])).get(topic)
        except NetworkError:
            await asyncio.sleep(cluster.config.retry_backoff_ms / 1000)
            continue
        if found is None or found.error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID):
            return []
        if not found.partitions:
            raise BrokerError(found.error, f"The partitions of {topic} could not be had: {found.error.name}.")
        return [TopicPartition(topic, one.index) for one in found.partitions]


def _called(
    callback: Heard, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: SlackwaterError | None
) -> None:
    try:
        callback(offsets, error)
    except Exception:
        log.exception("The commit's callback failed.")
