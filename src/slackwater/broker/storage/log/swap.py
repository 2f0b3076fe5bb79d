"""Replacement of segments by a compacted one. A crash leaves the old or the new segments.

Invariants:
- The rename of `.log.cleaned` to `.log.swap` is the commit point. Before it, recovery discards the new segment; after
  it, recovery puts the new segment in place and removes the old ones it covers.
- Readers of the same process see all of it or nothing: the log replaces its list of segments after all renames.
- A file is renamed to `.deleted` before it is removed. Recovery removes all files with that suffix.

The steps: flush the new files under `.cleaned`; rename them to `.swap`, indexes first; rename the old files to
`.deleted`, oldest first; remove `.swap` from the new names. After a crash between any two steps, `finish_pending`
decides from the file names. Lost indexes of offsets and times are rebuilt. The index of aborted transactions is kept: a
new segment has one, possibly without entries, if one of the segments that it replaces has one.
"""

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from slackwater.broker.storage.log.batch_headers import DamagedSegment, iter_batch_headers
from slackwater.broker.storage.log.files import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    SEGMENT_SUFFIXES,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
    is_log_file,
    sync_directory,
    with_suffix,
)
from slackwater.broker.storage.log.segment import Segment


class DeletedFiles(NamedTuple):
    """Files with the suffix `.deleted` that are removed at `due_ms`."""

    due_ms: int
    paths: tuple[Path, ...]

    def remove(self) -> None:
        """Remove the files."""
        for path in self.paths:
            path.unlink(missing_ok=True)


def replace(cleaned: Segment, replaced: Sequence[Segment], due_ms: int) -> DeletedFiles:
    """Replace segments by one whose files are flushed and end in `.cleaned`.

    If there is no descriptor to flush the directory, this raises OSError, and nothing is replaced.
    """
    cleaned.rename(CLEANED, SWAP)
    try:
        sync_directory(cleaned.directory)
    except OSError:
        cleaned.rename(SWAP, CLEANED)
        raise
    deleted = [mark_deleted(segment, due_ms) for segment in replaced]
    cleaned.rename(SWAP, "")
    return DeletedFiles(due_ms, tuple(path for files in deleted for path in files.paths))


def mark_deleted(segment: Segment, due_ms: int) -> DeletedFiles:
    """Rename the files of a segment; they are removed later.

    The log file is renamed first: a crash leaves an index without a segment, which recovery ignores.
    """
    paths = []
    for kind in reversed(SEGMENT_SUFFIXES):
        path = segment.path(kind)
        target = path.with_name(path.name + DELETED)
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, target)
            paths.append(target)
    segment.close()
    return DeletedFiles(due_ms, tuple(paths))


def remove(segment: Segment) -> None:
    """Remove a segment from disk at once."""
    mark_deleted(segment, 0).remove()


def finish_pending(directory: Path) -> None:
    """Complete or undo a replacement that was interrupted."""
    names = [name for name in os.listdir(directory) if is_log_file(name)]
    if not any(name.endswith((DELETED, CLEANED, TEMPORARY, SWAP)) for name in names):
        return
    for name in names:
        if name.endswith((DELETED, CLEANED, TEMPORARY)):
            (directory / name).unlink()
    for base_offset, path in with_suffix(directory, LOG + SWAP).items():
        next_offset, is_damaged = _next_offset(path)
        if is_damaged and (directory / file_name(base_offset, LOG)).exists():
            continue  # the oldest of the replaced segments still exists, and with it all others
        end_offset = max(next_offset, base_offset + 1)
        for offset in with_suffix(directory, LOG):
            if base_offset <= offset < end_offset:
                for kind in reversed(SEGMENT_SUFFIXES):
                    if kind != TRANSACTION_INDEX or offset != base_offset:  # that one may have its new name already
                        (directory / file_name(offset, kind)).unlink(missing_ok=True)
        # The indexes of the old segment do not fit the new one; missing indexes are rebuilt.
        for kind in (OFFSET_INDEX, TIME_INDEX):
            (directory / file_name(base_offset, kind)).unlink(missing_ok=True)
        transactions = directory / file_name(base_offset, TRANSACTION_INDEX)
        with contextlib.suppress(FileNotFoundError):
            os.rename(transactions.with_name(transactions.name + SWAP), transactions)
        os.rename(path, directory / file_name(base_offset, LOG))
    for name in names:
        if name.endswith(SWAP):
            (directory / name).unlink(missing_ok=True)


def _next_offset(path: Path) -> tuple[int, bool]:
    """Return the offset after the last batch, or before the first damaged one, and whether there is a damaged one."""
    next_offset = 0
    with path.open("rb") as file:
        fd = file.fileno()
        try:
            for header in iter_batch_headers(partial(os.pread, fd), lambda: path, 0, os.fstat(fd).st_size):
                next_offset = header.last_offset + 1
        except DamagedSegment:
            return next_offset, True
    return next_offset, False
