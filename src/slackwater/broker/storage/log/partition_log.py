"""One partition's log: append, read, find by time, delete, retain.

Rules kept here
- Offsets are given in the order of appends, without a gap. What was refused leaves no trace: not in the file, not in
  the offsets, not in what is known of producers.
- An append returns after its bytes were given to the operating system. All appends of one call are one write, unless a
  segment is rolled between them.
- There is one copy of the data, so the high watermark is the log end offset.
- A disk that is full or failing is KAFKA_STORAGE_ERROR, for this append alone: the next one tries again.
- The active segment is never deleted or compacted; where all of it has expired, it is rolled first.

The batches are stored as they came: base offset, leader epoch and, if the topic says so, the time of appending are
written into the bytes of the request, which is why those must be writable (a copy is made if they are not).
"""

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, Self

from slackwater.broker.storage.log import swap
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import sync_directory
from slackwater.broker.storage.log.pending_appends import AppendInfo, PendingAppends, PlacedBatch
from slackwater.broker.storage.log.producer_state import (
    ProducerStateEntry,
    SequencedBatch,
    last_sequence,
    remove_snapshots,
)
from slackwater.broker.storage.log.recovery import Recovered, TruncatedTail, recover
from slackwater.broker.storage.log.segment import Segment
from slackwater.broker.storage.log.validation import Rejection, refusal, split
from slackwater.group.errors import Error
from slackwater.wire.records.batch import LOG_APPEND_TIME_BIT, NO_TIMESTAMP, RecordBatch, TimestampType
from slackwater.wire.records.compression import Buffer

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5


class AppendOrigin(Enum):
    """Who made a batch, and with it how much of it is questioned."""

    CLIENT = "client"
    COORDINATOR = "coordinator"  # this process: its batches are right, and have no sequences


class TimestampOffset(NamedTuple):
    """An offset, and the timestamp of its record (-1 where the question was not about one)."""

    timestamp: int
    offset: int


class PartitionLog:
    """A log that is open. `truncated_tails` says what was cut off when it was opened."""

    __slots__ = (
        "_bases",
        "_directory_dirty",
        "_dirty",
        "_doomed",
        "_opened_as",
        "checkpoint",
        "config",
        "directory",
        "failed",
        "leader_epoch",
        "log_end_offset",
        "producers",
        "scanned_bytes",
        "segments",
        "truncated_tails",
    )

    def __init__(self, directory: Path, config: LogConfig, found: Recovered) -> None:
        self.directory = directory
        self.config = config
        self.leader_epoch = 0
        self.segments = found.segments
        self.checkpoint = found.checkpoint
        self.producers = found.producers
        self.truncated_tails: list[TruncatedTail] = found.truncated_tails
        self.scanned_bytes = found.scanned_bytes
        self.log_end_offset = found.segments[-1].next_offset
        self.failed: str | None = None
        self._bases = [segment.base_offset for segment in found.segments]
        # What was found unflushed is dirty still.
        self._dirty = {id(one): one for one in found.segments if one.next_offset > found.checkpoint.recovery_point}
        self._directory_dirty = True
        self._doomed: list[swap.DeletedFiles] = []
        self._opened_as = (self.log_end_offset, found.checkpoint)

    @classmethod
    def open(cls, directory: Path, config: LogConfig, now_ms: int, *, clean_shutdown: bool = False) -> Self:
        """Open the log in a directory, or begin one there."""
        directory.mkdir(parents=True, exist_ok=True)
        log = cls(directory, config, recover(directory, config, now_ms, clean_shutdown=clean_shutdown))
        remove_snapshots(directory, set(log._bases))
        return log

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.checkpoint.log_start_offset

    @property
    def high_watermark(self) -> int:
        """The offset behind the last record that can be read."""
        return self.log_end_offset

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    # Appending

    def append(self, buffer: Buffer, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT) -> AppendInfo | Rejection:
        """Append the batches of one produce request, all or none."""
        return self.append_many([buffer], now_ms, origin)[0]

    def append_many(
        self, buffers: Sequence[Buffer], now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> list[AppendInfo | Rejection]:
        """Append what came in one turn, with one write; each buffer is answered for itself."""
        turn = PendingAppends(self.log_end_offset)
        for buffer in buffers:
            turn.answers.append(self._place(turn, buffer, now_ms, origin))
        self._write(turn)
        return turn.answers

    def _place(self, turn: PendingAppends, buffer: Buffer, now_ms: int, origin: AppendOrigin) -> AppendInfo | Rejection:
        """Check the batches of a buffer and give them their offsets."""
        if self.failed:
            return Rejection(Error.KAFKA_STORAGE_ERROR, self.failed)
        view = memoryview(buffer)
        if view.readonly:
            view = memoryview(bytearray(view))
        batches = split(view)
        if isinstance(batches, Rejection):
            return batches
        if len(view) > self.config.segment_bytes:
            message = f"{len(view)} bytes are more than a segment holds: segment.bytes is {self.config.segment_bytes}."
            return Rejection(Error.RECORD_LIST_TOO_LARGE, message)
        changed: dict[int, ProducerStateEntry] = {}
        if origin is AppendOrigin.CLIENT:
            for batch in batches:
                answer = refusal(batch, self.config, now_ms) or self._check_producer(turn, changed, batch)
                if answer is not None:
                    return answer
        count = sum(batch.last_offset_delta + 1 for batch in batches)
        max_timestamp = self._stamp(batches, now_ms)
        if refused := self._make_room(turn, len(view), turn.end_offset + count - 1, max_timestamp, now_ms):
            return refused
        base_offset = turn.end_offset
        for batch in batches:
            batch.set_base_offset(turn.end_offset)
            batch.set_partition_leader_epoch(self.leader_epoch)
            turn.placed.append(PlacedBatch(batch.size, batch.last_offset, batch.max_timestamp))
            turn.end_offset = batch.last_offset + 1
            if origin is AppendOrigin.CLIENT and batch.has_producer_id:
                self._advance_producer(turn, batch)
        turn.buffers.append(view)
        turn.size += len(view)
        turn.waiting.append(len(turn.answers))
        appended_ms = now_ms if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME else NO_TIMESTAMP
        return AppendInfo(base_offset, turn.end_offset - 1, appended_ms, self.log_start_offset)

    def _check_producer(
        self, turn: PendingAppends, seen: dict[int, ProducerStateEntry], batch: RecordBatch
    ) -> AppendInfo | Rejection | None:
        """None if the batch is the next of its producer; an answer if it is a duplicate or out of order."""
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        known = seen.get(producer_id) or turn.changed.get(producer_id) or self.producers.producers.get(producer_id)
        end = last_sequence(batch.base_sequence, batch.last_offset_delta)
        if known is not None:
            if before := known.duplicate(batch.producer_epoch, batch.base_sequence, end):
                appended_ms = NO_TIMESTAMP
                if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
                    appended_ms = before.timestamp
                return AppendInfo(before.base_offset, before.last_offset, appended_ms, self.log_start_offset, True)
            if wrong := known.refusal(batch.producer_epoch, batch.base_sequence):
                return Rejection(wrong[0], f"ProducerStateEntry {producer_id} in {self.directory.name}: {wrong[1]}")
        # Where one request has several batches, the second must follow the first; offsets are not known yet.
        placeholder = SequencedBatch(end, -1, batch.last_offset_delta, batch.max_timestamp)
        epoch = batch.producer_epoch
        seen[producer_id] = known.then(epoch, placeholder) if known else ProducerStateEntry(epoch, (placeholder,))
        return None

    def _advance_producer(self, turn: PendingAppends, batch: RecordBatch) -> None:
        key, epoch, delta = batch.producer_id, batch.producer_epoch, batch.last_offset_delta
        written = SequencedBatch(
            last_sequence(batch.base_sequence, delta), batch.last_offset, delta, batch.max_timestamp
        )
        known = turn.changed.get(key) or self.producers.producers.get(key)
        turn.changed[key] = known.then(epoch, written) if known else ProducerStateEntry(epoch, (written,))

    def _stamp(self, batches: list[RecordBatch], now_ms: int) -> int:
        """Settle whose timestamps the batches have; the answer is the newest."""
        newest = NO_TIMESTAMP
        by_broker = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        for batch in batches:
            if by_broker:
                batch.set_log_append_time(now_ms)
            elif batch.attributes & LOG_APPEND_TIME_BIT:
                batch.set_max_timestamp(TimestampType.CREATE_TIME, batch.max_timestamp)
            newest = max(newest, batch.max_timestamp)
        return newest

    def _make_room(
        self, turn: PendingAppends, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> Rejection | None:
        """Roll the segment if these bytes belong into the next one; what waits is written to the old one first."""
        if not self.active.should_roll(
            self.config,
            size,
            last_offset,
            max_timestamp,
            now_ms,
            waiting_bytes=turn.size,
            waiting_timestamp=turn.placed[0].max_timestamp if turn.placed else NO_TIMESTAMP,
        ):
            return None
        if refused := self._write(turn):
            return refused
        try:
            self.roll(now_ms)
        except OSError as error:
            return _storage_error(error)
        return None

    def _write(self, turn: PendingAppends) -> Rejection | None:
        """Write what waits. If it cannot be, everybody who waits is refused.

        So must be the one for whose sake it is written now: its sequence was checked against those before it.
        """
        if not turn.placed:
            return None
        active = self.active
        try:
            active.append(turn.buffers)
        except OSError as error:
            refused = _storage_error(error)
            for number in turn.waiting:
                turn.answers[number] = refused
            turn.end_offset = self.log_end_offset
            turn.start()
            return refused
        for size, last_offset, max_timestamp in turn.placed:
            active.note(size, last_offset, max_timestamp)
        self.log_end_offset = turn.end_offset
        self.producers.update(turn.changed, turn.end_offset)
        self._dirty[id(active)] = active
        turn.start()
        return None

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin another. Raises OSError, and the log is as it was."""
        old = self.active
        if not old.size:
            return
        old.finish()
        self.producers.write(self.directory)
        self._add(Segment(self.directory, self.log_end_offset, self.config, now_ms, create=True))
        remove_snapshots(self.directory, set(self._bases))

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self._dirty[id(segment)] = segment
        self._directory_dirty = True

    # Reading

    def read(self, offset: int, max_bytes: int, *, min_one: bool = True) -> memoryview | Rejection:
        """Whole batches, the first of which holds `offset` or is the next there is; empty at the end of the log.

        With `min_one` the first batch is given even if it alone is more than `max_bytes`.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return Rejection(
                Error.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is outside of the log, {self.log_start_offset} to {self.log_end_offset}.",
            )
        try:
            for segment in self.segments[bisect_right(self._bases, offset) - 1 :]:
                position = segment.find(offset)
                if position is not None:
                    return segment.read(position, max_bytes, min_one=min_one)
        except OSError as error:
            return _storage_error(error)
        return memoryview(b"")

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is as new, or what a special timestamp asks for; None if there is none."""
        if timestamp >= 0:
            return self._first_from(timestamp)
        if timestamp == LATEST:
            return TimestampOffset(NO_TIMESTAMP, self.high_watermark)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return TimestampOffset(NO_TIMESTAMP, self.log_start_offset)
        if timestamp == MAX_TIMESTAMP:
            return self._newest()
        # LATEST_TIERED, and whatever else asks for another tier of storage: there is none.
        return TimestampOffset(NO_TIMESTAMP, -1)

    def _first_from(self, timestamp: int) -> TimestampOffset | None:
        for segment in self.segments:
            found = segment.find_timestamp(timestamp, self.log_start_offset)
            if found is not None:
                return TimestampOffset(*found)
        return None

    def _newest(self) -> TimestampOffset | None:
        """The first record with the newest timestamp; what stands before the log start offset does not count."""
        newest = NO_TIMESTAMP
        for segment in self.segments:
            if segment.base_offset >= self.log_start_offset:
                newest = max(newest, segment.max_timestamp)
            elif segment.max_timestamp > newest:
                while (found := segment.find_timestamp(newest + 1, self.log_start_offset)) is not None:
                    newest = found[0]
        return self._first_from(newest) if newest >= 0 else None

    # Deleting

    def delete_records(self, up_to: int) -> int | Rejection:
        """Move the log start offset (-1: to the end). The answer is where the log begins now."""
        if not self.config.deletes:
            return Rejection(
                Error.POLICY_VIOLATION, "Records are not deleted from a topic whose cleanup.policy is compact."
            )
        target = self.high_watermark if up_to == LATEST else up_to
        if not 0 <= target <= self.high_watermark:
            return Rejection(Error.OFFSET_OUT_OF_RANGE, f"Offset {up_to} is beyond the end, {self.high_watermark}.")
        if target > self.log_start_offset:
            moved = replace(self.checkpoint, log_start_offset=target)
            try:
                moved.write(self.directory, sync=True)
            except OSError as error:
                return _storage_error(error)
            self.checkpoint = moved
        return self.log_start_offset

    def retain(self, now_ms: int) -> list[int]:
        """Delete what has expired, by age, by size, or because the log begins behind it; the base offsets deleted.

        Forgets producers that have been silent for too long as well, and removes files whose time has come.
        """
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        self.sweep(now_ms)
        deleted = self._delete_while(lambda one, after: after is not None and after <= self.log_start_offset, now_ms)
        if self.config.deletes and self.config.retention_ms >= 0:
            deleted += self._delete_while(lambda one, _: self._age(one, now_ms) > self.config.retention_ms, now_ms)
        if self.config.deletes and self.config.retention_bytes >= 0:
            deleted += self._delete_while(lambda one, _: self.size - one.size >= self.config.retention_bytes, now_ms)
        return deleted

    def _age(self, segment: Segment, now_ms: int) -> int:
        newest = segment.max_timestamp
        if newest < 0:
            newest = int(os.stat(segment.fd).st_mtime * 1000)
        return now_ms - newest

    def _delete_while(self, expired: Callable[[Segment, int | None], bool], now_ms: int) -> list[int]:
        """Delete segments from the oldest on, as long as they have expired."""
        deleted: list[int] = []
        while True:
            oldest = self.segments[0]
            after = self._bases[1] if len(self._bases) > 1 else None
            if not expired(oldest, after) or (after is None and not oldest.size):
                return deleted
            if after is None:
                try:
                    self.roll(now_ms)
                except OSError:  # no room for another segment; the next turn tries again
                    return deleted
            del self.segments[0], self._bases[0]
            self._dirty.pop(id(oldest), None)
            self._doomed.append(swap.mark_deleted(oldest, now_ms + self.config.file_delete_delay_ms))
            self.checkpoint = self.checkpoint.within(self._bases[0], self.log_end_offset)
            deleted.append(oldest.base_offset)

    def sweep(self, now_ms: int) -> None:
        """Remove the deleted files that are due (`file.delete.delay.ms`)."""
        for doomed in [one for one in self._doomed if one.due_ms <= now_ms]:
            doomed.remove()
            self._doomed.remove(doomed)

    def replace_segments(self, cleaned: Segment, replaced: Sequence[Segment], now_ms: int) -> bool:
        """Put a compacted segment in the place of those it was made from; False if they are not all there any more.

        The cleaner works in a thread: plan (segments 0, 10, 20) → thread cleans → meanwhile `retain` deletes 0 here →
        the thread comes back. Its outcome holds records that are gone by now, so it is thrown away.
        """
        at = bisect_right(self._bases, replaced[0].base_offset) - 1
        if self.segments[at : at + len(replaced)] != list(replaced) or replaced[-1] is self.active:
            return False
        self._doomed.append(swap.replace(cleaned, replaced, now_ms + self.config.file_delete_delay_ms))
        cleaned.next_offset = replaced[-1].next_offset
        self.segments[at : at + len(replaced)] = [cleaned]
        self._bases = [segment.base_offset for segment in self.segments]
        for segment in replaced:
            self._dirty.pop(id(segment), None)
        return True

    def allow_gaps(self, up_to: int) -> None:
        """Remember that offsets may be missing up to here; raises OSError, and then none may."""
        if up_to > self.checkpoint.gaps_up_to:
            moved = replace(self.checkpoint, gaps_up_to=up_to)
            moved.write(self.directory, sync=True)
            self.checkpoint = moved

    def cleaned_up_to(self, offset: int) -> None:
        """Remember up to where the log is clean."""
        self.checkpoint = replace(self.checkpoint, cleaner_offset=offset)
        self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        """Write down how far work has come; where the disk refuses that, a restart does some of it again."""
        with contextlib.suppress(OSError):
            self.checkpoint.write(self.directory)

    # Flushing and closing

    def take_dirty(self, *, rolled_only: bool) -> tuple[list[int], int]:
        """Descriptors of what was written since the last time, for the caller to flush and close; and up to where."""
        taken = [one for one in self._dirty.values() if not (rolled_only and one is self.active)]
        if not taken:
            return [], 0
        # The indexes of a closed segment are trusted with it; those of the active one are made anew at a start.
        descriptors = [fd for one in taken for fd in one.descriptors(with_indexes=one is not self.active)]
        if self._directory_dirty:
            descriptors.append(os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY))
            self._directory_dirty = False
        for segment in taken:
            del self._dirty[id(segment)]
        return descriptors, self.active.base_offset if rolled_only else self.log_end_offset

    def flushed(self, up_to: int) -> None:
        """Everything before `up_to` is on disk. It is written down when a start can scan a segment less for it."""
        known = self.checkpoint.recovery_point
        if up_to > known:
            self.checkpoint = replace(self.checkpoint, recovery_point=up_to)
            if known < self.active.base_offset:
                self._write_checkpoint()

    def flush_failed(self, why: str) -> None:
        """What was written may be lost: refuse everything until the log is opened anew."""
        self.failed = f"A flush failed ({why}); restart the broker to find out what is on disk."

    def close(self, *, sync: bool = True) -> None:
        """Write indexes, snapshot and checkpoint, and let go of the files; with `sync`, all of it is on disk then.

        Of a log to which nothing has happened since it was opened, all that is on disk already.
        """
        if not self._dirty and not self._doomed and self._opened_as == (self.log_end_offset, self.checkpoint):
            self.abandon()
            return
        self.active.finish()
        if self.log_end_offset:
            self.producers.write(self.directory)
        if sync and not self.failed:
            for segment in self._dirty.values():
                segment.sync()
            self.checkpoint = replace(self.checkpoint, recovery_point=self.log_end_offset)
            sync_directory(self.directory)
        self.checkpoint.write(self.directory, sync=sync)
        for doomed in self._doomed:
            doomed.remove()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are, like a process that is killed."""
        self._dirty.clear()  # a flush that comes later finds nothing here
        for segment in self.segments:
            segment.close()


def _storage_error(error: OSError) -> Rejection:
    return Rejection(Error.KAFKA_STORAGE_ERROR, f"The disk refused it: {error.strerror or error}.")
