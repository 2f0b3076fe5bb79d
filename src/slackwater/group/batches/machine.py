"""The batches of a query that is a member of a group, as a machine without I/O.

Rules kept here
- One call takes one input and the time, and returns an ordered list of effects (`batch_effects.py`).
- A batch is *planned* when its ranges are known, *logged* when they are in the query's checkpoint, *finished* when
  everything in it is done. Offsets are committed when it is finished, and only those of partitions that were owned
  without a break since it was planned, or that came back and were started anew behind it.
- A partition in a planned batch stays, whatever the policy: before it is logged, a range is neither in flight nor
  abandoned, and a partition that came back would be read again although it is in the checkpoint.
- A partition that must leave while a logged batch contains it leaves when the batch is finished and committed
  (`WAIT`, until `timeout_ms`), at once and uncommitted (`RELEASE`), or at once and committed in advance (`HANDOFF`).
- A partition is read when its start is decided (`resuming.py`) and claimed. A batch that is read again after a restart
  is what this run owns of it and nobody has committed since; what was left out is in no checkpoint, and therefore the
  next offset is logged even if there is nothing new to read.
- Without a group all of this is one assignment and no commit.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from slackwater.group.batches.admission import BatchAdmission, BatchLimits, shared
from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.batches.commits import RETRY_MS, CommitReason, PendingCommit, PendingCommits
from slackwater.group.batches.config import BatchConfig, BatchCounters, DataLossError, Handover, OffsetResetRefused
from slackwater.group.batches.effects import (
    BatchEffect,
    BatchEvent,
    BatchEventKind,
    FetchCommitted,
    HoldPartitions,
    ReleasePartitions,
)
from slackwater.group.batches.offset import NO_GENERATION, BatchOffset
from slackwater.group.batches.replay import Committed, UnfinishedBatch, decide
from slackwater.group.batches.start_positions import LastRead, StartPosition, after_finished, after_nothing, after_read
from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

_FORBIDDEN: Final = frozenset(
    {Error.TOPIC_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED, Error.OFFSET_METADATA_TOO_LARGE}
)


class _PlannedBatch:
    """A batch from its plan to its end; `unbroken` are the partitions owned ever since."""

    def __init__(self, seq: int, ranges: Iterable[OffsetRange], unbroken: Iterable[TopicPartition]) -> None:
        self.seq = seq
        self.ranges = {one.topic_partition: one for one in ranges}
        self.unbroken = set(unbroken)
        self.handed_off: set[TopicPartition] = set()

    @property
    def reads(self) -> frozenset[TopicPartition]:
        """The partitions it reads something of, and may still commit."""
        return frozenset(one for one in self.unbroken if self.ranges[one].size)


class BatchPlanner:
    """The batches of one query, in one run of it."""

    def __init__(self, config: BatchConfig, last: BatchOffset) -> None:
        self.config = config
        self.counters = BatchCounters()
        self.last = last  # the last offset that is in the checkpoint, or is to be
        self.owned: frozenset[TopicPartition] = frozenset()
        self.leaving: frozenset[TopicPartition] = frozenset()
        self.positions: dict[TopicPartition, int] = {}
        self.without_start: set[TopicPartition] = set()  # neither group nor checkpoint knows where these begin
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
        self._starting: dict[TopicPartition, int] = {}  # which look-up decides
        self._fetch_retries: dict[int, tuple[TopicPartition, ...]] = {}  # when to ask again, by time
        self._ids = 0
        self._leaving_since: dict[TopicPartition, int] = {}
        self._timed_out: set[TopicPartition] = set()
        self._held: frozenset[TopicPartition] = frozenset()
        self._bare_since_ms: int | None = None
        self._waiting_since_ms: int | None = None
        self._admission = BatchAdmission()
        self._effects: list[BatchEffect] = []

    # --- reads --------------------------------------------------------------------------------------------------------

    @property
    def token(self) -> str:
        """The name of the checkpoint."""
        return self.last.token

    @property
    def is_running(self) -> bool:
        """Whether a batch is logged and not finished."""
        return self._running is not None

    @property
    def is_starting(self) -> bool:
        """Whether the start of some partition is not yet decided and claimed."""
        return bool(self._starting or self.without_start) or self._commits.claims

    @property
    def has_pending_commits(self) -> bool:
        """Whether something finished is not yet committed."""
        return bool(self._commits.work)

    @property
    def is_replaying(self) -> bool:
        """Whether it is still open what of an unfinished batch is read again."""
        return self._replay is not None

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """The partitions the next batch may read."""
        return frozenset(self.positions) - self.leaving

    @property
    def planned_positions(self) -> dict[TopicPartition, int]:
        """Where each partition stands when the batch that is planned, or runs, is finished."""
        planned = self._planned[1].ranges if self._planned is not None else {}
        return self.positions | {at: one.until_offset for at, one in planned.items() if at in self.positions}

    def without_partitions_ms(self, now_ms: int) -> int:
        """How long this run has had nothing to read."""
        since = self._bare_since_ms
        return self.counters.without_partitions_ms + (now_ms - since if since is not None else 0)

    def handover_wait_ms(self, now_ms: int) -> int:
        """How long some partition that must leave has waited for its batch."""
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

    # --- what the group says ------------------------------------------------------------------------------------------

    def on_assigned(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """These are ours now."""
        new = frozenset(partitions) - self.owned
        self.owned |= new
        self.counters.rebalances += self.config.in_group
        self._joined = True
        self._note_bareness(now_ms)
        if not self.config.in_group:
            for partition in sorted(new):
                self._begin(partition, self._start(partition, None))
        elif self._replay is None:
            self._look_up(new)
        return self._after(now_ms)

    def on_revoked(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """These are no longer ours; what is running on them will not be committed."""
        gone = frozenset(partitions)
        for partition in gone & self._leaving_since.keys():
            self.counters.handovers += 1
            waited_ms = now_ms - self._leaving_since[partition]
            self._effects.append(BatchEvent(BatchEventKind.HANDED_OVER, partition, duration_ms=waited_ms))
        self._give_up(gone)
        self._note_bareness(now_ms)
        return self._after(now_ms)

    def on_lost(self, partitions: Iterable[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """These were somebody else's before we knew."""
        self._give_up(frozenset(partitions))
        self._note_bareness(now_ms)
        return self._after(now_ms)

    def set_leaving(self, partitions: Collection[TopicPartition], now_ms: int) -> list[BatchEffect]:
        """These were taken away, and stay only because they are held: all that do, at this moment."""
        self.leaving = frozenset(partitions)
        for partition in self.leaving - self._leaving_since.keys():
            self._leaving_since[partition] = now_ms
        for partition in self._leaving_since.keys() - self.leaving:
            del self._leaving_since[partition]  # the group has given it back
            self._timed_out.discard(partition)
        return self._after(now_ms)

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
            batch.unbroken -= gone

    def _batches(self) -> list[_PlannedBatch]:
        planned = [self._planned[1]] if self._planned is not None else []
        return planned + ([self._running] if self._running is not None else [])

    def _note_bareness(self, now_ms: int) -> None:
        if self.owned and self._bare_since_ms is not None:
            self.counters.without_partitions_ms += now_ms - self._bare_since_ms
            self._bare_since_ms = None
        elif not self.owned and self._bare_since_ms is None:
            self._bare_since_ms = now_ms

    # --- where partitions start ---------------------------------------------------------------------------------------

    def _look_up(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._ids += 1
            self._starting.update(dict.fromkeys(partitions, self._ids))
            self._effects.append(FetchCommitted(self._ids, tuple(sorted(partitions))))

    def on_committed_fetched(
        self, fetch_id: int, found: Committed, now_ms: int, *, failed: bool = False
    ) -> list[BatchEffect]:
        """What the group has committed, or that it could not be had."""
        if self._replay is not None and self._replay.fetch_id == fetch_id:
            self._replay.fetch_id = None
            self._replay.retry_due_ms = now_ms + RETRY_MS
            if not failed:
                self._decide_replay(found, now_ms)
            return self._after(now_ms)
        mine = [partition for partition, asked in self._starting.items() if asked == fetch_id]
        if failed and mine:
            due_ms = now_ms + RETRY_MS
            self._fetch_retries[due_ms] = (*self._fetch_retries.get(due_ms, ()), *mine)
            return self._after(now_ms)
        for partition in mine:
            del self._starting[partition]
            self._begin(partition, self._start(partition, found.get(partition)))
        return self._after(now_ms)

    def on_starts_resolved(self, starts: Mapping[TopicPartition, int], now_ms: int) -> list[BatchEffect]:
        """Where partitions begin that nobody knew."""
        for partition in sorted(self.without_start & starts.keys()):
            self.without_start.discard(partition)
            at = starts[partition]
            self._begin(partition, StartPosition(at, (at, self.last.seq)))
        return self._after(now_ms)

    def _start(self, partition: TopicPartition, committed: OffsetAndMetadata | None) -> StartPosition | None:
        token, seq = self.last.token, self.last.seq
        if (read := self._read.get(partition)) is not None:
            return after_read(token, seq, committed, read)
        if (known := self._known.get(partition)) is not None:
            return after_finished(token, self._known_seq, committed, known)
        return after_nothing(token, seq, committed, self.last.starts.get(partition))

    def _begin(self, partition: TopicPartition, start: StartPosition | None) -> None:
        """Read from here on, as soon as the group knows that it is us."""
        if start is None:
            self.without_start.add(partition)
            return
        if start.reset_from is not None and not self._obeys(partition, start.position, start.reset_from):
            return
        if (read := self._read.get(partition)) is not None and start.position < read.since:
            del self._read[partition]  # it is to be read again, on purpose
        if start.claim is None or not self.config.in_group:
            self._stand(partition, start.position)
        else:
            offset, seq = start.claim
            self._commits.owed[partition] = PendingCommit(
                offset, CommitMarker(self.last.token, seq), CommitReason.CLAIM, start.position
            )

    def _stand(self, partition: TopicPartition, position: int) -> None:
        if partition not in self.owned:
            return
        read = self._read.get(partition)
        if read is not None and read.range.from_offset <= position < read.range.until_offset:
            position = read.range.until_offset  # it was logged while its claim was under way
        self.positions[partition] = position
        self._effects.append(BatchEvent(BatchEventKind.STARTED, partition, offset=position))

    def _obeys(self, partition: TopicPartition, position: int, before: int) -> bool:
        if self.config.refuse_resets:
            self.failure = self.failure or OffsetResetRefused(
                f"The group's offset of {partition} is {position}, and this query stood at {before}: somebody has "
                "moved it. Set onOffsetReset to obey to start there, or move it back."
            )
            return False
        self.counters.resets_obeyed += 1
        self._effects.append(
            BatchEvent(BatchEventKind.RESET_OBEYED, partition, offset=position, previous_offset=before)
        )
        return True

    # --- a restart with an unfinished batch ---------------------------------------------------------------------------

    def replay(self, offset: BatchOffset, now_ms: int, *, wait_ms: int) -> list[BatchEffect]:
        """The checkpoint's last batch is not finished: find out what of it is ours to read again.

        Until it is known, partitions start nowhere. It is known when each is owned by us or taken by somebody else;
        `wait_ms` bounds the wait for that.
        """
        self.last = offset
        self._known = dict(offset.ranges)
        self._known_seq = offset.seq
        if not self.config.in_group:
            for one in offset.ranges.values():
                self._start_replayed(one.topic_partition, StartPosition(one.until_offset, replay=one))
            self._running = _PlannedBatch(offset.seq, offset.ranges.values(), ())
            return self._after(now_ms)
        self._starting.clear()
        self._replay = UnfinishedBatch(offset, wait_ms, retry_due_ms=now_ms)
        return self._after(now_ms)

    def _ask_replay(self, now_ms: int) -> None:
        """Ask again what the group has committed, of everything the batch reads and everything that is ours."""
        replay = self._replay
        if replay is None or not self._joined or replay.fetch_id is not None or now_ms < replay.retry_due_ms:
            return
        if replay.deadline_ms is None:
            replay.deadline_ms = now_ms + replay.wait_ms
        self._ids += 1
        replay.fetch_id = self._ids
        self._effects.append(FetchCommitted(self._ids, tuple(sorted(self.owned | replay.reads.keys()))))

    def _decide_replay(self, found: Committed, now_ms: int) -> None:
        replay = self._replay
        if replay is None or not self.owned <= found.keys():
            return  # something came to us while the question was under way
        handoff = self.config.handover is Handover.HANDOFF
        decided = decide(replay, self.owned, found, now_ms, handoff=handoff)
        if decided is None:
            return
        self._replay = None
        for partition, start in decided.starts.items():
            self._start_replayed(partition, start)
        for piece, last in zip(decided.pieces, replay.reads.values(), strict=True):
            if piece.topic_partition not in decided.starts:
                self._known[piece.topic_partition] = last.with_offsets(last.from_offset, last.from_offset)
            self._must_log |= piece.size < last.size
            what = BatchEventKind.REPLAYED if piece.size else BatchEventKind.LEFT_OUT
            self._effects.append(
                BatchEvent(what, piece.topic_partition, offset=piece.from_offset, previous_offset=last.until_offset)
            )
        self._running = _PlannedBatch(replay.offset.seq, decided.pieces, decided.to_commit)
        self._look_up(self.owned - decided.starts.keys())

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
        """The next batch, up to these ends; None if there is nothing new, or not enough of it."""
        self._planned = None
        here = {partition: self.positions[partition] for partition in sorted(self.fetchable) if partition in ends}
        for partition, position in here.items():
            if ends[partition] < position:
                self._shrunk(partition, position, ends[partition])
                here[partition] = self.positions[partition]
        backlog = {partition: ends[partition] - position for partition, position in here.items()}
        backlog = {partition: size for partition, size in backlog.items() if size}
        if not self._must_log and (not backlog or not self._admission.admits(sum(backlog.values()), limits, now_ms)):
            return None, self._after(now_ms)
        taken = shared(backlog, limits.max_offsets)
        ranges = [
            OffsetRange(*partition, position, position + taken.get(partition, 0))
            for partition, position in here.items()
        ]
        batch = _PlannedBatch(self.last.seq + 1, ranges, here)
        offset = BatchOffset(
            self.last.token, batch.seq, self.last.group_id, generation_id, batch.ranges, self.last.starts
        )
        self._planned = offset, batch
        return offset, self._after(now_ms)

    def _shrunk(self, partition: TopicPartition, position: int, end: int) -> None:
        if self.config.fail_on_data_loss:
            self.failure = self.failure or DataLossError(
                f"{partition} ends at {end}, and this query has read it until {position}: records are gone, or the "
                "topic was made anew. Set failOnDataLoss to false to go on from its end."
            )
        self.positions[partition] = end
        self._read.pop(partition, None)

    def on_logged(self, seq: int, now_ms: int) -> list[BatchEffect]:
        """A planned batch is in the checkpoint: it will be read, now or after a restart."""
        if self._planned is not None and self._planned[1].seq == seq:
            self._finish(seq - 1)
            (self.last, batch), self._planned = self._planned, None
            self._must_log = False
            for partition, one in batch.ranges.items():
                self._read[partition] = LastRead.after(self._read.get(partition), one, seq)
                position = self.positions.get(partition)
                if position is not None and one.from_offset <= position <= one.until_offset:
                    self.positions[partition] = one.until_offset
            self._running = batch
        return self._after(now_ms)

    def ranges(self, seq: int) -> list[OffsetRange] | None:
        """What the running batch reads; None if another one runs, or none."""
        running = self._running
        return None if running is None or running.seq != seq else list(running.ranges.values())

    def on_finished(self, seq: int, now_ms: int) -> list[BatchEffect]:
        """Everything up to this batch is done."""
        self._finish(seq)
        return self._after(now_ms)

    def _finish(self, seq: int) -> None:
        running = self._running
        if running is None or running.seq > seq:
            return
        self._running = None
        for partition, one in running.ranges.items():
            read = self._read.get(partition)
            if read is not None and read.seq == running.seq:
                self._read[partition] = replace(read, finished=True)
            # What was lost and came back has been started anew: nobody else can have gone on since.
            anew = self.positions.get(partition) == one.until_offset and partition not in running.handed_off
            if self.config.in_group and one.size and (partition in running.unbroken or anew):
                self._owe(
                    partition,
                    PendingCommit(one.until_offset, CommitMarker(self.last.token, running.seq), CommitReason.FINISHED),
                )

    def _owe(self, partition: TopicPartition, owed: PendingCommit) -> None:
        before = self._commits.owed.get(partition)
        if before is not None and before.position is not None:
            self._stand(partition, before.position)  # what is finished is claim enough
        self._commits.owed[partition] = owed

    def stop(self, now_ms: int) -> list[BatchEffect]:
        """Nothing more will be reported finished: only what is done is still waited for."""
        self.is_stopping = True
        self._planned = None
        return self._after(now_ms)

    # --- commits ------------------------------------------------------------------------------------------------------

    def on_commit_done(self, commit_id: int, error: SlackwaterError | None, now_ms: int) -> list[BatchEffect]:
        """A commit ended; one that failed is tried again for as long as its partitions are ours."""
        if error is not None:
            self.counters.commits_refused += 1
            if isinstance(error, BrokerError) and error.error in _FORBIDDEN:
                self.failure = self.failure or error
        for partition, owed in self._commits.done(commit_id, now_ms, failed=error is not None).items():
            if owed.reason is CommitReason.HANDOFF and self._running is not None:
                self._running.unbroken.discard(partition)
                self._running.handed_off.add(partition)
            if owed.position is not None:
                self._stand(partition, owed.position)
        return self._after(now_ms)

    # --- handing over -------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[BatchEffect]:
        """Do whatever is due."""
        self._commits.tick(now_ms)
        for due_ms in [due_ms for due_ms in self._fetch_retries if due_ms <= now_ms]:
            waiting = self._fetch_retries.pop(due_ms)
            self._look_up([partition for partition in waiting if partition in self._starting])
        return self._after(now_ms)

    def _waiting(self) -> dict[TopicPartition, int]:
        """The partitions that must leave and wait for the running batch, and since when."""
        running = self._running
        if running is None or self.config.handover is Handover.RELEASE:
            return {}
        waiting = running.reads & self.leaving
        return {one: since for one, since in self._leaving_since.items() if one in waiting - self._timed_out}

    def _hand_over(self, now_ms: int) -> None:
        for partition, since in self._waiting().items():
            if now_ms - since >= self.config.handover_timeout_ms:
                self._timed_out.add(partition)
                self.counters.handover_timeouts += 1
                self._effects.append(
                    BatchEvent(BatchEventKind.HANDOVER_TIMED_OUT, partition, duration_ms=now_ms - since)
                )
            elif self.config.handover is Handover.HANDOFF and partition not in self._commits.owed:
                assert self._running is not None
                mark = CommitMarker(self.last.token, self._running.seq, is_handoff=True)
                end = self._running.ranges[partition].until_offset
                self._commits.owed[partition] = PendingCommit(end, mark, CommitReason.HANDOFF)

    def _to_hold(self) -> frozenset[TopicPartition]:
        held = set(self._commits.work)
        if self._planned is not None:
            held |= self._planned[1].reads
        if self._running is not None and self.config.handover is not Handover.RELEASE and not self.is_stopping:
            held |= self._running.reads - self._timed_out
        return frozenset(held) & self.owned

    # --- after every input --------------------------------------------------------------------------------------------

    def _note_waiting(self, now_ms: int) -> None:
        if self._leaving_since and self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        elif not self._leaving_since and self._waiting_since_ms is not None:
            self.counters.handover_wait_ms += now_ms - self._waiting_since_ms
            self._waiting_since_ms = None

    def _after(self, now_ms: int) -> list[BatchEffect]:
        if self.config.in_group:
            self._note_waiting(now_ms)
            self._ask_replay(now_ms)
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
