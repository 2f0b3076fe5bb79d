"""The batches of a Spark query that is a group member, as a state machine without I/O.

Invariants:
- One call takes one input and the time and returns an ordered list of effects (`effects.py`).
- A batch is *planned* when its ranges are known, *logged* when they are in the query's checkpoint, *finished* when all
  its records are processed. Offsets are committed when the batch is finished, and only for partitions owned without
  interruption since it was planned, or assigned again with a start after it.
- A partition of a planned batch is not revoked until the batch is logged, under every policy. Otherwise a partition
  that is assigned again would be read twice.
- A partition that must leave while a logged batch contains it leaves when the batch is finished and committed (`WAIT`,
  until `handover_timeout_ms`), at once without a commit (`RELEASE`), or at once with an early commit (`COMMIT_EARLY`).
- A partition is read when its start is decided (`start_positions.py`) and committed. After a restart an unfinished
  batch is read again for the partitions that this run owns and that no other member committed; the skipped ranges are
  in no checkpoint, so the next offset is logged even without new records.
- Without a group there is one assignment and no commit.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from slackwater.group.batches.batch_limits import BatchLimiter, BatchLimits, divide_limit
from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.batches.commits import RETRY_MS, CommitReason, PendingCommit, PendingCommits
from slackwater.group.batches.config import BatchConfig, BatchCounters, DataLossError, Handover, OffsetResetRejected
from slackwater.group.batches.effects import (
    BatchEffect,
    BatchEvent,
    BatchEventKind,
    FetchCommitted,
    HoldPartitions,
    ReleasePartitions,
)
from slackwater.group.batches.offset import BatchOffset
from slackwater.group.batches.replay import CommittedByPartition, UnfinishedBatch, decide_replay
from slackwater.group.batches.start_positions import LastRead, StartPosition, after_finished, after_nothing, after_read
from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.messages import NO_GENERATION
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

_FORBIDDEN: Final = frozenset(
    {Error.TOPIC_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED, Error.OFFSET_METADATA_TOO_LARGE}
)


class _PlannedBatch:
    """A batch from its plan to its end; `owned_since_plan` are the partitions owned without interruption since then."""

    def __init__(self, seq: int, ranges: Iterable[OffsetRange], owned_since_plan: Iterable[TopicPartition]) -> None:
        self.seq = seq
        self.ranges = {offset_range.topic_partition: offset_range for offset_range in ranges}
        self.owned_since_plan = set(owned_since_plan)
        self.committed_early: set[TopicPartition] = set()

    @property
    def committable_partitions(self) -> frozenset[TopicPartition]:
        """The partitions with records in this batch whose offsets may still be committed."""
        return frozenset(partition for partition in self.owned_since_plan if self.ranges[partition].size)


class BatchPlanner:
    """The batches of one run of a query."""

    def __init__(self, config: BatchConfig, last: BatchOffset) -> None:
        self.config = config
        self.counters = BatchCounters()
        self.last = last  # the last offset that is, or will be, in the checkpoint
        self.owned: frozenset[TopicPartition] = frozenset()
        self.leaving: frozenset[TopicPartition] = frozenset()
        self.positions: dict[TopicPartition, int] = {}
        self.without_start: set[TopicPartition] = set()  # neither the group nor the checkpoint has a start offset
        self.failure: SlackwaterError | None = None
        self.is_stopping = False
        self._known: dict[TopicPartition, OffsetRange] = dict(last.ranges)
        self._known_seq = last.seq
        self._read: dict[TopicPartition, LastRead] = {}
        self._planned: tuple[BatchOffset, _PlannedBatch] | None = None
        self._running: _PlannedBatch | None = None
        self._replay: UnfinishedBatch | None = None
        self._joined = False
        self._must_log = False
        self._commits = PendingCommits()
        self._starting: dict[TopicPartition, int] = {}  # by partition: the id of the fetch that decides its start
        self._fetch_retries: dict[int, tuple[TopicPartition, ...]] = {}  # partitions by the time of the retry
        self._ids = 0
        self._leaving_since: dict[TopicPartition, int] = {}
        self._timed_out: set[TopicPartition] = set()
        self._held: frozenset[TopicPartition] = frozenset()
        self._unowned_since_ms: int | None = None
        self._waiting_since_ms: int | None = None
        self._limiter = BatchLimiter()
        self._effects: list[BatchEffect] = []

    # --- properties ---------------------------------------------------------------------------------------------------

    @property
    def checkpoint_id(self) -> str:
        """The id of the checkpoint."""
        return self.last.checkpoint_id

    @property
    def is_running(self) -> bool:
        """Whether a batch is logged and not finished."""
        return self._running is not None

    @property
    def is_starting(self) -> bool:
        """Whether the start of some partition is not yet decided and committed."""
        return bool(self._starting or self.without_start) or self._commits.has_ownership_commits

    @property
    def has_pending_commits(self) -> bool:
        """Whether finished work is not yet committed."""
        return bool(self._commits.partitions_with_work)

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """The partitions that the next batch may read."""
        return frozenset(self.positions) - self.leaving

    @property
    def planned_positions(self) -> dict[TopicPartition, int]:
        """The position of each partition after the planned or running batch."""
        planned = self._planned[1].ranges if self._planned is not None else {}
        return self.positions | {
            partition: offset_range.until_offset
            for partition, offset_range in planned.items()
            if partition in self.positions
        }

    def without_partitions_ms(self, now_ms: int) -> int:
        """The time that this run has been without partitions."""
        since = self._unowned_since_ms
        return self.counters.without_partitions_ms + (now_ms - since if since is not None else 0)

    def handover_wait_ms(self, now_ms: int) -> int:
        """The time that revoked partitions have waited for their batch."""
        since = self._waiting_since_ms
        return self.counters.handover_wait_ms + (now_ms - since if since is not None else 0)

    def next_due_ms(self) -> int | None:
        """When to call `tick`."""
        dues = [since + self.config.handover_timeout_ms for since in self._waiting().values()]
        dues += self._fetch_retries
        if (retry_ms := self._commits.due_ms()) is not None:
            dues.append(retry_ms)
        if self._replay is not None and self._joined and self._replay.fetch_id is None:
            dues.append(self._replay.retry_due_ms)
        return min(dues, default=None)

    # --- assignment ---------------------------------------------------------------------------------------------------

    def on_assigned(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """Add newly assigned partitions."""
        new = frozenset(partitions) - self.owned
        self.owned |= new
        self.counters.rebalances += self.config.in_group
        self._joined = True
        self._track_ownership(now_ms)
        if not self.config.in_group:
            for partition in sorted(new):
                self._begin(partition, self._start(partition, None))
        elif self._replay is None:
            self._fetch_starts(new)
        return self._finish_input(now_ms)

    def on_revoked(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """Remove revoked partitions; running work on them is not committed."""
        gone = frozenset(partitions)
        for partition in gone & self._leaving_since.keys():
            self.counters.handovers += 1
            waited_ms = now_ms - self._leaving_since[partition]
            self._effects.append(BatchEvent(BatchEventKind.HANDED_OVER, partition, duration_ms=waited_ms))
        self._give_up(gone)
        self._track_ownership(now_ms)
        return self._finish_input(now_ms)

    def on_lost(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """Remove partitions that other members already own."""
        self._give_up(frozenset(partitions))
        self._track_ownership(now_ms)
        return self._finish_input(now_ms)

    def set_leaving(self, partitions: Collection[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """Set the partitions that were revoked and stay only because they are held."""
        self.leaving = frozenset(partitions)
        for partition in self.leaving - self._leaving_since.keys():
            self._leaving_since[partition] = now_ms
        for partition in self._leaving_since.keys() - self.leaving:
            del self._leaving_since[partition]  # it was assigned to this member again
            self._timed_out.discard(partition)
        return self._finish_input(now_ms)

    def _give_up(self, gone: frozenset[TopicPartition]) -> None:
        self.owned -= gone
        self.leaving -= gone
        self.without_start -= gone
        for partition in gone:
            self.positions.pop(partition, None)
            self._starting.pop(partition, None)
            self._leaving_since.pop(partition, None)
            self._timed_out.discard(partition)
        self._commits.drop(gone)
        for batch in self._batches():
            batch.owned_since_plan -= gone

    def _batches(self) -> list[_PlannedBatch]:
        planned = [self._planned[1]] if self._planned is not None else []
        return planned + ([self._running] if self._running is not None else [])

    def _track_ownership(self, now_ms: int) -> None:
        if self.owned and self._unowned_since_ms is not None:
            self.counters.without_partitions_ms += now_ms - self._unowned_since_ms
            self._unowned_since_ms = None
        elif not self.owned and self._unowned_since_ms is None:
            self._unowned_since_ms = now_ms

    # --- where partitions start ---------------------------------------------------------------------------------------

    def _fetch_starts(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._ids += 1
            self._starting.update(dict.fromkeys(partitions, self._ids))
            self._effects.append(FetchCommitted(self._ids, tuple(sorted(partitions))))

    def on_committed_fetched(
        self, fetch_id: int, committed_offsets: CommittedByPartition, now_ms: int, *, failed: bool = False
    ) -> list[BatchEffect]:
        """Handle the group's committed offsets, or a failed fetch."""
        if self._replay is not None and self._replay.fetch_id == fetch_id:
            self._replay.fetch_id = None
            self._replay.retry_due_ms = now_ms + RETRY_MS
            if not failed:
                self._decide_replay(committed_offsets, now_ms)
            return self._finish_input(now_ms)
        partitions = [
            partition for partition, pending_fetch_id in self._starting.items() if pending_fetch_id == fetch_id
        ]
        if failed and partitions:
            due_ms = now_ms + RETRY_MS
            self._fetch_retries[due_ms] = (*self._fetch_retries.get(due_ms, ()), *partitions)
            return self._finish_input(now_ms)
        for partition in partitions:
            del self._starting[partition]
            self._begin(partition, self._start(partition, committed_offsets.get(partition)))
        return self._finish_input(now_ms)

    def on_starts_resolved(self, starts: Mapping[TopicPartition, int], now_ms: int) -> list[BatchEffect]:
        """Set the start offsets of partitions in `without_start`."""
        for partition in sorted(self.without_start & starts.keys()):
            self.without_start.discard(partition)
            start = starts[partition]
            self._begin(partition, StartPosition(start, (start, self.last.seq)))
        return self._finish_input(now_ms)

    def _start(self, partition: TopicPartition, committed: OffsetAndMetadata | None) -> StartPosition | None:
        checkpoint_id, seq = self.last.checkpoint_id, self.last.seq
        if (read := self._read.get(partition)) is not None:
            return after_read(checkpoint_id, seq, committed, read)
        if (known := self._known.get(partition)) is not None:
            return after_finished(checkpoint_id, self._known_seq, committed, known)
        return after_nothing(checkpoint_id, seq, committed, self.last.starts.get(partition))

    def _begin(self, partition: TopicPartition, start: StartPosition | None) -> None:
        """Start reading after the ownership commit."""
        if start is None:
            self.without_start.add(partition)
            return
        if start.reset_from is not None and not self._follow_reset(partition, start.position, start.reset_from):
            return
        if (read := self._read.get(partition)) is not None and start.position < read.since:
            del self._read[partition]  # an operator reset the offset: read it again
        if start.ownership_commit is None or not self.config.in_group:
            self._set_position(partition, start.position)
        else:
            offset, seq = start.ownership_commit
            self._commits.by_partition[partition] = PendingCommit(
                offset, CommitMarker(self.last.checkpoint_id, seq), CommitReason.OWNERSHIP, start.position
            )

    def _set_position(self, partition: TopicPartition, position: int) -> None:
        if partition not in self.owned:
            return
        read = self._read.get(partition)
        if read is not None and read.range.from_offset <= position < read.range.until_offset:
            position = read.range.until_offset  # it was logged while its ownership commit was in flight
        self.positions[partition] = position
        self._effects.append(BatchEvent(BatchEventKind.STARTED, partition, offset=position))

    def _follow_reset(self, partition: TopicPartition, position: int, previous: int) -> bool:
        if self.config.reject_resets:
            self.failure = self.failure or OffsetResetRejected(
                f"The group's offset of {partition} is {position}, and this query was at {previous}: it was reset "
                "by another client. Set onOffsetReset to obey to start there, or set the offset back."
            )
            return False
        self.counters.resets_followed += 1
        self._effects.append(
            BatchEvent(BatchEventKind.RESET_FOLLOWED, partition, offset=position, previous_offset=previous)
        )
        return True

    # --- a restart with an unfinished batch ---------------------------------------------------------------------------

    def replay(self, offset: BatchOffset, now_ms: int, *, wait_ms: int) -> list[BatchEffect]:
        """Decide what to read again: the checkpoint's last batch is not finished.

        Until the decision no partition starts. It is made when each partition is owned by this query or taken by
        another member; `wait_ms` bounds the wait.
        """
        self.last = offset
        self._known = dict(offset.ranges)
        self._known_seq = offset.seq
        if not self.config.in_group:
            for offset_range in offset.ranges.values():
                self._start_replayed(
                    offset_range.topic_partition, StartPosition(offset_range.until_offset, replay=offset_range)
                )
            self._running = _PlannedBatch(offset.seq, offset.ranges.values(), ())
            return self._finish_input(now_ms)
        self._starting.clear()
        self._replay = UnfinishedBatch(offset, wait_ms, retry_due_ms=now_ms)
        return self._finish_input(now_ms)

    def _fetch_for_replay(self, now_ms: int) -> None:
        """Fetch the committed offsets of the batch's and the owned partitions."""
        replay = self._replay
        if replay is None or not self._joined or replay.fetch_id is not None or now_ms < replay.retry_due_ms:
            return
        if replay.deadline_ms is None:
            replay.deadline_ms = now_ms + replay.wait_ms
        self._ids += 1
        replay.fetch_id = self._ids
        self._effects.append(FetchCommitted(self._ids, tuple(sorted(self.owned | replay.non_empty_ranges.keys()))))

    def _decide_replay(self, committed_offsets: CommittedByPartition, now_ms: int) -> None:
        replay = self._replay
        if replay is None or not self.owned <= committed_offsets.keys():
            return  # a partition was assigned while the fetch was in flight
        commit_early = self.config.handover is Handover.COMMIT_EARLY
        replay_plan = decide_replay(replay, self.owned, committed_offsets, now_ms, commit_early=commit_early)
        if replay_plan is None:
            return
        self._replay = None
        for partition, start in replay_plan.starts.items():
            self._start_replayed(partition, start)
        for replay_range, last in zip(replay_plan.ranges, replay.non_empty_ranges.values(), strict=True):
            if replay_range.topic_partition not in replay_plan.starts:
                self._known[replay_range.topic_partition] = last.with_offsets(last.from_offset, last.from_offset)
            self._must_log |= replay_range.size < last.size
            what = BatchEventKind.REPLAYED if replay_range.size else BatchEventKind.SKIPPED
            self._effects.append(
                BatchEvent(
                    what,
                    replay_range.topic_partition,
                    offset=replay_range.from_offset,
                    previous_offset=last.until_offset,
                )
            )
        self._running = _PlannedBatch(replay.offset.seq, replay_plan.ranges, replay_plan.to_commit)
        self._fetch_starts(self.owned - replay_plan.starts.keys())

    def _start_replayed(self, partition: TopicPartition, start: StartPosition) -> None:
        if start.replay is not None and start.replay.size:
            self._read[partition] = LastRead.after(None, start.replay, self.last.seq)
        self._begin(partition, start)

    # --- batches ------------------------------------------------------------------------------------------------------

    def plan(
        self,
        ends: Mapping[TopicPartition, int],
        limits: BatchLimits,
        now_ms: int,
        *,
        generation_id: int = NO_GENERATION,
    ) -> tuple[BatchOffset | None, list[BatchEffect]]:
        """Plan the next batch up to these end offsets; None if there are too few new offsets."""
        self._planned = None
        positions = {partition: self.positions[partition] for partition in sorted(self.fetchable) if partition in ends}
        for partition, position in positions.items():
            if ends[partition] < position:
                self._shrunk(partition, position, ends[partition])
                positions[partition] = self.positions[partition]
        backlog = {partition: ends[partition] - position for partition, position in positions.items()}
        backlog = {partition: size for partition, size in backlog.items() if size}
        if not self._must_log and (not backlog or not self._limiter.may_start(sum(backlog.values()), limits, now_ms)):
            return None, self._finish_input(now_ms)
        taken = divide_limit(backlog, limits.max_offsets)
        ranges = [
            OffsetRange(*partition, position, position + taken.get(partition, 0))
            for partition, position in positions.items()
        ]
        batch = _PlannedBatch(self.last.seq + 1, ranges, positions)
        offset = BatchOffset(
            self.last.checkpoint_id, batch.seq, self.last.group_id, generation_id, batch.ranges, self.last.starts
        )
        self._planned = offset, batch
        return offset, self._finish_input(now_ms)

    def _shrunk(self, partition: TopicPartition, position: int, end: int) -> None:
        if self.config.fail_on_data_loss:
            self.failure = self.failure or DataLossError(
                f"{partition} ends at {end}, and this query has read it until {position}: records were deleted, or "
                "the topic was recreated. Set failOnDataLoss to false to continue from its end."
            )
        self.positions[partition] = end
        self._read.pop(partition, None)

    def on_logged(self, seq: int, now_ms: int) -> list[BatchEffect]:
        """Handle a planned batch that is now in the checkpoint: it will be read, now or after a restart."""
        if self._planned is not None and self._planned[1].seq == seq:
            self._finish(seq - 1)
            (self.last, batch), self._planned = self._planned, None
            self._must_log = False
            for partition, offset_range in batch.ranges.items():
                self._read[partition] = LastRead.after(self._read.get(partition), offset_range, seq)
                position = self.positions.get(partition)
                if position is not None and offset_range.from_offset <= position <= offset_range.until_offset:
                    self.positions[partition] = offset_range.until_offset
            self._running = batch
        return self._finish_input(now_ms)

    def ranges(self, seq: int) -> list[OffsetRange] | None:
        """The ranges of the running batch; None if another one runs, or none."""
        running = self._running
        return None if running is None or running.seq != seq else list(running.ranges.values())

    def input_offsets(self, seq: int) -> tuple[dict[TopicPartition, OffsetAndMetadata], frozenset[TopicPartition]]:
        """The offsets that a sink commits with the output of the running batch, and the partitions that were lost.

        If a partition was lost, its new owner reads the batch again, and the output must not become visible.
        """
        running = self._running
        if running is None or running.seq != seq:
            lost = running.ranges if running is not None else self.last.ranges
            return {}, frozenset(lost)
        partitions = frozenset(partition for partition, part in running.ranges.items() if part.size)
        marker = str(CommitMarker(self.last.checkpoint_id, seq))
        offsets = {
            partition: OffsetAndMetadata(running.ranges[partition].until_offset, metadata=marker)
            for partition in partitions & running.owned_since_plan
        }
        return offsets, partitions - running.owned_since_plan

    def on_finished(self, seq: int, now_ms: int) -> list[BatchEffect]:
        """Handle the end of all batches up to this one."""
        self._finish(seq)
        return self._finish_input(now_ms)

    def _finish(self, seq: int) -> None:
        running = self._running
        if running is None or running.seq > seq:
            return
        self._running = None
        for partition, offset_range in running.ranges.items():
            read = self._read.get(partition)
            if read is not None and read.seq == running.seq:
                self._read[partition] = replace(read, finished=True)
            # A partition that was lost and came back was started again here: no other member can have continued since.
            was_restarted = (
                self.positions.get(partition) == offset_range.until_offset and partition not in running.committed_early
            )
            if self.config.in_group and offset_range.size and (partition in running.owned_since_plan or was_restarted):
                self._add_pending(
                    partition,
                    PendingCommit(
                        offset_range.until_offset,
                        CommitMarker(self.last.checkpoint_id, running.seq),
                        CommitReason.FINISHED,
                    ),
                )

    def _add_pending(self, partition: TopicPartition, pending_commit: PendingCommit) -> None:
        previous = self._commits.by_partition.get(partition)
        if previous is not None and previous.position is not None:
            self._set_position(partition, previous.position)  # the finished offset replaces the ownership commit
        self._commits.by_partition[partition] = pending_commit

    def stop(self, now_ms: int) -> list[BatchEffect]:
        """Stop: no further batch finishes; only finished work is still committed."""
        self.is_stopping = True
        self._planned = None
        return self._finish_input(now_ms)

    # --- commits ------------------------------------------------------------------------------------------------------

    def on_commit_done(self, commit_id: int, error: SlackwaterError | None, now_ms: int) -> list[BatchEffect]:
        """Handle the end of a commit; a failed one is retried while its partitions are owned."""
        if error is not None:
            self.counters.commits_rejected += 1
            if isinstance(error, BrokerError) and error.error in _FORBIDDEN:
                self.failure = self.failure or error
        for partition, pending_commit in self._commits.on_done(commit_id, now_ms, failed=error is not None).items():
            if pending_commit.reason is CommitReason.EARLY and self._running is not None:
                self._running.owned_since_plan.discard(partition)
                self._running.committed_early.add(partition)
            if pending_commit.position is not None:
                self._set_position(partition, pending_commit.position)
        return self._finish_input(now_ms)

    # --- handover -----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[BatchEffect]:
        """Run what is due."""
        self._commits.tick(now_ms)
        for due_ms in [due_ms for due_ms in self._fetch_retries if due_ms <= now_ms]:
            waiting = self._fetch_retries.pop(due_ms)
            self._fetch_starts([partition for partition in waiting if partition in self._starting])
        return self._finish_input(now_ms)

    def _waiting(self) -> dict[TopicPartition, int]:
        """The partitions that must leave and wait for the running batch, with the time since when."""
        running = self._running
        if running is None or self.config.handover is Handover.RELEASE:
            return {}
        waiting = running.committable_partitions & self.leaving
        return {
            partition: since
            for partition, since in self._leaving_since.items()
            if partition in waiting - self._timed_out
        }

    def _hand_over(self, now_ms: int) -> None:
        for partition, since in self._waiting().items():
            if now_ms - since >= self.config.handover_timeout_ms:
                self._timed_out.add(partition)
                self.counters.handover_timeouts += 1
                self._effects.append(
                    BatchEvent(BatchEventKind.HANDOVER_TIMED_OUT, partition, duration_ms=now_ms - since)
                )
            elif self.config.handover is Handover.COMMIT_EARLY and partition not in self._commits.by_partition:
                assert self._running is not None
                mark = CommitMarker(self.last.checkpoint_id, self._running.seq, is_early=True)
                end = self._running.ranges[partition].until_offset
                self._commits.by_partition[partition] = PendingCommit(end, mark, CommitReason.EARLY)

    def _to_hold(self) -> frozenset[TopicPartition]:
        held = set(self._commits.partitions_with_work)
        if self._planned is not None:
            held |= self._planned[1].committable_partitions
        if self._running is not None and self.config.handover is not Handover.RELEASE and not self.is_stopping:
            held |= self._running.committable_partitions - self._timed_out
        return frozenset(held) & self.owned

    # --- after every input --------------------------------------------------------------------------------------------

    def _track_waiting(self, now_ms: int) -> None:
        if self._leaving_since and self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        elif not self._leaving_since and self._waiting_since_ms is not None:
            self.counters.handover_wait_ms += now_ms - self._waiting_since_ms
            self._waiting_since_ms = None

    def _finish_input(self, now_ms: int) -> list[BatchEffect]:
        if self.config.in_group:
            self._track_waiting(now_ms)
            self._fetch_for_replay(now_ms)
            if not self.is_stopping:
                self._hand_over(now_ms)
            self._ids += 1
            if (commit := self._commits.next(self._ids)) is not None:
                self._effects.append(commit)
            held = self._to_hold()
            if more := held - self._held:
                self._effects.append(HoldPartitions(more))
            if less := self._held - held:
                self._effects.append(ReleasePartitions(less))
            self._held = held
        effects, self._effects = self._effects, []
        return effects
