"""Patterns for transactional ids in ListTransactions, in the syntax of RE2, which Kafka uses.

Python's `re` may take exponential time, and a client chooses the pattern. So a pattern is compiled to a
non-deterministic automaton, as in RE2, and all its states advance together: the time is linear in the length of an id.
`re` decides only whether one character matches.

Not supported, and therefore invalid: word boundaries, POSIX and Unicode classes, and what RE2 has not either (back
references, look-around, possessive repetitions).
"""

import re
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from slackwater.broker.slices import Sliced

MAX_CHARACTERS: Final = 1_000
MAX_INSTRUCTIONS: Final = 1_000
MAX_COPIES: Final = 1_000
MAX_DEPTH: Final = 30
_MAX_CACHED_STEPS: Final = 10_000
_TOKEN: Final = re.compile(
    r"\(\?(?P<flags>[ims]+)\)|(?P<open>\((?:\?(?:P?<\w+>|(?P<scoped>[ims]*):))?)"
    r"|(?P<repeat>[*+?]|\{(?P<least>\d{1,4})(?P<most>,\d{0,4})?\})(?P<lazy>\??)"
    r"|(?P<character>\\(?:x[0-9a-fA-F]{2}|[^\w]|[dDwWsSnrtfva])|\[\^?\]?(?:\\.|[^\]\\])+\]|[^\\()|*+?^$[])"
    r"|(?P<other>[|)^$])",
    re.S,
)
_FLAGS: Final = {"i": re.I, "s": re.S, "m": re.NOFLAG}  # an id has one line


class _Kind(Enum):
    CHARACTER = "character"
    SPLIT = "split"  # continue with the next instruction and with the target
    JUMP = "jump"
    START = "start"
    END = "end"
    MATCH = "match"


class _Instruction(NamedTuple):
    kind: _Kind
    target: int = 0
    is_match: Callable[[str], object] | None = None


_Node = Callable[[], object]
"""Adds the instructions of a part of the pattern to the program."""


class _InvalidPattern(Exception):
    pass


class _Parser:
    """Parses a pattern by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = re.NOFLAG
        self._depth = 0
        self._copies = 0
        self._program: list[_Instruction] = []

    def parse(self) -> list[_Instruction]:
        """Return the program of the whole pattern."""
        node = self._alternatives()
        if self._at < len(self._text):
            raise _InvalidPattern
        node()
        self._add(_Kind.MATCH)
        return self._program

    def _add(self, kind: _Kind, target: int = 0, is_match: Callable[[str], object] | None = None) -> int:
        if len(self._program) >= MAX_INSTRUCTIONS:
            raise _InvalidPattern
        self._program.append(_Instruction(kind, target, is_match))
        return len(self._program) - 1

    def _copy(self, node: _Node) -> None:
        """Add a repeated part once. The copies are limited, too: those of an empty part add no instructions."""
        self._copies += 1
        if self._copies > MAX_COPIES:
            raise _InvalidPattern
        node()

    def _end_here(self, index: int) -> None:
        """Let a split or jump continue after the instructions so far."""
        self._program[index] = self._program[index]._replace(target=len(self._program))

    def _alternatives(self) -> _Node:
        sequences = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            sequences.append(self._sequence())

        def emit() -> None:
            jumps = []
            for sequence in sequences[:-1]:
                split = self._add(_Kind.SPLIT)
                sequence()
                jumps.append(self._add(_Kind.JUMP))
                self._end_here(split)
            sequences[-1]()
            for jump in jumps:
                self._end_here(jump)

        return emit

    def _sequence(self) -> _Node:
        nodes: list[_Node] = []
        is_repeatable = False
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            token = _TOKEN.match(self._text, self._at)
            if token is None:
                raise _InvalidPattern
            self._at = token.end()
            if token["repeat"]:
                if not is_repeatable:
                    raise _InvalidPattern
                nodes[-1] = self._repeated(nodes[-1], token)
                is_repeatable = False
                continue
            is_repeatable = token["flags"] is None
            if token["flags"] is not None:
                self._set_flags(token["flags"])
            elif token["open"]:
                nodes.append(self._group(token["scoped"] or ""))
            elif token["character"]:
                nodes.append(self._character(token["character"]))
            else:
                kind = _Kind.START if token["other"] == "^" else _Kind.END
                nodes.append(partial(self._add, kind))

        def emit() -> None:
            for node in nodes:
                node()

        return emit

    def _group(self, flags: str) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _InvalidPattern
        outer_flags = self._flags
        self._set_flags(flags)
        node = self._alternatives()
        if not self._text.startswith(")", self._at):
            raise _InvalidPattern
        self._at += 1
        self._flags = outer_flags
        self._depth -= 1
        return node

    def _set_flags(self, letters: str) -> None:
        for letter in letters:
            self._flags |= _FLAGS[letter]

    def _character(self, text: str) -> _Node:
        if text.startswith("[") and "[:" in text:
            raise _InvalidPattern
        is_match = re.compile(re.escape(text) if len(text) == 1 and text != "." else text, self._flags).fullmatch
        return partial(self._add, _Kind.CHARACTER, is_match=is_match)

    def _repeated(self, node: _Node, token: re.Match[str]) -> _Node:
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(token["repeat"], (0, 0))
        if token["least"]:
            least = int(token["least"])
            most = least if token["most"] is None else int(token["most"][1:]) if len(token["most"]) > 1 else None
            if most is not None and most < least:
                raise _InvalidPattern

        def emit() -> None:
            for _ in range(least):
                self._copy(node)
            if most is None:
                split = self._add(_Kind.SPLIT)
                self._copy(node)
                self._add(_Kind.JUMP, split)
                self._end_here(split)
                return
            splits = []
            for _ in range(most - least):
                splits.append(self._add(_Kind.SPLIT))
                self._copy(node)
            for split in splits:
                self._end_here(split)

        return emit


class IdPattern:
    """A compiled pattern."""

    def __init__(self, program: list[_Instruction]) -> None:
        self._program = program
        self._start = self._reach([0], at_start=True)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> Sliced[bool]:
        """Return whether a whole id matches."""
        states = self._start
        for character in name:
            following = self._steps.get((states, character))
            if following is None:
                yield None
                following = self._step(states, character)
            states = following
        return any(
            self._program[state].kind is _Kind.MATCH for state in self._reach(states, at_start=not name, at_end=True)
        )

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        following = self._reach(
            state + 1
            for state in states
            if (is_match := self._program[state].is_match) is not None and is_match(character)
        )
        if len(self._steps) >= _MAX_CACHED_STEPS:
            self._steps.clear()
        self._steps[states, character] = following
        return following

    def _reach(self, states: Iterable[int], *, at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """Return the states that wait for a character, for the end of the id, or match."""
        pending, seen, reached = list(states), set[int](), set[int]()
        while pending:
            state = pending.pop()
            if state in seen:
                continue
            seen.add(state)
            kind, target, _ = self._program[state]
            if kind in (_Kind.SPLIT, _Kind.JUMP):
                pending.append(target)
            if kind is _Kind.SPLIT or (kind is _Kind.START and at_start) or (kind is _Kind.END and at_end):
                pending.append(state + 1)
            elif kind in (_Kind.CHARACTER, _Kind.END, _Kind.MATCH):
                reached.add(state)
        return frozenset(reached)


def compile_pattern(text: str) -> IdPattern | None:
    """Compile a pattern; None if it is invalid."""
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # RE2 has no sets inside of sets
            return IdPattern(_Parser(text).parse())
    except (_InvalidPattern, re.error):
        return None
