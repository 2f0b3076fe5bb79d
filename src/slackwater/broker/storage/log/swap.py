"""Putting a compacted segment in the place of those it came from, so that a crash leaves the old or the new.

Rules kept here
- The rename of `.log.cleaned` to `.log.swap` is the decision. Before it, a start throws the new segment away; after it,
  a start puts the new one in place and removes the old ones it covers.
- A reader in the same process never sees a half: the log replaces its list of segments when all renames are done.
- What is removed is renamed to `.deleted` first. A start removes whatever has that name.

The steps: the new files are flushed under `.cleaned`; renamed to `.swap`, indexes first; the old files are renamed to
`.deleted`, oldest first; then `.swap` is dropped from the new names. After a crash between any two of them `settle`
knows what to do from the names alone. Indexes that are lost on the way are built anew.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from slackwater.broker.storage.log.files import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    SEGMENT_SUFFIXES,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    file_name,
    sync_directory,
    with_suffix,
)
from slackwater.broker.storage.log.segment import Segment
from slackwater.wire.records.batch import HEADER, HEADER_BYTES, LENGTH_ENDS_AT


class DeletedFiles(NamedTuple):
    """Files that wait to be removed."""

    due_ms: int
    paths: tuple[Path, ...]

    def remove(self) -> None:
        """Remove them."""
        for path in self.paths:
            path.unlink(missing_ok=True)


def replace(cleaned: Segment, replaced: Sequence[Segment], due_ms: int) -> DeletedFiles:
    """Put a segment whose files end in `.cleaned`, and are flushed, in the place of others."""
    cleaned.rename(CLEANED, SWAP)
    sync_directory(cleaned.directory)
    doomed = [mark_deleted(segment, due_ms) for segment in replaced]
    cleaned.rename(SWAP, "")
    return DeletedFiles(due_ms, tuple(path for one in doomed for path in one.paths))


def mark_deleted(segment: Segment, due_ms: int) -> DeletedFiles:
    """Take a segment out of the log: its files are renamed now, and removed when they are due.

    The file of batches goes first here: what is left after a crash is an index without a segment, which nobody reads.
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
    """Take a segment out of the log and off the disk at once."""
    mark_deleted(segment, 0).remove()


def settle(directory: Path) -> None:
    """Finish or undo what was under way when the process ended."""
    if not any(name.endswith((DELETED, CLEANED, TEMPORARY, SWAP)) for name in os.listdir(directory)):
        return
    for path in directory.iterdir():
        if path.name.endswith((DELETED, CLEANED, TEMPORARY)):
            path.unlink()
    for base_offset, path in with_suffix(directory, LOG + SWAP).items():
        end_offset = max(_next_offset(path), base_offset + 1)
        for offset in with_suffix(directory, LOG):
            if base_offset <= offset < end_offset:
                for kind in reversed(SEGMENT_SUFFIXES):
                    (directory / file_name(offset, kind)).unlink(missing_ok=True)
        # An index of the old segment must not stand beside the new one: without any, it is built anew.
        for kind in (OFFSET_INDEX, TIME_INDEX):
            (directory / file_name(base_offset, kind)).unlink(missing_ok=True)
        os.rename(path, directory / file_name(base_offset, LOG))
    for path in directory.iterdir():
        if path.name.endswith(SWAP):
            path.unlink()


def _next_offset(path: Path) -> int:
    """The offset behind the last batch of a segment file that is whole, or 0."""
    next_offset = at = 0
    with path.open("rb") as file:
        while len(head := file.read(HEADER_BYTES)) == HEADER_BYTES:
            base_offset, length, _, _, _, _, last_delta, *_ = HEADER.unpack(head)
            next_offset = base_offset + last_delta + 1
            at += length + LENGTH_ENDS_AT
            file.seek(at)
    return next_offset
