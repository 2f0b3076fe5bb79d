"""Log compaction (`cleanup.policy=compact`): keep the last record of every key.

Invariants:
- Offsets never change and the active segment is never cleaned. Records newer than `min.compaction.lag.ms` are kept.
- A tombstone (a record without a value) stays for `delete.retention.ms` after the first cleaning that reads it. The
  deadline is written into the batch (KIP-534), so a restart does not extend it.
- The last batch of every known producer stays, without records if necessary, because it holds the sequence. The last
  batch of every new segment stays as well, because it holds the end offset: recovery notices if it is missing.
- Records of open transactions are not cleaned, those of aborted ones are removed. A marker stays until a run finds no
  batch of its transaction, and then for `delete.retention.ms` like a tombstone.
- A batch that cannot be decoded, or with more than `MAX_BATCH_RECORDS` records, is copied unchanged.

`plan` decides on the event loop whether a log should be cleaned. `clean` reads closed files and may run in a thread.
`install` runs on the loop again and puts the new segments in place. Appends, reads and retention continue in between.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from slackwater.broker.storage.log import swap
from slackwater.broker.storage.log.batch_headers import DamagedSegment, iter_batch_headers
from slackwater.broker.storage.log.cleaned_transactions import CleanedTransactions
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import CLEANED, LOG, TRANSACTION_INDEX
from slackwater.broker.storage.log.index import TimeIndex
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.records import (
    RecordView,
    decompress_records,
    iter_record_views,
    with_records,
    without_records,
)
from slackwater.broker.storage.log.segment import Segment
from slackwater.broker.storage.log.transaction_index import AbortedTransaction
from slackwater.settings import MAX_INT
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import RecordBatch

# Keys held in memory together, with about 200 bytes each; the rest is left for the next run.
MAX_KEYS: Final = 1_000_000
MAX_BATCH_RECORDS: Final = 250_000  # a producer's batch has a few thousand; a decompression bomb has 7 bytes per record
_WRITE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The closed segments of one cleaning run; those from `dirty_from` on have not been cleaned before."""

    directory: Path
    config: LogConfig
    now_ms: int
    segments: tuple[Segment, ...]
    dirty_from: int
    end_offset: int
    producers: frozenset[tuple[int, int]]
    marker_epochs: frozenset[tuple[int, int]]
    aborted: tuple[AbortedTransaction, ...]


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """The result of one cleaning run: new segments, each with the group of segments it replaces."""

    replacements: tuple[tuple[Segment, tuple[Segment, ...]], ...]
    clean_up_to: int


def plan(log: PartitionLog, now_ms: int) -> CleaningPlan | None:
    """Return a plan if the log should be cleaned now, else None.

    As in Kafka, a log is cleaned when its dirty part is large enough (`min.cleanable.dirty.ratio`) or old enough
    (`max.compaction.lag.ms`).
    """
    config = log.config
    if not config.compacts:
        return None
    dirty_from = max(log.checkpoint.cleaner_offset, log.log_start_offset)
    closed = []
    for segment in log.segments[:-1]:
        is_dirty = segment.next_offset > dirty_from
        if is_dirty and config.min_compaction_lag_ms and segment.max_timestamp > now_ms - config.min_compaction_lag_ms:
            break
        if segment.next_offset > log.last_stable_offset:
            break
        closed.append(segment)
    dirty = [segment for segment in closed if segment.next_offset > dirty_from]
    if not dirty:
        return None
    ratio = sum(segment.size for segment in dirty) / max(sum(segment.size for segment in closed), 1)
    waited_ms = max(now_ms - segment.first_timestamp for segment in dirty)
    if ratio < config.min_cleanable_dirty_ratio and waited_ms <= config.max_compaction_lag_ms:
        return None
    end_offset = closed[-1].next_offset
    # The marker of a transaction may be in a later segment than its batches.
    aborted = [
        entry
        for segment in log.segments
        for entry in segment.transaction_index.entries
        if entry.first_offset < end_offset
    ]
    return CleaningPlan(
        log.directory,
        config,
        now_ms,
        tuple(closed),
        dirty_from,
        end_offset,
        log.producers.last_offsets(),
        log.producers.marker_epochs(),
        tuple(aborted),
    )


def clean(plan: CleaningPlan) -> CleaningResult:
    """Write and flush the new segments. Does not modify the log; may run in a thread.

    Raises OSError if a segment was deleted in the meantime or the disk is full, and `DamagedSegment` if one is damaged;
    do not clean that log again. In both cases the new files are removed.
    """
    last_offsets, clean_up_to = _newest_offsets(plan)
    to_clean = [segment for segment in plan.segments if segment.base_offset < clean_up_to]
    replacements: list[tuple[Segment, tuple[Segment, ...]]] = []
    transactions = CleanedTransactions(plan.aborted)
    try:
        for group in _groups(to_clean, plan.config):
            cleaned = Segment(
                plan.directory, group[0].base_offset, plan.config, plan.now_ms, suffix=CLEANED, create=True
            )
            replacements.append((cleaned, group))
            _clean_into(cleaned, group, plan, last_offsets, clean_up_to, transactions)
            _write_transaction_index(cleaned, group, transactions)
            cleaned.finish()
            cleaned.sync()
            newest = group[-1].path(LOG).stat()
            os.utime(cleaned.fd, ns=(newest.st_atime_ns, newest.st_mtime_ns))
    except Exception:  # a log deleted in the meantime closes its files, which may raise ValueError
        _discard([segment for segment, _ in replacements])
        raise
    return CleaningResult(tuple(replacements), clean_up_to)


def install(log: PartitionLog, cleaned: CleaningResult, now_ms: int) -> bool:
    """Put the new segments in place. Returns False and discards them if the log has changed in the meantime.

    Raises OSError and discards them if the disk does not allow the change, or if there is no file descriptor.
    """
    try:
        log.allow_gaps(max(group[-1].next_offset for _, group in cleaned.replacements))
        for segment, group in cleaned.replacements:
            if not log.replace_segments(segment, group, now_ms):
                discard(cleaned)
                return False
    except OSError:
        discard(cleaned)
        raise
    log.record_cleaned(cleaned.clean_up_to)
    return True


def discard(cleaned: CleaningResult) -> None:
    """Remove the new segments that are not in place."""
    _discard([segment for segment, _ in cleaned.replacements if segment.suffix == CLEANED])


def _discard(segments: Sequence[Segment]) -> None:
    for segment in segments:
        swap.remove(segment)


def _newest_offsets(plan: CleaningPlan) -> tuple[dict[bytes, int], int]:
    """Return the last offset of every key in the dirty part, and the offset up to which keys were read."""
    newest: dict[bytes, int] = {}
    read_up_to = plan.dirty_from
    transactions = CleanedTransactions(plan.aborted)
    for segment in plan.segments:
        if segment.next_offset <= plan.dirty_from:
            continue
        for batch in _batches(segment):
            if len(newest) + batch.record_count > MAX_KEYS and newest:
                return newest, read_up_to
            read_up_to = batch.last_offset + 1
            is_removed = transactions.is_removed(batch)
            if batch.last_offset < plan.dirty_from or is_removed or not _is_cleaned(batch):
                continue
            try:
                for record in iter_record_views(batch, _decompress(batch, plan)):
                    if record.key is not None:
                        newest[record.key] = batch.base_offset + record.offset_delta
            except WireError:
                continue
    return newest, plan.end_offset


def _groups(segments: Sequence[Segment], config: LogConfig) -> Iterator[tuple[Segment, ...]]:
    """Group adjacent segments that fit into one, so that cleaning does not leave many small files."""
    group: list[Segment] = []
    for segment in segments:
        total_bytes = sum(member.size for member in group) + segment.size
        if group and (
            total_bytes > config.segment_bytes
            or _index_bytes([*group, segment], config) > config.segment_index_bytes
            or segment.next_offset - group[0].base_offset > MAX_INT
        ):
            yield tuple(group)
            group = []
        group.append(segment)
    if group:
        yield tuple(group)


def _index_bytes(segments: Sequence[Segment], config: LogConfig) -> int:
    """Return the largest size that the time index, the larger one, can have for these segments together."""
    entries = sum(segment.size // (config.index_interval_bytes + 1) + 1 for segment in segments)
    return entries * TimeIndex.entry.size


def _clean_into(
    cleaned: Segment,
    group: Sequence[Segment],
    plan: CleaningPlan,
    newest: dict[bytes, int],
    clean_up_to: int,
    transactions: CleanedTransactions,
) -> None:
    """Copy the batches that remain of a group of segments."""
    buffers: list[bytes | memoryview] = []
    batches: list[RecordBatch] = []

    def write() -> None:
        cleaned.append(buffers)
        for batch in batches:
            cleaned.index_batch(batch.size, batch.last_offset, batch.max_timestamp)
        buffers.clear()
        batches.clear()

    size = 0
    end_offset = group[-1].next_offset
    for segment in group:
        for batch in _batches(segment):
            data: bytes | memoryview | None = batch.data
            is_removed = transactions.is_removed(batch)
            if batch.base_offset < clean_up_to:
                is_end = batch.last_offset + 1 == end_offset
                data = _clean_batch(batch, plan, newest, is_end=is_end, is_removed=is_removed)
            if data is None:
                continue
            buffers.append(data)
            batches.append(RecordBatch(data))
            size += len(data)
            if size >= _WRITE_BYTES:
                write()
                size = 0
    write()


def _write_transaction_index(cleaned: Segment, group: Sequence[Segment], transactions: CleanedTransactions) -> None:
    """Write the index of the new segment; also without entries, if a replaced segment has a file (see `swap`)."""
    kept = transactions.take_kept()
    if kept or any(segment.path(TRANSACTION_INDEX).exists() for segment in group):
        cleaned.transaction_index.create()
        cleaned.transaction_index.rebuild(kept)


def _clean_batch(
    batch: RecordBatch, plan: CleaningPlan, newest: dict[bytes, int], *, is_end: bool, is_removed: bool
) -> bytes | memoryview | None:
    """Return the batch unchanged, with fewer records or without records; None if the batch is removed.

    The last batch of the new segment (`is_end`) is never removed.
    """
    if batch.is_control:
        return _clean_marker(batch, plan, is_end=is_end) if is_removed else batch.data
    if is_removed:
        is_last = (batch.producer_id, batch.last_offset) in plan.producers or is_end
        return without_records(batch) if is_last else None
    if not _is_cleaned(batch):
        return batch.data
    try:
        payload = _decompress(batch, plan)
        records = list(iter_record_views(batch, payload))
    except WireError:
        return batch.data
    horizon_ms = batch.delete_horizon_ms
    drop_tombstones = horizon_ms is not None and horizon_ms <= plan.now_ms
    remaining = [record for record in records if _is_kept(record, batch.base_offset, newest, drop_tombstones)]
    if not remaining:
        is_last = (batch.producer_id, batch.last_offset) in plan.producers or is_end
        return without_records(batch) if is_last else None
    new_horizon_ms = None
    if horizon_ms is None and not all(record.has_value for record in remaining):
        new_horizon_ms = plan.now_ms + plan.config.delete_retention_ms
    if len(remaining) == len(records) and new_horizon_ms is None:
        return batch.data
    return with_records(batch, payload, remaining, new_horizon_ms)


def _clean_marker(batch: RecordBatch, plan: CleaningPlan, *, is_end: bool) -> bytes | memoryview | None:
    """Remove a marker without transaction at its delete horizon; set the horizon if it has none."""
    if batch.record_count and batch.delete_horizon_ms is None:
        payload = _decompress(batch, plan)
        horizon_ms = plan.now_ms + plan.config.delete_retention_ms
        return with_records(batch, payload, list(iter_record_views(batch, payload)), horizon_ms)
    if batch.record_count and batch.delete_horizon_ms is not None and batch.delete_horizon_ms > plan.now_ms:
        return batch.data
    is_last = (batch.producer_id, batch.producer_epoch) in plan.marker_epochs or is_end
    return without_records(batch) if is_last else None


def _is_cleaned(batch: RecordBatch) -> bool:
    return not batch.is_control and batch.record_count <= MAX_BATCH_RECORDS


def _decompress(batch: RecordBatch, plan: CleaningPlan) -> bytes:
    return decompress_records(batch, plan.config.message_max_uncompressed_bytes)


def _is_kept(record: RecordView, base_offset: int, newest: dict[bytes, int], drop_tombstones: bool) -> bool:
    if record.key is None:
        return False
    is_newest = base_offset + record.offset_delta >= newest.get(record.key, -1)
    return is_newest and (record.has_value or not drop_tombstones)


def _batches(segment: Segment) -> Iterator[RecordBatch]:
    """Iterate over the batches of a closed segment.

    A thread must not read through the segment's own descriptor: retention may close descriptor 7 on the loop, a new
    connection may get number 7, and the thread would read from the socket. So this opens the file itself; if the file
    was renamed in the meantime, the OSError ends the run.
    """
    if not segment.size:
        return
    with segment.path(LOG).open("rb") as file:
        # The batches are views of the mapping, which lives as long as the last of them.
        mapped = mmap.mmap(file.fileno(), segment.size, prot=mmap.PROT_READ)
    view, path = memoryview(mapped), partial(segment.path, LOG)
    for header in iter_batch_headers(lambda size, at: view[at : at + size], path, 0, segment.size):
        batch = RecordBatch(view, header.position)
        if batch.computed_crc() != batch.crc:
            # A rewritten batch gets a new checksum, which would hide the damage.
            raise DamagedSegment(path(), header.position, "the checksum of the batch is wrong")
        yield batch
