"""One run of a streaming query, from Spark's first call to its last: in the driver, outside of any task.

Rules kept here
- Whichever call comes first joins the group: after a restart with an unfinished batch that is `ranges`, else `latest`.
- A call that has nothing to give waits a moment for news before it says so: Spark asks again at once.
- The first call waits for the group's first assignment, because a trigger may not ask twice.
- With `fix_ends`, what comes later is not there.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from slackwater.client.errors import ClientTimeoutError
from slackwater.clock import AnchoredClock
from slackwater.group.batches.admission import BatchLimits
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

log = logging.getLogger("slackwater.spark.member.query_member")
NEWS_S: Final = 0.15
FIRST_LOOK_S: Final = 0.01
FIRST_ASSIGNMENT_S: Final = 60.0
FIRST_PARTITIONS_S: Final = 10.0
LONGEST_REBALANCE_S: Final = 600.0
REPLAY_WAIT_MS: Final = 15_000
LOCK_WAIT_S: Final = 20.0
COMMIT_S: Final = 1.0


class QueryRun:
    """What a reader keeps while its query runs."""

    def __init__(self, options: SourceOptions, control: ControlAddress | None) -> None:
        if options.assign is not None and options.group_id is not None:
            raise UsageError(
                "assign and kafka.group.id cannot be set together: the group decides who reads which partition; use "
                "subscribe, or leave the group out."
            )
        self._options = options
        self._control = control
        self._home = QueryClient(options)
        self._watch = OffsetReader(self._home.network, self._home.cluster, options)
        self._clock = AnchoredClock()
        self._changed = threading.Condition(threading.RLock())
        self._batches: BatchPlanner | None = None
        self._member: QueryMember | None = None
        self._locks: list[HostLock] = []
        self._initial: BatchOffset | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._fixed: dict[TopicPartition, int] | None = None
        self._first = True
        self._stopped = False
        self.token = uuid.uuid4().hex  # of a checkpoint that has none yet

    # --- Spark's calls ------------------------------------------------------------------------------------------------

    def initial(self) -> BatchOffset:
        """The place before the first batch of a new query: where partitions begin that nobody has committed."""
        if self._initial is None:
            starts = self._watch.resolve(self._options.starting, self._watch.partitions())
            self._initial = BatchOffset(self.token, 0, self._options.group_id, starts=starts)
        return self._initial

    def latest(self, start: BatchOffset, limits: BatchLimits) -> BatchOffset | None:
        """The next batch; None if there is nothing new. Everything up to `start` is finished."""
        self._begin(start)
        self.finished(start.seq)
        if self._first:
            self._first = False
            self._await_partitions()
        self._await_commits()
        self._follow_topics()
        deadline = time.monotonic() + NEWS_S
        pause_s = FIRST_LOOK_S
        while True:
            offset = self._plan(limits)
            self._check()
            if offset is not None or self._fixed is not None or time.monotonic() >= deadline:
                return offset
            with self._changed:
                self._changed.wait(pause_s)
            pause_s = min(pause_s * 2, NEWS_S)

    def ranges(self, start: BatchOffset, end: BatchOffset) -> list[OffsetRange]:
        """What a batch reads, that is in the checkpoint now; of an unfinished one after a restart, what is ours."""
        if self._batches is None:
            if end.group_id is None and end.starts and not end.ranges:
                new = sorted(end.starts.keys() - start.starts.keys())
                end = batch_from_spark_offsets(start, end, self._watch.earliest(new))
            self._begin(end, unfinished=True)
        batches = self._batches
        assert batches is not None
        self._touch()
        with self._changed:
            if batches.ranges(end.seq) is None:
                self._carry(batches.on_logged(end.seq, self._clock.now_ms()))
            known = batches.ranges(end.seq)
        if known is None:
            self._await(lambda: batches.ranges(end.seq) is not None, LONGEST_REBALANCE_S, "take part in its group")
            known = batches.ranges(end.seq)
            assert known is not None
        return sorted(known)

    def finished(self, seq: int) -> None:
        """Everything up to this batch is done."""
        self._touch()
        if self._member is not None:
            self._member.finished(seq)
        elif self._batches is not None:
            self._batches.on_finished(seq, self._clock.now_ms())

    def fix_ends(self) -> None:
        """Read what is there now, and nothing that comes later."""
        self._fixed = self._watch.latest(self._watch.partitions())

    def stop(self) -> None:
        """Commit, leave, let go."""
        if self._stopped:
            return
        self._stopped = True
        try:
            if self._member is not None:
                self._member.stop()
        finally:
            for lock in self._locks:
                lock.release()
            try:
                self._home.close()
            except SlackwaterError as error:
                log.debug("The connections did not close in time: %s", error)

    def progress(self) -> dict[str, Any]:
        """What `lastProgress` shows of this source."""
        batches, member = self._batches, self._member
        if batches is None:
            return {}
        with self._changed:
            now_ms = self._clock.now_ms()
            # Spark shows this when the batch is finished: what counts is what is left then.
            reached = batches.planned_positions
            lag = {one: max(end - reached[one], 0) for one, end in self._ends.items() if one in reached}
            shown: dict[str, Any] = {"lag": _by_topic(lag), "totalLag": sum(lag.values())}
            if member is None:
                return shown
            counts = batches.counters
            return shown | {
                "group": member.config.group_id,
                "member": member.member_id,
                "instance": member.config.group_instance_id,
                "generation": member.generation_id,
                "assignor": member.protocol_name,
                "owned": _owned(batches.owned),
                "leaving": _owned(batches.leaving),
                "rebalances": counts.rebalances,
                "handovers": counts.handovers,
                "handoverTimeouts": counts.handover_timeouts,
                "handoverWaitMs": batches.handover_wait_ms(now_ms),
                "withoutPartitionsMs": batches.without_partitions_ms(now_ms),
                "resetsObeyed": counts.resets_obeyed,
            }

    # --- beginning ----------------------------------------------------------------------------------------------------

    def _begin(self, last: BatchOffset, *, unfinished: bool = False) -> None:
        if self._batches is not None:
            return
        options = self._options
        self._check_group(last)
        if last.group_id is None and options.group_id is not None:
            # Written without a group: the group's word counts where it has one, and these positions elsewhere.
            starts = {**last.starts, **{one: part.until_offset for one, part in last.ranges.items()}}
            ranges = last.ranges if unfinished else {}
            last = BatchOffset(last.token, last.seq, options.group_id, ranges=ranges, starts=starts)
        self._lock(last.token)
        self._watch.partitions()  # unknown topics and unreachable brokers are told here
        config = BatchConfig(
            in_group=options.group_id is not None,
            handover=Handover(options.handover),
            handover_timeout_ms=options.handover_timeout_ms,
            refuse_resets=options.on_offset_reset == "refuse",
            fail_on_data_loss=options.fail_on_data_loss,
        )
        batches = BatchPlanner(config, last)
        if unfinished:
            batches.replay(last, self._clock.now_ms(), wait_ms=REPLAY_WAIT_MS)
        self._batches = batches
        if config.in_group:
            self._member = QueryMember(self._home, options, batches, self._changed, self._clock, self._control)
            self._member.begin()

    def _check_group(self, last: BatchOffset) -> None:
        wanted = self._options.group_id
        if last.group_id is not None and last.group_id != wanted:
            as_what = f"kafka.group.id is {wanted}" if wanted else "kafka.group.id is not set"
            raise UsageError(
                f"This checkpoint belongs to group {last.group_id}, and {as_what}: its positions are those of another "
                f"group. Set kafka.group.id to {last.group_id}, or use another checkpoint."
            )

    def _lock(self, token: str) -> None:
        options = self._options
        self._take(
            f"checkpoint {token}",
            "This query's checkpoint is in use by {holder}: two queries cannot share one. Stop the other, or give this "
            "one a checkpointLocation of its own.",
        )
        if options.group_instance_id is not None:
            self._take(
                f"instance {options.kafka['bootstrap.servers']} {options.group_id} {options.group_instance_id}",
                f"kafka.group.instance.id={options.group_instance_id} of group {options.group_id} is in use by "
                "{holder} on this host: each would throw the other out of the group. Give every query an instance id "
                "of its own.",
            )

    def _take(self, name: str, refusal: str) -> None:
        lock = HostLock(name)
        lock.take(refusal, LOCK_WAIT_S)
        self._locks.append(lock)

    def _await_partitions(self) -> None:
        """Wait for the group's first assignment, and for a newcomer's share of it."""
        member, batches = self._member, self._batches
        if member is None or batches is None:
            return
        bounded = self._fixed is None
        self._await(
            lambda: member.joined and not batches.is_starting,
            FIRST_ASSIGNMENT_S if bounded else LONGEST_REBALANCE_S,
            None if bounded else "take part in its group",
        )
        self._await(lambda: bool(batches.positions) and member.is_settled, FIRST_PARTITIONS_S, None)
        self._await(lambda: not batches.is_starting, FIRST_PARTITIONS_S, None)

    def _await_commits(self) -> None:
        """Let the group know of the last batch before the next one is planned: what a crash repeats is one batch.

        Not for long: a group that rebalances, or cannot be reached, does not stop the query.
        """
        batches = self._batches
        if batches is not None and batches.has_pending_commits:
            self._await(lambda: not batches.has_pending_commits, COMMIT_S, None)

    def _await(self, condition: Callable[[], bool], timeout_s: float, what: str | None) -> None:
        """Wait for a condition; `what` could not be done is an error then, or nothing at all."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._resolve()
            with self._changed:
                self._check()
                if condition():
                    return
                left = deadline - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, 0.1))
                    continue
            if what is None:
                return
            why = self._home.cluster.last_failure
            raise ClientTimeoutError(f"The query could not {what} within {timeout_s:g} s." + (f" {why}" if why else ""))

    # --- planning -----------------------------------------------------------------------------------------------------

    def _plan(self, limits: BatchLimits) -> BatchOffset | None:
        batches, member = self._batches, self._member
        assert batches is not None
        self._resolve()
        with self._changed:
            wanted = sorted(batches.positions)
        self._ends = self._watch.latest(wanted)
        ends = self._ends
        if self._fixed is not None:
            ends = {one: min(end, self._fixed[one]) for one, end in ends.items() if one in self._fixed}
        with self._changed:
            if self._fixed is not None:  # it may stand behind an end that was fixed before somebody else read on
                ends = {one: max(end, batches.positions.get(one, end)) for one, end in ends.items()}
            generation_id = member.generation_id if member is not None else -1
            offset, effects = batches.plan(ends, limits, self._clock.now_ms(), generation_id=generation_id)
            self._carry(effects)
        return offset

    def _follow_topics(self) -> None:
        """Without a group all partitions are ours, also those that were added."""
        batches = self._batches
        if batches is None or self._member is not None:
            return
        there = frozenset(self._watch.partitions())
        if gone := batches.owned - there:
            names = ", ".join(map(str, sorted(gone)[:5]))
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{names} is gone, and with it what was not read yet. Set failOnDataLoss to false to go on without."
                )
            log.warning("%s is gone; going on without.", names)
            batches.on_lost(gone, self._clock.now_ms())
        if new := there - batches.owned:
            batches.on_assigned(new, self._clock.now_ms())

    def _resolve(self) -> None:
        """Find the beginnings of partitions that nobody knows."""
        batches = self._batches
        if batches is None:
            return
        with self._changed:
            unknown = sorted(batches.without_start)
        if unknown:
            found = self._watch.earliest(unknown)
            with self._changed:
                self._carry(batches.on_starts_resolved(found, self._clock.now_ms()))

    def _carry(self, effects: list[BatchEffect]) -> None:
        if self._member is not None:
            self._member.carry(effects)

    def _touch(self) -> None:
        if self._member is not None:
            self._member.touch()

    def _check(self) -> None:
        batches, member = self._batches, self._member
        if member is not None and member.failure is not None:
            raise member.failure
        if batches is not None and batches.failure is not None:
            raise batches.failure


def _by_topic(values: dict[TopicPartition, int]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return topics


def _owned(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
