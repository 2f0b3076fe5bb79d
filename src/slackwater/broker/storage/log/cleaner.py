"""Compaction: of all records with the same key, the last one stays (`cleanup.policy=compact`).

Rules kept here
- Offsets never change, and the active segment is never touched. Nothing newer than `min.compaction.lag.ms` is cleaned.
- A tombstone (a record without a value) stays for `delete.retention.ms` after the first cleaning that met it. That time
  is written into the batch (KIP-534), so it counts on after a restart.
- The last batch of a producer that is still known stays, without records if need be: it holds the sequence. So does
  the last batch of what is cleaned: it holds the end offset.
- A batch that cannot be read is copied as it is.

`plan` decides on the loop what is worth cleaning, `clean` does it on closed files and may run in a thread, `install`
puts the outcome in place, back on the loop. Between them appends, reads and retention go on.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slackwater.broker.storage.log import swap
from slackwater.broker.storage.log.config import INT_MAX, LogConfig
from slackwater.broker.storage.log.files import CLEANED, LOG
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
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import RecordBatch, iter_batches

# How many keys are held in memory at once; what does not fit is left for the next round (Kafka's dedupe buffer of
# 128 MB holds about as many).
MAX_KEYS: Final = 5_000_000
_WRITE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """What one round cleans: closed segments, of which those from `dirty_from` on hold keys not seen before."""

    directory: Path
    config: LogConfig
    now_ms: int
    segments: tuple[Segment, ...]
    dirty_from: int
    end_offset: int
    producers: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """What a round made: for each group of segments the one that takes their place."""

    replacements: tuple[tuple[Segment, tuple[Segment, ...]], ...]
    clean_up_to: int


def plan(log: PartitionLog, now_ms: int) -> CleaningPlan | None:
    """What is worth cleaning now, or None.

    That is, as in Kafka, when the part not yet clean is large enough (`min.cleanable.dirty.ratio`) or has waited for
    too long (`max.compaction.lag.ms`).
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
        closed.append(segment)
    dirty = [segment for segment in closed if segment.next_offset > dirty_from]
    if not dirty:
        return None
    ratio = sum(segment.size for segment in dirty) / max(sum(segment.size for segment in closed), 1)
    waited_ms = max(now_ms - segment.first_timestamp for segment in dirty)
    if ratio < config.min_cleanable_dirty_ratio and waited_ms <= config.max_compaction_lag_ms:
        return None
    end_offset = closed[-1].next_offset
    return CleaningPlan(
        log.directory, config, now_ms, tuple(closed), dirty_from, end_offset, log.producers.last_offsets()
    )


def clean(plan: CleaningPlan) -> CleaningResult:
    """Write the new segments beside the old ones, flushed. Touches nothing of the log; may run in a thread.

    Raises OSError where a segment was deleted meanwhile or the disk is full, and WireError where a closed segment is
    damaged: the log should be left alone then. Either way nothing is left behind.
    """
    last_offsets, clean_up_to = _newest_offsets(plan)
    to_clean = [segment for segment in plan.segments if segment.base_offset < clean_up_to]
    made: list[tuple[Segment, tuple[Segment, ...]]] = []
    try:
        for group in _groups(to_clean, plan.config):
            cleaned = Segment(
                plan.directory, group[0].base_offset, plan.config, plan.now_ms, suffix=CLEANED, create=True
            )
            made.append((cleaned, group))
            _clean_into(cleaned, group, plan, last_offsets, clean_up_to)
            cleaned.finish()
            cleaned.sync()
            newest = group[-1].path(LOG).stat()
            os.utime(cleaned.fd, ns=(newest.st_atime_ns, newest.st_mtime_ns))
    except Exception:  # a log that is deleted meanwhile closes its files: that is a ValueError here and there
        _discard([segment for segment, _ in made])
        raise
    return CleaningResult(tuple(made), clean_up_to)


def install(log: PartitionLog, cleaned: CleaningResult, now_ms: int) -> bool:
    """Put the new segments in place; False if the log has changed meanwhile: then what is left of them is dropped.

    Raises OSError if the disk refuses what has to be written down before.
    """
    try:
        log.allow_gaps(max(group[-1].next_offset for _, group in cleaned.replacements))
    except OSError:
        _discard([segment for segment, _ in cleaned.replacements])
        raise
    for number, (segment, group) in enumerate(cleaned.replacements):
        if not log.replace_segments(segment, group, now_ms):
            _discard([left for left, _ in cleaned.replacements[number:]])
            return False
    log.cleaned_up_to(cleaned.clean_up_to)
    return True


def discard(cleaned: CleaningResult) -> None:
    """Drop what was written for a log that is gone."""
    _discard([segment for segment, _ in cleaned.replacements])


def compact(log: PartitionLog, now_ms: int) -> bool:
    """All three steps at once; whether anything was cleaned."""
    planned = plan(log, now_ms)
    return planned is not None and install(log, clean(planned), now_ms)


def _discard(segments: Sequence[Segment]) -> None:
    for segment in segments:
        swap.remove(segment)


def _newest_offsets(plan: CleaningPlan) -> tuple[dict[bytes, int], int]:
    """The last offset of every key in the part that is not yet clean, and up to which offset that is known."""
    newest: dict[bytes, int] = {}
    known_up_to = plan.dirty_from
    for segment in plan.segments:
        if segment.next_offset <= plan.dirty_from:
            continue
        for batch in _batches(segment):
            if len(newest) + batch.record_count > MAX_KEYS and newest:
                return newest, known_up_to
            known_up_to = batch.last_offset + 1
            if batch.last_offset < plan.dirty_from or batch.is_control:
                continue
            try:
                for record in iter_record_views(batch, decompress_records(batch)):
                    if record.key is not None:
                        newest[record.key] = batch.base_offset + record.offset_delta
            except WireError:
                continue
    return newest, plan.end_offset


def _groups(segments: Sequence[Segment], config: LogConfig) -> Iterator[tuple[Segment, ...]]:
    """Segments that fit into one together: what is cleaned shrinks, and small files would only become more."""
    group: list[Segment] = []
    for segment in segments:
        together = sum(one.size for one in group) + segment.size
        if group and (
            together > config.segment_bytes
            or _index_bytes([*group, segment], config) > config.segment_index_bytes
            or segment.next_offset - group[0].base_offset > INT_MAX
        ):
            yield tuple(group)
            group = []
        group.append(segment)
    if group:
        yield tuple(group)


def _index_bytes(segments: Sequence[Segment], config: LogConfig) -> int:
    """What the larger index of these segments together takes at most: that by time."""
    entries = sum(segment.size // (config.index_interval_bytes + 1) + 1 for segment in segments)
    return entries * TimeIndex.entry.size


def _clean_into(
    cleaned: Segment, group: Sequence[Segment], plan: CleaningPlan, newest: dict[bytes, int], clean_up_to: int
) -> None:
    """Copy what stays of a group of segments."""
    waiting: list[bytes | memoryview] = []
    placed: list[RecordBatch] = []

    def write() -> None:
        cleaned.append(waiting)
        for batch in placed:
            cleaned.note(batch.size, batch.last_offset, batch.max_timestamp)
        waiting.clear()
        placed.clear()

    size = 0
    for segment in group:
        for batch in _batches(segment):
            data = batch.data if batch.base_offset >= clean_up_to else _what_stays(batch, plan, newest, clean_up_to)
            if data is None:
                continue
            waiting.append(data)
            placed.append(RecordBatch(data))
            size += len(data)
            if size >= _WRITE_BYTES:
                write()
                size = 0
    write()


def _what_stays(
    batch: RecordBatch, plan: CleaningPlan, newest: dict[bytes, int], clean_up_to: int
) -> bytes | memoryview | None:
    """A batch after cleaning: as it was, with fewer records, with none, or None if it goes altogether."""
    if batch.is_control:
        return batch.data
    try:
        payload = decompress_records(batch)
        found = list(iter_record_views(batch, payload))
    except WireError:
        return batch.data
    horizon_ms = batch.delete_horizon_ms
    forget_tombstones = horizon_ms is not None and horizon_ms <= plan.now_ms
    kept = [record for record in found if _stays(record, batch.base_offset, newest, forget_tombstones)]
    if not kept:
        is_last = (batch.producer_id, batch.last_offset) in plan.producers or batch.last_offset + 1 == clean_up_to
        return without_records(batch) if is_last else None
    new_horizon_ms = None
    if horizon_ms is None and not all(record.has_value for record in kept):
        new_horizon_ms = plan.now_ms + plan.config.delete_retention_ms
    if len(kept) == len(found) and new_horizon_ms is None:
        return batch.data
    return with_records(batch, payload, kept, new_horizon_ms)


def _stays(record: RecordView, base_offset: int, newest: dict[bytes, int], forget_tombstones: bool) -> bool:
    if record.key is None:
        return False
    is_newest = base_offset + record.offset_delta >= newest.get(record.key, -1)
    return is_newest and (record.has_value or not forget_tombstones)


def _batches(segment: Segment) -> Iterator[RecordBatch]:
    """The batches of a closed segment.

    The thread must not read through the segment's own descriptor: retention closes 7 on the loop → a connection is
    accepted and becomes 7 → the thread reads from it. So it opens the file itself; if that has been renamed by then,
    there is an OSError, and the round is over.
    """
    if not segment.size:
        return
    with segment.path(LOG).open("rb") as file:
        # The batches given out are views of this; it goes when the last of them does.
        mapped = mmap.mmap(file.fileno(), segment.size, prot=mmap.PROT_READ)
    batches = iter_batches(memoryview(mapped))
    yield from batches
    if batches.torn:
        raise WireError(f"{segment.path(LOG)}: no whole batch at byte {batches.end}.")
