"""One run of a streaming query, from Spark's first call to its last, in the driver.

Invariants:
- The first call joins the group: `batch_ranges` after a restart with an unfinished batch, otherwise `next_batch`.
- A call without new data waits for a short time before it returns, because Spark calls again at once.
- The first call waits for the first assignment, because a trigger may call only once.
- After `fix_end_offsets`, later records are ignored.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from slackwater.client.errors import ClientTimeoutError
from slackwater.clock import AnchoredClock
from slackwater.escaping import get_logger
from slackwater.group.batches.batch_limits import BatchLimits
from slackwater.group.batches.config import BatchConfig, DataLossError, Handover
from slackwater.group.batches.effects import BatchEffect
from slackwater.group.batches.machine import BatchPlanner
from slackwater.group.batches.offset import BatchOffset
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.member.host_lock import HostLock
from slackwater.spark.member.query_member import QueryClient, QueryMember
from slackwater.spark.source.offset_json import batch_from_spark_offsets
from slackwater.spark.source.offset_reader import OffsetReader
from slackwater.spark.source.options import SourceOptions

# The lines of one query have one logger, whichever module writes them.
log = get_logger("slackwater.spark.member.query_member")
MAX_IDLE_WAIT_S: Final = 0.15
MIN_IDLE_WAIT_S: Final = 0.01
FIRST_ASSIGNMENT_S: Final = 60.0
FIRST_PARTITIONS_S: Final = 10.0
MAX_REBALANCE_S: Final = 600.0
REPLAY_WAIT_MS: Final = 15_000
LOCK_WAIT_S: Final = 20.0
COMMIT_WAIT_S: Final = 1.0


class QueryRun:
    """The state of a query run."""

    def __init__(self, options: SourceOptions, control: ControlAddress | None) -> None:
        if options.assign is not None and options.group_id is not None:
            raise UsageError(
                "assign and kafka.group.id cannot be set together: the group assigns the partitions. Use subscribe, or "
                "remove kafka.group.id."
            )
        self._options = options
        self._control = control
        self.client = QueryClient(options)
        self._offset_reader = OffsetReader(self.client.network, self.client.cluster, options)
        self._clock = AnchoredClock()
        self._changed = threading.Condition(threading.RLock())
        self._batches: BatchPlanner | None = None
        self.member: QueryMember | None = None
        self._locks: list[HostLock] = []
        self._initial: BatchOffset | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._fixed_ends: dict[TopicPartition, int] | None = None
        self._is_first_call = True
        self._is_stopped = False
        self.new_checkpoint_id = uuid.uuid4().hex  # for a checkpoint that has none

    # --- calls from Spark ---------------------------------------------------------------------------------------------

    def initial_offset(self) -> BatchOffset:
        """Return the offset before the first batch: the starting offsets of partitions without a committed offset."""
        if self._initial is None:
            starts = self._offset_reader.resolve(self._options.starting, self._offset_reader.partitions())
            self._initial = BatchOffset(self.new_checkpoint_id, 0, self._options.group_id, starts=starts)
        return self._initial

    def next_batch(self, start: BatchOffset, limits: BatchLimits) -> BatchOffset | None:
        """Plan the next batch; None if there is no new data. All batches up to `start` are finished."""
        self._start(start)
        self.on_batch_finished(start.seq)
        if self._is_first_call:
            self._is_first_call = False
            self._await_partitions()
        self._await_commits()
        self._follow_topics()
        deadline = time.monotonic() + MAX_IDLE_WAIT_S
        pause_s = MIN_IDLE_WAIT_S
        while True:
            offset = self._plan(limits)
            self._raise_failure()
            if offset is not None or self._fixed_ends is not None or time.monotonic() >= deadline:
                return offset
            with self._changed:
                self._changed.wait(pause_s)
            pause_s = min(pause_s * 2, MAX_IDLE_WAIT_S)

    def batch_ranges(self, start: BatchOffset, end: BatchOffset) -> list[OffsetRange]:
        """Return the ranges of a planned batch; after a restart, only those of partitions that are owned."""
        if self._batches is None:
            if end.group_id is None and end.starts and not end.ranges:
                new = sorted(end.starts.keys() - start.starts.keys())
                end = batch_from_spark_offsets(start, end, self._offset_reader.earliest(new))
            self._start(end, unfinished=True)
        batches = self._batches
        assert batches is not None
        self._reset_process_timer()
        with self._changed:
            if batches.ranges(end.seq) is None:
                self._execute(batches.on_logged(end.seq, self._clock.now_ms()))
            ranges = batches.ranges(end.seq)
        if ranges is None:
            self._await(lambda: batches.ranges(end.seq) is not None, MAX_REBALANCE_S, "join its group")
            ranges = batches.ranges(end.seq)
            assert ranges is not None
        return sorted(ranges)

    def on_batch_finished(self, seq: int) -> None:
        """Record that all batches up to this one are finished."""
        self._reset_process_timer()
        if self.member is not None:
            self.member.on_batch_finished(seq)
        elif self._batches is not None:
            self._batches.on_finished(seq, self._clock.now_ms())

    def fix_end_offsets(self) -> None:
        """Ignore records after the current end offsets."""
        self._fixed_ends = self._offset_reader.latest(self._offset_reader.partitions())

    def stop(self, *, leave_group: bool = True) -> None:
        """Commit, leave the group and close the connections."""
        if self._is_stopped:
            return
        self._is_stopped = True
        try:
            if self.member is not None and leave_group:
                self.member.stop()
            elif self.member is not None:
                self.member.abandon()
        finally:
            for lock in self._locks:
                lock.release()
            try:
                self.client.close()
            except SlackwaterError as error:
                log.debug("Closing the connections timed out: %s", error)

    def progress(self) -> dict[str, Any]:
        """Return the metrics of this source for `lastProgress`."""
        batches, member = self._batches, self.member
        if batches is None:
            return {}
        with self._changed:
            now_ms = self._clock.now_ms()
            # Spark shows this after the batch: report the lag that remains then.
            reached = batches.planned_positions
            lag = {
                partition: max(end - reached[partition], 0)
                for partition, end in self._ends.items()
                if partition in reached
            }
            metrics: dict[str, Any] = {"lag": _by_topic(lag), "totalLag": sum(lag.values())}
            if member is None:
                return metrics
            counters = batches.counters
            return metrics | {
                "group": member.config.group_id,
                "client": member.config.client_id,
                "member": member.member_id,
                "instance": member.config.group_instance_id,
                "generation": member.generation_id,
                "assignor": member.protocol_name,
                "owned": _by_topic_list(batches.owned),
                "leaving": _by_topic_list(batches.leaving),
                "rebalances": counters.rebalances,
                "handovers": counters.handovers,
                "handoverTimeouts": counters.handover_timeouts,
                "handoverWaitMs": batches.handover_wait_ms(now_ms),
                "withoutPartitionsMs": batches.without_partitions_ms(now_ms),
                "resetsObeyed": counters.resets_followed,
                "metrics": member.rebalance_metrics(now_ms),
            }

    # --- starting -----------------------------------------------------------------------------------------------------

    def _start(self, last: BatchOffset, *, unfinished: bool = False) -> None:
        if self._batches is not None:
            return
        options = self._options
        self._check_group(last)
        if last.group_id is None and options.group_id is not None:
            # A checkpoint without a group: committed offsets take precedence over its positions.
            starts = {**last.starts, **{partition: part.until_offset for partition, part in last.ranges.items()}}
            ranges = last.ranges if unfinished else {}
            last = BatchOffset(last.checkpoint_id, last.seq, options.group_id, ranges=ranges, starts=starts)
        self._lock(last.checkpoint_id)
        self._offset_reader.partitions()  # fails for unknown topics and unreachable brokers
        config = BatchConfig(
            in_group=options.group_id is not None,
            handover=Handover(options.handover),
            handover_timeout_ms=options.handover_timeout_ms,
            reject_resets=options.on_offset_reset == "refuse",
            fail_on_data_loss=options.fail_on_data_loss,
        )
        batches = BatchPlanner(config, last)
        if unfinished:
            batches.replay(last, self._clock.now_ms(), wait_ms=REPLAY_WAIT_MS)
        self._batches = batches
        if config.in_group:
            self.member = QueryMember(self.client, options, batches, self._changed, self._clock, self._control)
            self.member.start()

    def _check_group(self, last: BatchOffset) -> None:
        group_id = self._options.group_id
        if last.group_id is not None and last.group_id != group_id:
            current = f"kafka.group.id is {group_id}" if group_id else "kafka.group.id is not set"
            raise UsageError(
                f"This checkpoint belongs to group {last.group_id}, but {current}. Set kafka.group.id to "
                f"{last.group_id}, or use another checkpoint."
            )

    def _lock(self, checkpoint_id: str) -> None:
        options = self._options
        self._acquire(
            f"checkpoint {checkpoint_id}",
            "The checkpoint of this query is in use by {holder}. Stop the other query, or use another "
            "checkpointLocation.",
        )
        if options.group_instance_id is not None:
            self._acquire(
                f"instance {options.kafka['bootstrap.servers']} {options.group_id} {options.group_instance_id}",
                f"kafka.group.instance.id={options.group_instance_id} of group {options.group_id} is in use by "
                "{holder} on this host, and the queries would fence each other. Use a different instance id for each "
                "query.",
            )

    def _acquire(self, name: str, error: str) -> None:
        lock = HostLock(name)
        lock.acquire(error, LOCK_WAIT_S)
        self._locks.append(lock)

    def _await_partitions(self) -> None:
        """Wait for the first assignment, and for the partitions that other members hand over."""
        member, batches = self.member, self._batches
        if member is None or batches is None:
            return
        may_return_early = self._fixed_ends is None
        self._await(
            lambda: member.joined and not batches.is_starting,
            FIRST_ASSIGNMENT_S if may_return_early else MAX_REBALANCE_S,
            None if may_return_early else "join its group",
        )
        self._await(lambda: bool(batches.positions) and member.is_stable, FIRST_PARTITIONS_S, None)
        self._await(lambda: not batches.is_starting, FIRST_PARTITIONS_S, None)

    def _await_commits(self) -> None:
        """Wait for the commit of the last batch, so that a crash repeats at most one batch.

        The wait is short: a rebalancing or unreachable group does not stop the query.
        """
        batches = self._batches
        if batches is not None and batches.has_pending_commits:
            self._await(lambda: not batches.has_pending_commits, COMMIT_WAIT_S, None)

    def _await(self, condition: Callable[[], bool], timeout_s: float, action: str | None) -> None:
        """Wait for a condition. After the timeout, raise an error that names `action`, or return if it is None."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._resolve()
            with self._changed:
                self._raise_failure()
                if condition():
                    return
                left = deadline - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, 0.1))
                    continue
            if action is None:
                return
            cause = self.client.cluster.last_failure
            raise ClientTimeoutError(
                f"The query could not {action} within {timeout_s:g} s." + (f" {cause}" if cause else "")
            )

    # --- planning -----------------------------------------------------------------------------------------------------

    def _plan(self, limits: BatchLimits) -> BatchOffset | None:
        batches, member = self._batches, self.member
        assert batches is not None
        self._resolve()
        with self._changed:
            partitions = sorted(batches.positions)
        self._ends = self._offset_reader.latest(partitions)
        ends = self._ends
        if self._fixed_ends is not None:
            ends = {
                partition: min(end, self._fixed_ends[partition])
                for partition, end in ends.items()
                if partition in self._fixed_ends
            }
        with self._changed:
            if self._fixed_ends is not None:  # the position may be after the fixed end if another member has read on
                ends = {partition: max(end, batches.positions.get(partition, end)) for partition, end in ends.items()}
            generation_id = member.generation_id if member is not None else -1
            offset, effects = batches.plan(ends, limits, self._clock.now_ms(), generation_id=generation_id)
            self._execute(effects)
        return offset

    def _follow_topics(self) -> None:
        """Without a group the query owns all partitions, also new ones."""
        batches = self._batches
        if batches is None or self.member is not None:
            return
        existing = frozenset(self._offset_reader.partitions())
        if deleted := batches.owned - existing:
            names = ", ".join(map(str, sorted(deleted)[:5]))
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{names} was deleted before all records were read. Set failOnDataLoss to false to ignore that."
                )
            log.warning("%s was deleted; continuing without it.", names)
            batches.on_lost(deleted, self._clock.now_ms())
        if new := existing - batches.owned:
            batches.on_assigned(new, self._clock.now_ms())

    def _resolve(self) -> None:
        """Read the first offsets of partitions without a known position."""
        batches = self._batches
        if batches is None:
            return
        with self._changed:
            unknown = sorted(batches.without_start)
        if unknown:
            starts = self._offset_reader.earliest(unknown)
            with self._changed:
                self._execute(batches.on_starts_resolved(starts, self._clock.now_ms()))

    def _execute(self, effects: list[BatchEffect]) -> None:
        if self.member is not None:
            self.member.execute(effects)

    def _reset_process_timer(self) -> None:
        if self.member is not None:
            self.member.reset_process_timer()

    def _raise_failure(self) -> None:
        batches, member = self._batches, self.member
        if member is not None and member.failure is not None:
            raise member.failure
        if batches is not None and batches.failure is not None:
            raise batches.failure


def _by_topic(values: dict[TopicPartition, int]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return topics


def _by_topic_list(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
