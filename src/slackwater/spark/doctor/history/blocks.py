"""The byte ranges of local files: workers read them by themselves, drop what is about other things, and count lines.

Rules kept here
- A line belongs to the range in which it begins; it ends with a line feed, a carriage return or both, as everywhere in
  Hadoop, or with its file. Its position is the byte at which it begins.
- All files are one tape that is cut into ranges of one length, so that tasks are alike, and many small files are one of
  them. A task reads its ranges in the order of files and bytes.
- A block of a range is in memory at a time, and is dropped from or copied before the next one takes its place. Python
  sees no line that goes, and of those that stay only the ones that are wrapped.
- What is not UTF-8 is replaced, in the lines that stay.
- What a file held when it was listed is read; if it has shrunk since, what is left of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import FileIO
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.spark.doctor.history.files import LocalFile
from slackwater.spark.doctor.history.kernels import Kernels, Plain, Texts, kernels_for
from slackwater.spark.doctor.history.lines import OF_CONTAINER, SIEVE, unwrapped
from slackwater.spark.doctor.history.workers import keep_loaded

Batches = Iterable[pa.RecordBatch]
Work = Callable[[Batches], Iterator[pa.RecordBatch]]

RANGE: Final = 2**27
"""The most bytes that a task reads; as many as Spark's tasks read."""
LEAST: Final = 2**22
"""The fewest for which another task is worth its while."""
OPENING: Final = 2**16
"""What it takes to open a file, in bytes that are read in that time."""
BLOCK: Final = 2**20
"""So much is held at a time: what the kernels go through is then still near the processor."""
AHEAD: Final = 2**16
"""How much is read at a time behind a range, to the end of its last line."""
LONGEST: Final = 2**28
"""What is longer is no line of a log: it is cut off there."""
PLAIN_BYTES: Final = 800
"""Without compiled kernels so many bytes are gone through in the time of reading one text."""
SAID: Final = 300
"""Of a line that is shown, so many characters."""
_MARK: Final = b"\xef\xbb\xbf"
_BRACE: Final = ord("{")
_DIGITS: Final = np.isin(np.arange(256), np.frombuffer(b"0123456789", np.uint8))
_LINE_FEED: Final = ord("\n")
_BEYOND_ASCII: Final = 128


class Range(NamedTuple):
    """Some bytes of a file."""

    path: str
    name: str
    begin: int
    end: int


def planned(
    files: Sequence[LocalFile], cores: int, *, most: int = RANGE, least: int = LEAST, opening: int = OPENING
) -> list[list[Range]]:
    """The ranges of each task: the tape cut into tasks that are alike, for so many cores."""
    total = sum(file.size + opening for file in files)
    if not total:
        return []
    tasks = -(-total // least) if total < least * cores else cores * -(-total // (most * cores))
    length = -(-total // tasks)
    found: list[list[Range]] = [[] for _ in range(tasks)]
    at = 0
    for file in files:
        begin, task = 0, at // length
        while begin < file.size:
            end = min(file.size, (task + 1) * length - at)
            found[task].append(Range(file.path, file.name, begin, end))
            begin, task = end, task + 1
        at += file.size + opening
    return [ranges for ranges in found if ranges]


def reading_ranges(tasks: Sequence[Sequence[Range]], work: Work) -> Work:
    """Numbers of tasks to what work makes of the lines in their ranges."""

    def read_ranges(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        yield from work(lines for number in numbers for part in tasks[number] for lines in lines_of(part))

    return read_ranges


def lines_of(
    part: Range, *, block: int = BLOCK, choose: Callable[[int], Kernels] = kernels_for
) -> Iterator[pa.RecordBatch]:
    """The lines of a range that matter, as (file, position, text, stamp, what)."""
    for position, data, begin in _blocks(part, block):
        kernels = choose(len(data) // PLAIN_BYTES)
        texts = kernels.kept(data, begin, len(data), SIEVE)
        if len(texts.starts):
            yield _batch(part.name, position, texts, kernels)


def _batch(name: str, position: int, texts: Texts, kernels: Kernels) -> pa.RecordBatch:
    count = len(texts.starts)
    columns = {
        "file": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([name], pa.string())),
        "position": pa.array(texts.starts + np.int64(position)),
        "text": _valid(texts, kernels),
        "stamp": pa.nulls(count, pa.string()),
        "what": pa.nulls(count, pa.string()),
    }
    first = texts.data[texts.starts]
    wrapped = first == _BRACE
    if _DIGITS[first].any():
        contained = pc.match_substring_regex(columns["text"], OF_CONTAINER)
        wrapped |= np.asarray(contained.to_numpy(zero_copy_only=False), np.bool_)
    return pa.record_batch(columns | _unwrapped(columns["text"], wrapped) if wrapped.any() else columns)


def _valid(texts: Texts, kernels: Kernels) -> pa.Array:
    """The texts as a column. Most are ASCII, which is seen at once."""
    found = kernels.strings(texts)
    if np.frombuffer(found.buffers()[2], np.uint8).max() >= _BEYOND_ASCII:
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            return Plain().strings(texts)
    return found


def _unwrapped(texts: pa.Array, wrapped: NDArray[np.bool_]) -> dict[str, pa.Array]:
    which = pa.array(wrapped)
    found = [unwrapped(text) for text in texts.filter(which).to_pylist()]
    inner = pa.array([line.text for line in found], pa.string())
    apart = {
        name: pc.replace_with_mask(pa.nulls(len(texts), pa.string()), which, pa.array(values, pa.string()))
        for name, values in (("stamp", [line.stamp for line in found]), ("what", [line.what for line in found]))
    }
    return {"text": pc.replace_with_mask(texts, which, inner), **apart}


# --- bytes ------------------------------------------------------------------------------------------------------------


def _blocks(part: Range, block: int) -> Iterator[tuple[int, NDArray[np.uint8], int]]:
    """The lines that begin in a range, some at a time: the position of some bytes, the bytes, and where a line begins.

    Who starts reading one byte early, and passes over what there is to the end of a line, is where one begins. The same
    is done with the rest of a line that was too long.
    """
    with FileIO(part.path) as file:
        position, held, skipping = max(0, part.begin - 1), 0, part.begin > 0
        room = bytearray(_rounded(min(block, part.end - position)))
        file.seek(position)
        while position + held < part.end or (held and not skipping):
            behind = position + held >= part.end
            if held == len(room):
                room = room + bytes(len(room))  # who has seen the old one may still hold it
            got = file.readinto(memoryview(room)[held:][: AHEAD if behind else part.end - position - held])
            end = held + got
            cut = _first_end(room, held, end) if behind else _last_end(room, held, end)
            too_long = not cut and end > LONGEST
            cut = end if not got or too_long else cut
            begin = _first_end(room, 0, cut) if skipping else 0
            if skipping and not begin:
                cut = end
            elif cut:
                begin = len(_MARK) if not position and room.startswith(_MARK) else begin
                yield position, np.frombuffer(room, np.uint8, cut), min(begin, cut)
                skipping = too_long
            if not got or (cut and behind):
                return
            room[: end - cut] = room[cut:end]
            position, held = position + cut, end - cut


def _rounded(size: int) -> int:
    return max(8, -(-size // 8) * 8)


def _first_end(room: bytearray, begin: int, end: int) -> int:
    """Behind the first end of a line, or 0."""
    found = [at for at in (room.find(b"\n", begin, end), room.find(b"\r", begin, end)) if at >= 0]
    return min(found, default=-1) + 1


def _last_end(room: bytearray, begin: int, end: int) -> int:
    """Behind the last end of a line, or 0."""
    return max(room.rfind(b"\n", begin, end), room.rfind(b"\r", begin, end)) + 1


# --- lines that are shown ---------------------------------------------------------------------------------------------


class Edge(NamedTuple):
    """A place in a file, how many lines end between it and the last one before, and the line there, if it is shown."""

    name: str
    at: int
    lines: int
    text: str | None


EDGES: Final = "name string, at bigint, lines bigint, text string"


def counting_ranges(tasks: Sequence[Sequence[Range]], places: Mapping[str, Sequence[int]]) -> Work:
    """Numbers of tasks to the edges of their ranges, and of the places in them."""

    def count_ranges(batches: Batches) -> Iterator[pa.RecordBatch]:
        keep_loaded()
        for batch in batches:
            ranges = [part for number in batch.column(0).to_pylist() for part in tasks[number]]
            edges = [edge for part in ranges for edge in edges_of(part, places[part.name])]
            columns = zip(*edges, strict=True)
            kinds = (pa.string(), pa.int64(), pa.int64(), pa.string())
            arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
            yield pa.record_batch(arrays, names=list(Edge._fields))

    return count_ranges


def edges_of(part: Range, places: Sequence[int]) -> Iterator[Edge]:
    """The places in a range, and its end."""
    with FileIO(part.path) as file:
        last = part.begin
        for at in sorted(place for place in places if part.begin <= place < part.end):
            yield Edge(part.name, at, _line_ends(file, last, at), unwrapped(_line(file, at)).text[:SAID])
            last = at
        yield Edge(part.name, part.end, _line_ends(file, last, part.end), None)


def _line_ends(file: FileIO, begin: int, end: int) -> int:
    """How many lines end between two places. A carriage return before a line feed ends none."""
    count = 0
    for at in range(begin, end, BLOCK):
        size = min(BLOCK, end - at)
        file.seek(at)
        data = file.read(size + 1)
        count += int(np.count_nonzero(np.frombuffer(data, np.uint8)[:size] == _LINE_FEED))
        if b"\r" in data:
            count += data.count(b"\r", 0, size) - data.count(b"\r\n")
    return count


def _line(file: FileIO, at: int) -> str:
    """The line that begins there."""
    file.seek(at)
    found = bytearray()
    while (more := file.read(AHEAD)) and len(found) < LONGEST:
        found += more
        if end := _first_end(found, len(found) - len(more), len(found)):
            del found[end - 1 :]
            break
    return found.decode("utf-8", "replace")
