"""Work on the bytes of many texts at once: which matter, what words they contain, how patterns match, parts as columns.

Rules kept here
- Two ways, one result: compiled (`kernels_numba`), and plain Python where numba is missing or does not pay: it takes a
  second to load, which the few lines of a small log do not.
- A text is a place in a row of bytes, and so is every value found in one. Nothing is copied until it is a column.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.spark.doctor.history.keywords import BITS, Keywords, bits, ends, keywords, pool
from slackwater.spark.doctor.history.patterns import compiled

if TYPE_CHECKING:
    from slackwater.spark.doctor.history.kernels_numba import SieveTables

NUMBA_PAYS_FROM: Final = 100_000
"""So many texts in one process."""
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Texts(NamedTuple):
    """Parts of a row of bytes; one that begins at -1 is none."""

    data: NDArray[np.uint8]
    starts: Ints
    ends: Ints

    def of(self, rows: NDArray[Any]) -> "Texts":
        """Some of them."""
        return Texts(self.data, self.starts[rows], self.ends[rows])

    def bytes_of(self) -> list[bytes]:
        """Each as bytes; nothing for none."""
        whole = self.data.tobytes()
        pairs = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [whole[start:end] if start >= 0 else b"" for start, end in pairs]


@dataclass(frozen=True, slots=True)
class Shelves:
    """Where texts belong: to the first family with a marker in them, and there to the first key that they contain."""

    markers: Sequence[Sequence[str]]
    keys: Sequence[Sequence[str]]
    sample: str

    @property
    def words(self) -> list[str]:
        """All words that are looked for."""
        return sorted({word for words in (*self.markers, *self.keys) for word in words})


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which lines stay. How a line begins tells what else it must have."""

    dated: str
    """The beginning of lines that end with their logger. They go if it is one of `other_loggers`, as what stands
    behind the last dot; of the rest those stay that contain one of `dated_words`."""
    other_loggers: tuple[str, ...]
    dated_words: tuple[str, ...]
    indented: tuple[str, ...]
    """What follows a tab, and any white space, in lines that begin with one."""
    words: tuple[str, ...]
    """One of them is in every other line that stays."""
    wrapped_words: tuple[str, ...]
    """One of them is in a line that stays and begins with a brace; or all of one of `wrapped_pairs`."""
    wrapped_pairs: tuple[tuple[str, ...], ...]

    @property
    def all_words(self) -> list[str]:
        """All words that are looked for anywhere in a line."""
        pairs = (word for pair in self.wrapped_pairs for word in pair)
        return sorted({*self.dated_words, *self.words, *self.wrapped_words, *pairs})


class Matched(NamedTuple):
    """Of each text: whether the pattern matches, and where its groups begin and end."""

    found: Flags
    places: Ints


class Kernels(Protocol):
    """What both ways offer."""

    def kept(self, data: NDArray[np.uint8], begin: int, end: int, sieve: Sieve) -> Texts:
        """The lines of `data[begin:end]` that a sieve keeps, without the blanks at their ends.

        A line ends with a line feed or a carriage return, or with the bytes; empty ones are none.
        """

    def sort(self, texts: Texts, shelves: Shelves) -> Ints:
        """Put texts on their shelves: of each, its key's place among all keys, or -1."""

    def match(self, texts: Texts, pattern: str) -> Matched:
        """Hold a pattern against texts, from their beginning."""

    def strings(self, texts: Texts) -> pa.Array:
        """Texts as a column; what is empty is null."""

    def numbers(self, texts: Texts) -> tuple[NDArray[np.int64], Flags]:
        """Whole numbers, and whether there is one."""

    def fields(self, texts: Texts, layout: str) -> tuple[NDArray[np.int64], Flags]:
        """The numbers in texts that begin as a layout with zeros for digits, one row for each; and which texts do."""


# --- compiled ---------------------------------------------------------------------------------------------------------


class _Tables(NamedTuple):
    words: Keywords
    markers: NDArray[np.uint64]
    keys: Ints
    firsts: Ints


_TABLES: Final[dict[int, tuple[Shelves, _Tables]]] = {}


def _tables(shelves: Shelves) -> _Tables:
    """The tables of shelves that live as long as the process."""
    if id(shelves) not in _TABLES:
        words = shelves.words
        number = {word: place for place, word in enumerate(words)}
        _TABLES[id(shelves)] = (
            shelves,
            _Tables(
                keywords(words, shelves.sample),
                np.array([bits([number[one] for one in some], len(words)) for some in shelves.markers]),
                np.array([number[key] for some in shelves.keys for key in some], np.int32),
                np.cumsum([0, *map(len, shelves.keys)]).astype(np.int32),
            ),
        )
    return _TABLES[id(shelves)][1]


@cache
def _sieve_tables(sieve: Sieve) -> "SieveTables":
    names = sieve.all_words
    if len(names) > BITS:
        raise ValueError(f"A sieve has at most {BITS} words, not {len(names)}.")

    def masks(some: Sequence[Sequence[str]]) -> NDArray[np.uint64]:
        return np.concatenate([bits([names.index(word) for word in one], BITS) for one in some])

    words = keywords(names, " ".join(sieve.other_loggers))
    return (
        np.frombuffer(sieve.dated.encode(), np.uint8),
        (*ends(sieve.other_loggers),),
        pool(sieve.indented),
        (words.stride, words.heads, words.following, words.begins, words.shifts, words.numbers, words.pool),
        masks([sieve.dated_words, sieve.words, sieve.wrapped_words]),
        masks(sieve.wrapped_pairs),
    )


class Compiled:
    """By numba."""

    def __init__(self) -> None:
        from slackwater.spark.doctor.history import kernels_numba

        self._loops: Final = kernels_numba

    def kept(self, data: NDArray[np.uint8], begin: int, end: int, sieve: Sieve) -> Texts:
        """The lines of `data[begin:end]` that a sieve keeps, without the blanks at their ends."""
        most = (end - begin + 1) // 2  # a line that is not empty, and its end
        starts, stops, hows = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.uint8)
        count = self._loops.kept(data, begin, end, _sieve_tables(sieve), starts, stops, hows)
        return Texts(data, starts[:count].copy(), stops[:count].copy())

    def sort(self, texts: Texts, shelves: Shelves) -> Ints:
        """Put texts on their shelves: of each, its key's place among all keys, or -1."""
        tables, rows = _tables(shelves), len(texts.starts)
        words = tables.words
        found = np.empty((rows, words.width), np.uint64)
        self._loops.contained(
            *texts,
            words.always,
            words.stride,
            words.heads,
            words.following,
            words.begins,
            words.shifts,
            words.numbers,
            words.pool,
            found,
        )
        shelf = np.empty(rows, np.int32)
        self._loops.choose(found, tables.markers, tables.keys, tables.firsts, shelf)
        return shelf

    def match(self, texts: Texts, pattern: str) -> Matched:
        """Hold a pattern against texts, from their beginning."""
        program = compiled(pattern)
        found = np.empty(len(texts.starts), np.uint8)
        places = np.empty((len(texts.starts), 2 * program.groups), np.int32)
        self._loops.match(*texts, program.code, program.pool, program.sets, places, found)
        return Matched(found.view(np.bool_), places)

    def strings(self, texts: Texts) -> pa.Array:
        """Texts as a column; what is empty is null."""
        valid = (texts.starts >= 0) & (texts.ends > texts.starts)
        lengths = np.where(valid, texts.ends - texts.starts, 0)
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        room = np.empty(int(offsets[-1]), np.uint8)
        self._loops.copy(texts.data, texts.starts, offsets, room)
        return column(pa.string(), valid, offsets, room)

    def numbers(self, texts: Texts) -> tuple[NDArray[np.int64], Flags]:
        """Whole numbers, and whether there is one."""
        values, valid = np.empty(len(texts.starts), np.int64), np.empty(len(texts.starts), np.uint8)
        self._loops.numbers(*texts, values, valid)
        return values, valid.view(np.bool_)

    def fields(self, texts: Texts, layout: str) -> tuple[NDArray[np.int64], Flags]:
        """The numbers in texts that begin as a layout with zeros for digits, one row for each; and which texts do."""
        values = np.zeros((len(_ZEROS.findall(layout)), len(texts.starts)), np.int64)
        found = np.empty(len(texts.starts), np.uint8)
        self._loops.fields(*texts, np.frombuffer(layout.encode(), np.uint8), values, found)
        return values, found.view(np.bool_)


def column(kind: pa.DataType, valid: Flags, *buffers: NDArray[Any]) -> pa.Array:
    """An Arrow column of what lies in these buffers."""
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(valid), [bitmap, *map(pa.py_buffer, buffers)])


# --- plain ------------------------------------------------------------------------------------------------------------


class Plain:
    """By Python alone, text by text."""

    def kept(self, data: NDArray[np.uint8], begin: int, end: int, sieve: Sieve) -> Texts:
        """The lines of `data[begin:end]` that a sieve keeps, without the blanks at their ends."""
        matters = _matters(sieve)
        lines = _LINE.finditer(data[begin:end].tobytes())
        found = [(line.start(), line.start() + len(line[0].rstrip(b" "))) for line in lines if matters(line[0])]
        places = np.array(found, np.int32).reshape(-1, 2) + np.int32(begin)
        return Texts(data, places[:, 0].copy(), places[:, 1].copy())

    def sort(self, texts: Texts, shelves: Shelves) -> Ints:
        """Put texts on their shelves: of each, its key's place among all keys, or -1."""
        families = _families(shelves)
        return np.array([_place(text, families) for text in texts.bytes_of()], np.int32)

    def match(self, texts: Texts, pattern: str) -> Matched:
        """Hold a pattern against texts, from their beginning."""
        made = _regex(pattern)
        places = np.full((len(texts.starts), 2 * made.groups), -1, np.int32)
        found = np.zeros(len(texts.starts), np.bool_)
        for row, (start, text) in enumerate(zip(texts.starts.tolist(), texts.bytes_of(), strict=True)):
            if match := made.match(text):
                found[row] = True
                places[row] = [-1 if at < 0 else start + at for span in match.regs[1:] for at in span]
        return Matched(found, places)

    def strings(self, texts: Texts) -> pa.Array:
        """Texts as a column; what is empty is null."""
        return pa.array([text.decode("utf-8", "replace") or None for text in texts.bytes_of()], pa.string())

    def numbers(self, texts: Texts) -> tuple[NDArray[np.int64], Flags]:
        """Whole numbers, and whether there is one."""
        found = [int(text) if _NUMBER.fullmatch(text) else None for text in texts.bytes_of()]
        values = np.array([value or 0 for value in found], np.int64)
        return values, np.array([value is not None for value in found], np.bool_)

    def fields(self, texts: Texts, layout: str) -> tuple[NDArray[np.int64], Flags]:
        """The numbers in texts that begin as a layout with zeros for digits, one row for each; and which texts do."""
        made = _regex(_ZEROS.sub(lambda zeros: f"(\\d{{{len(zeros[0])}}})", re.escape(layout)))
        found = [made.match(text) for text in texts.bytes_of()]
        nothing = (0,) * made.groups
        values = [nothing if one is None else tuple(map(int, one.groups())) for one in found]
        rows = np.array(values, np.int64).reshape(-1, made.groups)
        return np.ascontiguousarray(rows.T), np.array([one is not None for one in found], np.bool_)


_ZEROS: Final = re.compile("0+")
_NUMBER: Final = re.compile(rb"-?\d{1,18}")
_LINE: Final = re.compile(rb"[^\r\n]+")
_PlainFamily = tuple[list[bytes], list[tuple[int, bytes]]]


@cache
def _regex(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())


@cache
def _matters(sieve: Sieve) -> Callable[[bytes], bool]:
    dated, others = sieve.dated.encode(), frozenset(map(str.encode, sieve.other_loggers))
    dated_word, word, wrapped_word = map(_one_of, (sieve.dated_words, sieve.words, sieve.wrapped_words))
    indented = re.compile(rb"\s+(?:" + _one_of(sieve.indented).pattern + rb")")
    pairs = [list(map(str.encode, pair)) for pair in sieve.wrapped_pairs]

    def matters(line: bytes) -> bool:
        if line.startswith(dated):
            return line[line.rfind(b".") + 1 :] not in others and dated_word.search(line) is not None
        if line.startswith(b"\t"):
            return indented.match(line) is not None
        if line.startswith(b"{"):
            return wrapped_word.search(line) is not None or any(all(one in line for one in pair) for pair in pairs)
        return word.search(line) is not None

    return matters


def _one_of(words: Sequence[str]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(word.encode()) for word in words))


def _families(shelves: Shelves) -> list[_PlainFamily]:
    found: list[_PlainFamily] = []
    first = 0
    for markers, keys in zip(shelves.markers, shelves.keys, strict=True):
        places = [(first + place, key.encode()) for place, key in enumerate(keys)]
        found.append(([one.encode() for one in markers], places))
        first += len(keys)
    return found


def _place(text: bytes, families: list[_PlainFamily]) -> int:
    for markers, keys in families:
        if any(marker in text for marker in markers):
            return next((place for place, key in keys if key in text), -1)
    return -1


# --- which of the two -------------------------------------------------------------------------------------------------


class _Choice:
    def __init__(self) -> None:
        self.seen = 0

    def for_texts(self, count: int) -> Kernels:
        self.seen += count
        return (compiled_kernels() if self.seen >= NUMBA_PAYS_FROM else None) or Plain()


_choice: Final = _Choice()


def kernels_for(count: int) -> Kernels:
    """The kernels that pay for the next so many texts."""
    return _choice.for_texts(count)


@cache
def compiled_kernels() -> Kernels | None:
    """The compiled ones, or None where there are none."""
    try:
        from numba import config
    except ImportError:
        return None
    return None if getattr(config, "DISABLE_JIT", False) else Compiled()
