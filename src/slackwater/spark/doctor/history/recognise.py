"""Lines to what they say: every template over all lines of a batch at once.

Rules kept here
- One pass finds the family and the key of each line; the lines of one key are held against its templates, one after the
  other, and those that one reads are done. No Python per line where the kernels are compiled.
- A value is a place in the bytes of the lines. What a template knows without reading is a place too: the constants
  stand behind the lines (`CONSTANTS`).
- A line that looks relevant and that no template reads is told (`unread`); of all others nothing is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.doctor.templates.reasons import CLIENT_REASONS, REASONS
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import Family, Reading, Template, compile_by_key
from slackwater.spark.doctor.history.kernels import Kernels, Shelves, Texts

Ints = NDArray[np.int32]

_CLIENTS: Final = Family(
    name="client's reason",
    source="",
    markers=("",),
    prefix="^",
    prefix_slots=(),
    words=(),
    templates=tuple(Template(part, "all", part, "<*>", None, {"trigger": str(why)}) for part, why in CLIENT_REASONS),
    suffix="",
)


@dataclass(frozen=True, slots=True)
class Library:
    """Templates made ready: shelves, and on each the readings to try in order."""

    shelves: Shelves
    relevance: Shelves
    """The same families with the words that make a line relevant which no template reads."""
    readings: Sequence[Sequence[Reading]]


def library(families: Sequence[Family]) -> Library:
    """Make families' templates ready."""
    keyed = [compile_by_key(family) for family in families]
    markers = [family.markers for family in families]
    sample = " ".join(template.wording for family in families for template in family.templates)
    return Library(
        Shelves(markers, [list(some) for some in keyed], sample),
        Shelves(markers, [family.words for family in families], sample),
        [readings for some in keyed for readings in some.values()],
    )


LINES: Final = library(FAMILIES)
WHY: Final = library([REASONS])
"""The reasons of rebalances."""
CLIENTS_WHY: Final = library([_CLIENTS])
"""What clients say for a reason, and the trigger that it tells."""


def _constants() -> Mapping[str, int]:
    texts = sorted(
        {
            value
            for made in (LINES, WHY, CLIENTS_WHY)
            for readings in made.readings
            for reading in readings
            for value in reading.constants.values()
        }
    )
    return dict(zip(texts, np.cumsum([0, *(len(text.encode()) for text in texts)]).tolist(), strict=False))


CONSTANTS: Final[Mapping[str, int]] = _constants()
"""Every text that a template knows, and where it stands behind the lines."""
_TEXTS: Final = tuple(CONSTANTS)
_CODES: Final = np.zeros(max(CONSTANTS.values()) + 1, np.int32)
"""By place: which constant stands there."""
_CODES[list(CONSTANTS.values())] = np.arange(len(CONSTANTS))
_POOL: Final = np.frombuffer("".join(CONSTANTS).encode(), np.uint8)


def with_constants(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes of lines with the constants behind them."""
    return np.concatenate((data, _POOL))


def constant(data: NDArray[np.uint8], text: str) -> int:
    """Where a constant stands."""
    return len(data) - len(_POOL) + CONSTANTS[text]


@dataclass(slots=True)
class Said:
    """What texts say: of each slot that any of them has, a place for each text."""

    data: NDArray[np.uint8]
    rows: int
    unread: NDArray[np.bool_]
    slots: dict[str, tuple[Ints, Ints]] = field(default_factory=dict)

    def slot(self, name: str) -> Texts:
        """A slot's values; none where no text has one."""
        starts, ends = self.slots.get(name) or self._empty()
        return Texts(self.data, starts, ends)

    def put(self, name: str, rows: NDArray[np.int64], starts: Ints | int, ends: Ints | int) -> None:
        """Set a slot of some texts."""
        into = self.slots.get(name) or self.slots.setdefault(name, self._empty())
        into[0][rows] = starts
        into[1][rows] = ends

    def has(self, name: str) -> NDArray[np.bool_]:
        """Which texts have a value there that is not empty."""
        _, starts, ends = self.slot(name)
        return (starts >= 0) & (ends > starts)

    def constants(self, name: str) -> pa.DictionaryArray | None:
        """A slot's column where all its values are constants, each of them told once; None where one is not."""
        starts = self.slot(name).starts
        there = starts >= 0
        places = starts[there] - (len(self.data) - len(_POOL))
        if len(places) and places.min() < 0:
            return None
        codes = np.zeros(self.rows, np.int32)
        codes[there] = _CODES[places]
        used = np.flatnonzero(np.bincount(codes[there], minlength=1))
        local = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int16)
        local[used] = np.arange(len(used))
        texts = pa.array([_TEXTS[code] for code in used.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(local[codes], mask=~there), texts)

    def among(self, name: str, values: Sequence[str]) -> NDArray[np.bool_]:
        """Which texts have one of these constants there."""
        places = [constant(self.data, str(value)) for value in values if str(value) in CONSTANTS]
        return np.isin(self.slot(name).starts, places)

    def only(self, rows: NDArray[np.int64]) -> "Said":
        """What some of the texts say."""
        kept = {name: (starts[rows], ends[rows]) for name, (starts, ends) in self.slots.items()}
        return Said(self.data, len(rows), self.unread[rows], kept)

    def _empty(self) -> tuple[Ints, Ints]:
        return np.full(self.rows, -1, np.int32), np.full(self.rows, -1, np.int32)


def read(texts: Texts, made: Library, kernels: Kernels) -> Said:
    """What texts say; their bytes have the constants behind them."""
    said = Said(texts.data, len(texts.starts), np.ones(len(texts.starts), np.bool_))
    if not said.rows:
        return said
    where = kernels.sort(texts, made.shelves).astype(np.int16)  # small numbers are sorted in one pass
    order = np.argsort(where, kind="stable")
    shelves, firsts = np.unique(where[order], return_index=True)
    for shelf, rows in zip(shelves.tolist(), np.split(order, firsts[1:]), strict=True):
        if shelf >= 0:
            _try(said, texts, rows, made.readings[shelf], kernels)
    rest = np.flatnonzero(said.unread)
    said.unread[rest] = kernels.sort(texts.of(rest), made.relevance) >= 0
    return said


def _try(said: Said, texts: Texts, rows: NDArray[np.int64], readings: Sequence[Reading], kernels: Kernels) -> None:
    for made in readings:
        found, places = kernels.match(texts.of(rows), made.pattern)
        if found.any():
            _take(said, made, rows[found], places[found])
            rows = rows[~found]
        if not len(rows):
            return


def _take(said: Said, made: Reading, rows: NDArray[np.int64], places: Ints) -> None:
    said.unread[rows] = False
    for slot, group in made.groups.items():
        said.put(slot, rows, places[:, 2 * group - 2], places[:, 2 * group - 1])
    for slot, text in made.constants.items():
        if text and slot not in made.groups:
            begin = constant(said.data, text)
            said.put(slot, rows, begin, begin + len(text.encode()))
