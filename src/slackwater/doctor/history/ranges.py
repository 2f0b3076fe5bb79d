"""Byte ranges of local files: the split into tasks, the blocks of whole lines in a range, and line numbers.

Invariants:
- A line belongs to the range in which it begins. It ends with a line feed, a carriage return or both, as in Hadoop, or
  with its file. Its position is the offset of its first byte.
- All files together are cut into ranges of one length, so that tasks take equally long. A task may read many small
  files, and reads its ranges in the order of files and offsets.
- A task holds one block of a range in memory. Of a line longer than a block, only the start is read.
- A file is read up to the size that it had when it was listed, or to its end if it has shrunk since.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

from slackwater.doctor.history.files import DECOMPRESSED, LocalFile, open_log
from slackwater.doctor.history.lines import MAX_LINE_LENGTH, evidence_text

MAX_TASK_BYTES: Final = 2**27
"""As many as a task of Spark reads."""
MIN_TASK_BYTES: Final = 2**22
FILE_OPEN_COST_BYTES: Final = 2**16
BLOCK_BYTES: Final = 2**23
_READ_AHEAD_BYTES: Final = 2**16
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class LogFileRange(NamedTuple):
    """Some bytes of a file."""

    path: str
    name: str
    """The file's URI, as Spark writes it."""
    begin: int
    end: int


def whole_file(file: LocalFile) -> LogFileRange:
    """Return the range of a file; the size of a compressed one is not known before it is decompressed."""
    return LogFileRange(file.path, file.name, 0, sys.maxsize if file.path.endswith(DECOMPRESSED) else file.size)


def plan_tasks(
    files: Sequence[LocalFile],
    cores: int,
    *,
    max_bytes: int = MAX_TASK_BYTES,
    min_bytes: int = MIN_TASK_BYTES,
    open_cost_bytes: int = FILE_OPEN_COST_BYTES,
) -> list[list[LogFileRange]]:
    """Return the ranges of each task."""
    total = sum(file.size + open_cost_bytes for file in files)
    if not total:
        return []
    tasks = -(-total // min_bytes) if total < min_bytes * cores else cores * -(-total // (max_bytes * cores))
    length = -(-total // tasks)
    ranges: list[list[LogFileRange]] = [[] for _ in range(tasks)]
    offset = 0
    for file in files:
        begin, task = 0, offset // length
        while begin < file.size:
            end = min(file.size, (task + 1) * length - offset)
            ranges[task].append(LogFileRange(file.path, file.name, begin, end))
            begin, task = end, task + 1
        offset += file.size + open_cost_bytes
    return [task_ranges for task_ranges in ranges if task_ranges]


def read_blocks(part: LogFileRange, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin in a range, many at a time, as their position and their bytes."""
    with open_log(part.path) as file:
        position = _skip_line(file, part.begin - 1) if part.begin else 0
        rest = b""
        while position + len(rest) < part.end:
            file.seek(position + len(rest))
            chunk = file.read(min(block_bytes, part.end - position - len(rest)))
            data = rest + chunk
            if not chunk:
                break  # the file has shrunk
            if position + len(data) >= part.end:
                yield _without_mark(position, data + _rest_of_line(file, data))
                return
            end = _last_line_end(data)
            if end:
                yield _without_mark(position, data[:end])
                position, rest = position + end, data[end:]
            elif len(data) > max(block_bytes, MAX_LINE_LENGTH):
                yield _without_mark(position, data)
                position, rest = _skip_line(file, position + len(data)), b""
            else:
                rest = data
        if rest:
            yield _without_mark(position, rest)


def _without_mark(position: int, data: bytes) -> tuple[int, bytes]:
    if position == 0 and data.startswith(_BYTE_ORDER_MARK):
        return len(_BYTE_ORDER_MARK), data[len(_BYTE_ORDER_MARK) :]
    return position, data


def _skip_line(file: BinaryIO, position: int) -> int:
    """Return the position after the next line end, or the file's end."""
    file.seek(position)
    while chunk := file.read(_READ_AHEAD_BYTES):
        if end := _first_line_end(chunk):
            return position + end
        position += len(chunk)
    return position


def _rest_of_line(file: BinaryIO, data: bytes) -> bytes:
    """Return what completes the last line of the data; the file is positioned after it."""
    if data.endswith((b"\n", b"\r")):
        return b""
    rest = b""
    while len(rest) <= 4 * MAX_LINE_LENGTH and (chunk := file.read(_READ_AHEAD_BYTES)):
        if end := _first_line_end(chunk):
            return rest + chunk[:end]
        rest += chunk
    return rest


def _first_line_end(data: bytes) -> int:
    """Return the offset after the first line end, or 0."""
    return min((end for end in (data.find(b"\n"), data.find(b"\r")) if end >= 0), default=-1) + 1


def _last_line_end(data: bytes) -> int:
    """Return the offset after the last line end, or 0."""
    end = data.rfind(b"\n")
    return max(end, data.rfind(b"\r", end + 1)) + 1


# --- line numbers -----------------------------------------------------------------------------------------------------


class LineCount(NamedTuple):
    """How many lines end between the previous counted position of a range, or its start, and this one."""

    name: str
    position: int
    line_ends: int
    text: str | None
    """The line that begins there; None at the end of a range."""


def count_lines(part: LogFileRange, positions: Sequence[int]) -> Iterator[LineCount]:
    """Yield a count for each of the positions in a range, and for its end."""
    with open_log(part.path) as file:
        previous = part.begin
        for position in sorted(position for position in positions if part.begin <= position < part.end):
            text = evidence_text(_line_at(file, position))
            yield LineCount(part.name, position, _count_line_ends(file, previous, position), text)
            previous = position
        yield LineCount(part.name, part.end, _count_line_ends(file, previous, part.end), None)


def _count_line_ends(file: BinaryIO, begin: int, end: int) -> int:
    """Count line ends; a carriage return before a line feed does not count."""
    count = 0
    for position in range(begin, end, BLOCK_BYTES):
        size = min(BLOCK_BYTES, end - position)
        file.seek(position)
        data = file.read(size + 1)
        count += data.count(b"\n", 0, size)
        if b"\r" in data:
            count += data.count(b"\r", 0, size) - data.count(b"\r\n")
    return count


def _line_at(file: BinaryIO, position: int) -> str:
    file.seek(position)
    line = file.read(_READ_AHEAD_BYTES)
    end = _first_line_end(line)
    line = line[: end - 1] if end else line + _rest_of_line(file, line).rstrip(b"\r\n")
    return line.decode("utf-8", "replace")
