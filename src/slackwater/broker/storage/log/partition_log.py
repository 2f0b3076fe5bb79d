"""One partition's log: append, read, search by time, transactions, delete, retention.

Invariants:
- Offsets are assigned in the order of appends, without gaps. A rejected append changes nothing: no file, no offset, no
  producer state.
- An append returns after its bytes are written to the operating system. All appends of one call are one write, unless
  the segment is rolled between them.
- There is one replica, so the high watermark is the log end offset. The last stable offset is the start of the oldest
  open transaction, or else the log end offset.
- An OSError of the disk is KAFKA_STORAGE_ERROR for that append only; the next append tries again.
- The active segment is never deleted or compacted. If all of it has expired, it is rolled first.

Batches are stored as received: base offset, leader epoch and, with LogAppendTime, the append time are written into the
request's buffer. A read-only buffer is copied first.
"""

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Self

from slackwater.broker.slices import Sliced, run_to_completion
from slackwater.broker.storage.log import swap, timestamp_search
from slackwater.broker.storage.log.batch_headers import DamagedSegment
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.file_range import FileRange
from slackwater.broker.storage.log.files import close_all, sync_directory
from slackwater.broker.storage.log.pending_appends import AppendInfo, BatchWithOffset, PendingAppends, ProducerError
from slackwater.broker.storage.log.producer_state import (
    NEW_PRODUCER,
    ProducerStateEntry,
    SequencedBatch,
    remove_snapshots,
)
from slackwater.broker.storage.log.recovery import Recovered, TruncatedTail, recover
from slackwater.broker.storage.log.segment import Segment
from slackwater.broker.storage.log.timestamp_search import LATEST, TimestampOffset
from slackwater.broker.storage.log.transaction_index import AbortedTransaction
from slackwater.broker.storage.log.validation import Rejection, split_batches, validate_batch
from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error
from slackwater.wire.records.batch import LOG_APPEND_TIME_BIT, NO_TIMESTAMP, RecordBatch, TimestampType
from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.markers import EndTransactionMarker, encode_marker

log = get_logger("slackwater.broker.storage.log")


class AppendOrigin(Enum):
    """Who created a batch; batches from clients are validated."""

    CLIENT = "client"
    VALIDATED = "validated"  # from a client, and already validated
    COORDINATOR = "coordinator"  # batches of this process are trusted and have no sequences
    MARKER = "marker"  # the end of a transaction, from its coordinator


class LogPosition(NamedTuple):
    """Where a read starts: a batch in a segment, or the end of the log."""

    segment: Segment
    position: int


class PartitionLog:
    """An open log. `truncated_tails` lists what recovery removed, `warnings` other damage that it found."""

    __slots__ = (
        "_bases",
        "_deleted_files",
        "_directory_dirty",
        "_dirty",
        "_is_append_failing",
        "_opened_as",
        "_reported",
        "_stable_end",
        "_verifications",
        "checkpoint",
        "config",
        "directory",
        "failed",
        "is_deleted",
        "leader_epoch",
        "log_end_offset",
        "producers",
        "scanned_bytes",
        "segments",
        "truncated_tails",
        "warnings",
    )

    def __init__(self, directory: Path, config: LogConfig, recovered: Recovered) -> None:
        self.directory = directory
        self.config = config
        self.leader_epoch = 0
        self.segments = recovered.segments
        self.checkpoint = recovered.checkpoint
        self.producers = recovered.producers
        self.truncated_tails: list[TruncatedTail] = recovered.truncated_tails
        self.warnings: list[str] = recovered.warnings
        self.scanned_bytes = recovered.scanned_bytes
        self.log_end_offset = recovered.segments[-1].next_offset
        self.failed: str | None = None
        self.is_deleted = False  # a request may still hold the log of a deleted topic
        self._is_append_failing = False  # logged when it begins and when it ends
        self._bases = [segment.base_offset for segment in recovered.segments]
        # Segments behind the recovery point have not been flushed.
        self._dirty = {
            id(segment): segment
            for segment in recovered.segments
            if segment.next_offset > recovered.checkpoint.recovery_point
        }
        self._directory_dirty = True
        self._reported: set[tuple[str, int]] = set()  # damaged files and positions that were logged
        self._deleted_files: list[swap.DeletedFiles] = []
        self._verifications: dict[int, VerificationGuard] = {}
        self._stable_end: tuple[int, LogPosition] | None = None  # of the last call of `find_stable_end`
        self._opened_as = (self.log_end_offset, recovered.checkpoint)

    @classmethod
    def open(cls, directory: Path, config: LogConfig, now_ms: int, *, clean_shutdown: bool = False) -> Self:
        """Open the log in a directory, or create one."""
        directory.mkdir(parents=True, exist_ok=True)
        opened = cls(directory, config, recover(directory, config, now_ms, clean_shutdown=clean_shutdown))
        try:
            remove_snapshots(directory, set(opened._bases))
        except BaseException:
            opened.close_unclean()
            raise
        return opened

    @property
    def active(self) -> Segment:
        """The segment that receives appends."""
        return self.segments[-1]

    @property
    def end_position(self) -> LogPosition:
        """The position of the next append, unless it rolls the segment."""
        return LogPosition(self.active, self.active.size)

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""
        return self.checkpoint.log_start_offset

    @property
    def high_watermark(self) -> int:
        """The offset after the last readable record."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which all transactions have ended."""
        unstable = self.producers.first_unstable_offset
        return self.log_end_offset if unstable is None else max(unstable, self.log_start_offset)

    @property
    def size(self) -> int:
        """The total size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)

    # Appending

    def append(
        self,
        buffer: Buffer,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo | Rejection:
        """Append the batches of one produce request: all or none."""
        return self.append_many([buffer], now_ms, origin, [guard])[0]

    def append_many(
        self,
        buffers: Sequence[Buffer],
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guards: Sequence[VerificationGuard | None] = (),
        *,
        transaction_version: int = 0,
    ) -> list[AppendInfo | Rejection]:
        """Append the batches of several requests with one write; each buffer has its own result.

        `guards` has the verification of each buffer (`start_verification`); none if no buffer has one.
        `transaction_version` is that of markers.
        """
        pending = PendingAppends(self.log_end_offset, self.producers, self._verifications, transaction_version)
        for index, buffer in enumerate(buffers):
            guard = guards[index] if guards else None
            pending.results.append(self._assign_offsets(pending, buffer, now_ms, origin, guard))
        self._write(pending)
        return pending.results

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTransactionMarker,
        now_ms: int,
        *,
        transaction_version: int = 0,
    ) -> AppendInfo | Rejection:
        """End a producer's transaction in this log. As in Kafka, a log without the transaction gets the marker, too."""
        batch = encode_marker(producer_id, producer_epoch, marker, now_ms)
        return self.append_many([batch], now_ms, AppendOrigin.MARKER, transaction_version=transaction_version)[0]

    def has_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this producer epoch is open."""
        return self.producers.producers.get(producer_id, NEW_PRODUCER).has_transaction(epoch)

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Return the guard for appending after a verification; None if the transaction is open already."""
        if self.has_transaction(producer_id, epoch):
            return None
        guard = self._verifications.get(producer_id)
        if guard is None:
            guard = VerificationGuard(epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump)
            self._verifications[producer_id] = guard
        else:
            guard.add(epoch, sequence)
        return guard

    def _assign_offsets(
        self,
        pending: PendingAppends,
        buffer: Buffer,
        now_ms: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
    ) -> AppendInfo | Rejection:
        """Validate the batches of a buffer and assign their offsets."""
        if self.failed:
            return Rejection(Error.KAFKA_STORAGE_ERROR, self.failed)
        view = memoryview(buffer)
        if view.readonly:
            view = memoryview(bytearray(view))
        batches = split_batches(view)
        if isinstance(batches, Rejection):
            return batches
        if len(view) > self.config.segment_bytes:
            message = f"The request has {len(view)} bytes; segment.bytes is {self.config.segment_bytes}."
            return Rejection(Error.RECORD_LIST_TOO_LARGE, message)
        seen: dict[int, ProducerStateEntry] = {}
        end_offset = pending.end_offset
        for batch in batches:
            result: AppendInfo | Rejection | None = None
            if origin is AppendOrigin.CLIENT:
                result = run_to_completion(validate_batch(batch, self.config, now_ms))
            if result is None and batch.producer_id >= 0:
                is_client = origin is not AppendOrigin.COORDINATOR
                found = pending.check_producer(seen, batch, end_offset, guard, is_client=is_client)
                if found is not None:
                    result = self._producer_result(batch.producer_id, found)
            if result is not None:
                return result
            end_offset += batch.last_offset_delta + 1
        count = sum(batch.last_offset_delta + 1 for batch in batches)
        max_timestamp = self._stamp(batches, now_ms)
        if rejected := self._make_room(pending, len(view), pending.end_offset + count - 1, max_timestamp, now_ms):
            return rejected
        base_offset = pending.end_offset
        for batch in batches:
            batch.set_base_offset(pending.end_offset)
            batch.set_partition_leader_epoch(self.leader_epoch)
            pending.batches.append(BatchWithOffset(batch.size, batch.last_offset, batch.max_timestamp))
            pending.end_offset = batch.last_offset + 1
            if batch.producer_id >= 0:
                pending.advance_producer(batch)
        pending.buffers.append(view)
        pending.size += len(view)
        pending.pending_results.append(len(pending.results))
        appended_ms = now_ms if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME else NO_TIMESTAMP
        return AppendInfo(base_offset, pending.end_offset - 1, appended_ms, self.log_start_offset)

    def _producer_result(self, producer_id: int, found: SequencedBatch | ProducerError) -> AppendInfo | Rejection:
        """Return the result of a batch that was written before, or must not follow its producer's batches."""
        if isinstance(found, SequencedBatch):
            # As in Kafka, the timestamp of the earlier batch, whatever the topic's timestamp type is.
            return AppendInfo(found.base_offset, found.last_offset, found.timestamp, self.log_start_offset, True)
        error, message = found
        return Rejection(error, f"Producer {producer_id} in {self.directory.name}: {message}")

    def _stamp(self, batches: list[RecordBatch], now_ms: int) -> int:
        """Apply `message.timestamp.type`, and return the newest timestamp."""
        newest = NO_TIMESTAMP
        is_append_time = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        for batch in batches:
            if is_append_time:
                batch.set_log_append_time(now_ms)
            elif batch.attributes & LOG_APPEND_TIME_BIT:
                batch.set_max_timestamp(TimestampType.CREATE_TIME, batch.max_timestamp)
            newest = max(newest, batch.max_timestamp)
        return newest

    def _make_room(
        self, pending: PendingAppends, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> Rejection | None:
        """Roll the segment if it has no room for these bytes. Pending batches are written to the old one first."""
        if not self.active.should_roll(
            self.config,
            size,
            last_offset,
            max_timestamp,
            now_ms,
            pending_bytes=pending.size,
            pending_timestamp=pending.batches[0].max_timestamp if pending.batches else NO_TIMESTAMP,
        ):
            return None
        if rejected := self._write(pending):
            return rejected
        try:
            self.roll(now_ms)
        except OSError as error:
            return self._append_error(error)
        return None

    def _append_error(self, error: OSError) -> Rejection:
        rejected = _storage_error(error)
        if not self._is_append_failing and not self.is_deleted:
            self._is_append_failing = True
            reason = error.strerror or error
            log.error(
                "Appends to %s fail with KAFKA_STORAGE_ERROR: %s. "
                "They are accepted again when the disk can be written.",
                self.directory,
                reason,
            )
        return rejected

    def _write(self, pending: PendingAppends) -> Rejection | None:
        """Write the pending batches; if that fails, reject all of them and return the rejection.

        The caller must reject the append that caused the write as well, because its sequence was checked against the
        pending ones.
        """
        if not pending.batches:
            return None
        active = self.active
        try:
            active.append(pending.buffers)
        except OSError as error:
            rejected = self._append_error(error)
            for number in pending.pending_results:
                pending.results[number] = rejected
            pending.end_offset = self.log_end_offset
            pending.clear()
            return rejected
        for size, last_offset, max_timestamp in pending.batches:
            active.index_batch(size, last_offset, max_timestamp)
        if self._is_append_failing:
            self._is_append_failing = False
            log.info("Appends to %s succeed again.", self.directory)
        self.log_end_offset = pending.end_offset
        self.producers.update(pending.producers, pending.end_offset)
        for change in pending.transactions:
            if (aborted := self.producers.apply(change)) is not None:
                active.transaction_index.append(aborted)
        for producer_id in pending.transactional_producers:
            self._verifications.pop(producer_id, None)
        self._dirty[id(active)] = active
        pending.clear()
        return None

    def roll(self, now_ms: int) -> None:
        """Close the active segment and create the next. If this raises OSError, the log is unchanged."""
        old = self.active
        if not old.size:
            return
        old.finish()
        self.producers.write(self.directory)
        self._add(Segment(self.directory, self.log_end_offset, self.config, now_ms, create=True))
        with contextlib.suppress(OSError):  # the next roll removes them
            remove_snapshots(self.directory, set(self._bases))

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self._dirty[id(segment)] = segment
        self._directory_dirty = True

    # Reading

    def read(self, offset: int, max_bytes: int, *, min_one: bool = True) -> memoryview | Rejection:
        """Read complete batches from the one that contains `offset`, or the next one; empty at the end of the log.

        With `min_one` the first batch is returned even if it is larger than `max_bytes`.
        """
        start = self.find(offset)
        records = start if isinstance(start, Rejection) else self.read_at(start, max_bytes, min_one=min_one)
        return memoryview(records.read(len(records))) if isinstance(records, FileRange) else records

    def find(self, offset: int) -> LogPosition | Rejection:
        """Find the batch that contains `offset`, or the next one; the end of the log if there is none."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return Rejection(
                Error.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is outside the log, {self.log_start_offset} to {self.log_end_offset}.",
            )
        if offset < self.log_end_offset:
            try:
                for segment in self.segments[bisect_right(self._bases, offset) - 1 :]:
                    position = segment.find(offset)
                    if position is not None:
                        return LogPosition(segment, position)
            except OSError as error:
                return _storage_error(error)
            except DamagedSegment as error:
                return self._reject_damaged(error)
        return self.end_position

    def find_stable_end(self) -> LogPosition | Rejection:
        """Find the position of the last stable offset."""
        offset = self.last_stable_offset
        if offset == self.log_end_offset:
            return self.end_position
        if self._stable_end is not None and self._stable_end[0] == offset:
            return self._stable_end[1]
        found = self.find(offset)
        if isinstance(found, LogPosition):
            self._stable_end = offset, found
        return found

    def read_at(
        self, start: LogPosition, max_bytes: int, *, min_one: bool = True, end: LogPosition | None = None
    ) -> memoryview | FileRange | Rejection:
        """Read complete batches of one segment from a position that `find` returned, up to `end`."""
        segment, position = start
        end_in_segment: int | None = None
        if end is not None:
            if end.segment.base_offset < segment.base_offset:
                return memoryview(b"")
            if end.segment is segment and end.position < segment.size:
                end_in_segment = end.position
                if position >= end_in_segment:
                    return memoryview(b"")
        if position == segment.size or not (min_one or max_bytes > 0):
            return memoryview(b"")
        try:
            return segment.read(position, max_bytes, min_one=min_one, end=end_in_segment)
        except OSError as error:
            return _storage_error(error)
        except DamagedSegment as error:
            return self._reject_damaged(error)

    def aborted_transactions(self, offset: int, start: LogPosition, size: int) -> list[AbortedTransaction]:
        """Return the aborted transactions for a read of `size` bytes that starts with `offset` at a position.

        As in Kafka, the end of the read comes from the offset index, so there may be more than necessary.
        """
        index = bisect_right(self._bases, start.segment.base_offset) - 1
        next_base = self._bases[index + 1] if index + 1 < len(self._bases) else self.log_end_offset
        upper_bound = start.segment.upper_bound_offset(start.position + size)
        if upper_bound is None:
            upper_bound = next_base
        aborted: list[AbortedTransaction] = []
        for segment in self.segments[index:]:
            for transaction in segment.transaction_index.since(offset):
                if transaction.first_offset < upper_bound:
                    aborted.append(transaction)
                if transaction.last_stable_offset >= upper_bound:
                    return aborted
        return aborted

    def _reject_damaged(self, damage: DamagedSegment) -> Rejection:
        self._report(damage)
        return Rejection(Error.CORRUPT_MESSAGE, str(damage))

    def _report(self, damage: DamagedSegment) -> None:
        """Log damage once; clients retry a read that fails."""
        if (where := (damage.path.name, damage.position)) not in self._reported:
            self._reported.add(where)
            log.error("Records of %s cannot be read: %s", self.directory.name, damage)

    def search_timestamp(self, timestamp: int, *, committed: bool = False) -> Sliced[TimestampOffset | None]:
        """Find an offset by its timestamp; see `timestamp_search`. Raises `BrokerError` if a segment is damaged."""
        try:
            return (yield from timestamp_search.search(self, timestamp, committed=committed))
        except DamagedSegment as error:
            self._report(error)
            raise BrokerError(Error.CORRUPT_MESSAGE, str(error)) from error

    # Deleting

    def delete_records(self, up_to: int) -> int | Rejection:
        """Move the log start offset (-1: to the end), and return the new one."""
        if not self.config.deletes:
            return Rejection(
                Error.POLICY_VIOLATION, "Records of a topic with cleanup.policy=compact cannot be deleted."
            )
        target = self.high_watermark if up_to == LATEST else up_to
        if not 0 <= target <= self.high_watermark:
            return Rejection(
                Error.OFFSET_OUT_OF_RANGE, f"Offset {up_to} is after the high watermark, {self.high_watermark}."
            )
        if target > self.log_start_offset:
            moved = replace(self.checkpoint, log_start_offset=target)
            try:
                moved.write(self.directory, sync=True)
            except OSError as error:
                return _storage_error(error)
            self.checkpoint = moved
        return self.log_start_offset

    def delete_expired_segments(self, now_ms: int) -> list[int]:
        """Delete segments by age, size and log start offset, and return their base offsets.

        Expires producer state and removes deleted files that are due as well.
        """
        expiration_ms = self.config.producer_id_expiration_ms
        self.producers.expire(now_ms, expiration_ms)
        for producer_id, guard in list(self._verifications.items()):
            if now_ms - guard.created_ms >= expiration_ms:
                del self._verifications[producer_id]
        self.remove_deleted_files(now_ms)
        deleted = self._delete_while(
            lambda _, next_base: next_base is not None and next_base <= self.log_start_offset, now_ms
        )
        if self.config.deletes and self.config.retention_ms >= 0:
            deleted += self._delete_while(
                lambda segment, _: self._age_ms(segment, now_ms) > self.config.retention_ms, now_ms
            )
        if self.config.deletes and self.config.retention_bytes >= 0:
            deleted += self._delete_while(
                lambda segment, _: self.size - segment.size >= self.config.retention_bytes, now_ms
            )
        return deleted

    def _age_ms(self, segment: Segment, now_ms: int) -> int:
        newest = segment.max_timestamp
        if newest < 0:
            newest = int(os.stat(segment.fd).st_mtime * 1000)
        return now_ms - newest

    def _delete_while(self, is_expired: Callable[[Segment, int | None], bool], now_ms: int) -> list[int]:
        """Delete segments, oldest first, while they are expired."""
        deleted: list[int] = []
        while True:
            oldest = self.segments[0]
            next_base = self._bases[1] if len(self._bases) > 1 else None
            if not is_expired(oldest, next_base) or (next_base is None and not oldest.size):
                return deleted
            if next_base is None:
                try:
                    self.roll(now_ms)
                except OSError:  # no room for another segment; the next run tries again
                    return deleted
            del self.segments[0], self._bases[0]
            self._dirty.pop(id(oldest), None)
            self._deleted_files.append(swap.mark_deleted(oldest, now_ms + self.config.file_delete_delay_ms))
            self.checkpoint = self.checkpoint.within(self._bases[0], self.log_end_offset)
            deleted.append(oldest.base_offset)

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove the deleted files that are due (`file.delete.delay.ms`)."""
        for files in [files for files in self._deleted_files if files.due_ms <= now_ms]:
            files.remove()
            self._deleted_files.remove(files)

    def replace_segments(self, cleaned: Segment, replaced: Sequence[Segment], now_ms: int) -> bool:
        """Replace segments by the compacted one made from them; returns False if some of them no longer exist.

        The cleaner runs in a thread. If `delete_expired_segments` deletes a segment while the thread cleans it, the
        result contains deleted records and must not be used.
        """
        index = bisect_right(self._bases, replaced[0].base_offset) - 1
        if self.segments[index : index + len(replaced)] != list(replaced) or replaced[-1] is self.active:
            return False
        self._deleted_files.append(swap.replace(cleaned, replaced, now_ms + self.config.file_delete_delay_ms))
        cleaned.next_offset = replaced[-1].next_offset
        self.segments[index : index + len(replaced)] = [cleaned]
        self._bases = [segment.base_offset for segment in self.segments]
        for segment in replaced:
            self._dirty.pop(id(segment), None)
        return True

    def allow_gaps(self, up_to: int) -> None:
        """Record that offsets before `up_to` may be missing. If this raises OSError, nothing has changed."""
        if up_to > self.checkpoint.gaps_up_to:
            moved = replace(self.checkpoint, gaps_up_to=up_to)
            moved.write(self.directory, sync=True)
            self.checkpoint = moved

    def record_cleaned(self, offset: int) -> None:
        """Record the offset up to which the log is compacted."""
        self.checkpoint = replace(self.checkpoint, cleaner_offset=offset)
        self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        """Write the checkpoint. If the disk fails, a restart repeats some work."""
        with contextlib.suppress(OSError):
            self.checkpoint.write(self.directory)

    # Flushing and closing

    def take_dirty(self, *, rolled_only: bool) -> tuple[list[int], int]:
        """Return descriptors of the files written since the last call, and the end offset. The caller closes them.

        If this raises OSError, nothing has changed, and a later call returns the same files.
        """
        segments = [segment for segment in self._dirty.values() if not (rolled_only and segment is self.active)]
        if not segments:
            return [], 0
        # Recovery trusts the indexes of closed segments, and rebuilds those of the active one.
        descriptors: list[int] = []
        try:
            for segment in segments:
                descriptors += segment.descriptors(with_indexes=segment is not self.active)
            if self._directory_dirty:
                descriptors.append(os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY))
        except BaseException:
            close_all(descriptors)
            raise
        self._directory_dirty = False
        for segment in segments:
            del self._dirty[id(segment)]
        return descriptors, self.active.base_offset if rolled_only else self.log_end_offset

    def record_flushed(self, up_to: int) -> None:
        """Record that everything before `up_to` is on disk.

        The checkpoint is written if recovery can skip one more segment because of it.
        """
        previous = self.checkpoint.recovery_point
        if up_to > previous:
            self.checkpoint = replace(self.checkpoint, recovery_point=up_to)
            if previous < self.active.base_offset:
                self._write_checkpoint()

    def record_flush_failure(self, reason: str) -> None:
        """Record that written data may be lost: reject all appends until the log is opened again."""
        self.reject_appends(f"fsync failed: {reason}. Restart the broker, which checks what is on disk.")
        if not self.is_deleted:
            log.error("Appends to %s fail with KAFKA_STORAGE_ERROR from now on: %s", self.directory, self.failed)

    def reject_appends(self, reason: str) -> None:
        """Reject all appends until the log is opened again."""
        self.failed = reason

    def close(self, *, sync: bool = True) -> None:
        """Write indexes, snapshot and checkpoint, and close the files; with `sync`, flush everything to disk.

        A log that has not changed since it was opened writes nothing.
        """
        if not self._dirty and not self._deleted_files and self._opened_as == (self.log_end_offset, self.checkpoint):
            self.close_unclean()
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
        for files in self._deleted_files:
            files.remove()
        self.close_unclean()

    def move(self, directory: Path) -> None:
        """Rename the directory of the log. If this raises OSError, nothing has changed."""
        if directory == self.directory:
            return
        os.rename(self.directory, directory)
        self.directory = directory
        for segment in self.segments:
            segment.move(directory)

    def close_unclean(self) -> None:
        """Close the files as they are, like a killed process."""
        self._dirty.clear()  # a later flush has nothing to do
        for segment in self.segments:
            segment.close()


def _storage_error(error: OSError) -> Rejection:
    return Rejection(Error.KAFKA_STORAGE_ERROR, f"Disk error: {error.strerror or error}.")
