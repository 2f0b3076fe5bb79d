"""Regular expressions as programs: flat tables of numbers, which a compiled loop runs over bytes.

Rules kept here
- The dialect is what the wordings and the stamps need: literals, classes, `.`, groups, alternatives, `*` and `+` of one
  character (lazy or not), `{n}` and `{n,m}` of one, `?` of anything, `^` at the beginning, `$` at the end. What is not
  in it is refused.
- A program means what Java and Python mean by the pattern: choices are tried in order, the first way through counts.
- It works on the bytes of UTF-8. Literals are ASCII, and a class has either all bytes beyond ASCII or none of them.
- No jump goes back, so what is left to try is never more than the program is long, however long the text.
- A lazy run looks at the next byte before it stops: whether what follows the run could begin with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

LITERAL, ONE_OF, LAZY, GREEDY, SAVE, SPLIT, JUMP, END, FOUND = range(9)
"""What an instruction does; its numbers are, in this order:

LITERAL: where its bytes are in the pool, how many. ONE_OF: the class. LAZY: the class, the class of what may follow.
GREEDY: the class, 1 if nothing of it need ever be given back. SAVE: the place. SPLIT: what to try first, what then.
JUMP: where to.
"""

AT_END: Final = 256
"""Where a class says whether the text may end here."""
Members: TypeAlias = frozenset[int]

_ALL: Final[Members] = frozenset(range(256))
_DIGITS: Final[Members] = frozenset(b"0123456789")
_WORD: Final[Members] = _DIGITS | frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE: Final[Members] = frozenset(b" \t\n\x0b\f\r")
_NAMED: Final[dict[str, Members]] = {
    "d": _DIGITS,
    "D": _ALL - _DIGITS,
    "w": _WORD,
    "W": _ALL - _WORD,
    "s": _SPACE,
    "S": _ALL - _SPACE,
    "n": frozenset(b"\n"),
    "t": frozenset(b"\t"),
}
_ANY: Final[Members] = _ALL - frozenset(b"\n")
_REFUSED: Final = frozenset("^|?*+()")


class UnknownPattern(ValueError):
    """A pattern that is not of the dialect."""


@dataclass(frozen=True, slots=True)
class Program:
    """A pattern made ready."""

    code: NDArray[np.int32]
    pool: NDArray[np.uint8]
    sets: NDArray[np.uint8]
    groups: int


@cache
def compiled(pattern: str) -> Program:
    """The program of a pattern; it is held against a text from its beginning."""
    parser = _Parser(pattern)
    return _Writer().program(parser.whole(), parser.groups)


# --- what a pattern is made of ----------------------------------------------------------------------------------------


class _One(NamedTuple):
    members: Members


class _Run(NamedTuple):
    members: Members
    lazy: bool


class _Group(NamedTuple):
    number: int
    inner: "_Node"


class _Either(NamedTuple):
    ways: Sequence["_Node"]


class _Row(NamedTuple):
    parts: Sequence["_Node"]


class _End(NamedTuple):
    pass


_Node: TypeAlias = _One | _Run | _Group | _Either | _Row | _End
_NOTHING: Final = _Row(())


@dataclass(slots=True)
class _Parser:
    pattern: str
    at: int = 0
    groups: int = 0

    def whole(self) -> _Node:
        self.at += self._next() == "^"
        found = self._either()
        if self.at < len(self.pattern):
            raise self._unknown()
        return found

    def _either(self) -> _Node:
        ways = [self._row()]
        while self._next() == "|":
            self.at += 1
            ways.append(self._row())
        return ways[0] if len(ways) == 1 else _Either(ways)

    def _row(self) -> _Node:
        parts: list[_Node] = []
        while self._next() not in ("", "|", ")"):
            if self._next() == "(":
                parts.append(self._perhaps(self._group()))
            elif self._next() == "$":
                self.at += 1
                parts.append(_End())
            else:
                parts += self._repeated(self._one())
        return _Row(parts)

    def _group(self) -> _Node:
        captured = not self.pattern.startswith("(?:", self.at)
        self.at += 1 if captured else 3
        number = self.groups
        self.groups += captured
        inner = self._either()
        if self._next() != ")":
            raise self._unknown()
        self.at += 1
        return _Group(number, inner) if captured else inner

    def _perhaps(self, node: _Node) -> _Node:
        if self._next() != "?":
            return node
        self.at += 1
        return _Either((node, _NOTHING))

    def _repeated(self, members: Members) -> list[_Node]:
        least, most = self._times()
        once: list[_Node] = [_One(members)]
        if most is None:
            lazy = self._next() == "?"
            self.at += lazy
            return once * least + [_Run(members, lazy)]
        more: _Node = _NOTHING
        for _ in range(most - least):  # each one is tried only behind the one before
            more = _Either((_Row([*once, more]), _NOTHING))
        return [*once * least, more] if most > least else once * least

    def _times(self) -> tuple[int, int | None]:
        sign = self._next()
        if sign in _SIGNS:
            self.at += 1
            return _SIGNS[sign]
        end = self.pattern.find("}", self.at)
        least, comma, most = self.pattern[self.at + 1 : end].partition(",")
        if sign != "{" or not least.isdigit() or (comma and not most.isdigit()):
            return 1, 1
        self.at = end + 1
        return int(least), int(most if comma else least)

    def _one(self) -> Members:
        char = self._take()
        if char == ".":
            return _ANY
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escaped()
        if char in _REFUSED:
            raise self._unknown()
        return self._literal(char)

    def _class(self) -> Members:
        negative = self._next() == "^"
        self.at += negative
        members: Members = frozenset()
        while self._next() != "]":
            char = self._take()
            one = self._escaped() if char == "\\" else self._literal(char)
            if self._next() == "-" and self.pattern[self.at + 1] != "]":
                one = frozenset(range(min(one), ord(self.pattern[self.at + 1]) + 1))
                self.at += 2
            members |= one
        self.at += 1
        return _ALL - members if negative else members

    def _escaped(self) -> Members:
        char = self._take()
        if char.isalnum() and char not in _NAMED:
            raise self._unknown()
        return _NAMED.get(char) or self._literal(char)

    def _literal(self, char: str) -> Members:
        if not char.isascii():
            raise self._unknown()
        return frozenset(char.encode())

    def _take(self) -> str:
        if self.at >= len(self.pattern):
            raise self._unknown()
        self.at += 1
        return self.pattern[self.at - 1]

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _unknown(self) -> UnknownPattern:
        return UnknownPattern(f"The pattern {self.pattern!r} is not of the dialect, at {self.at}.")


_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


# --- the program ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    code: list[list[int]] = field(default_factory=list)
    pool: bytearray = field(default_factory=bytearray)
    sets: list[Members] = field(default_factory=list)

    def program(self, node: _Node, groups: int) -> Program:
        self._write(node)
        self._put(FOUND)
        for at, instruction in enumerate(self.code):
            if instruction[0] == LAZY:
                instruction[2] = self._set(self._first(at + 1))
            elif instruction[0] == GREEDY:
                instruction[2] = int(not self.sets[instruction[1]] & self._first(at + 1))
        sets = np.zeros((max(len(self.sets), 1), AT_END + 1), np.uint8)
        for number, members in enumerate(self.sets):
            sets[number, list(members)] = 1
        return Program(np.array(self.code, np.int32), np.frombuffer(bytes(self.pool) + b"\0", np.uint8), sets, groups)

    def _write(self, node: _Node) -> None:
        match node:
            case _One(members) if len(members) == 1:
                self._put(LITERAL, len(self.pool), 1)
                self.pool += bytes(members)
            case _One(members):
                self._put(ONE_OF, self._set(members))
            case _Run(members, lazy):
                self._put(LAZY if lazy else GREEDY, self._set(members))
            case _Group(number, inner):
                self._put(SAVE, 2 * number)
                self._write(inner)
                self._put(SAVE, 2 * number + 1)
            case _Either(ways):
                self._choice(ways)
            case _Row(parts):
                self._row(parts)
            case _End():
                self._put(END)

    def _row(self, parts: Sequence[_Node]) -> None:
        literal = False  # whether the last instruction can take another letter
        for part in parts:
            if isinstance(part, _One) and len(part.members) == 1 and literal:
                self.pool += bytes(part.members)
                self.code[-1][2] += 1
                continue
            self._write(part)
            literal = isinstance(part, _One) and len(part.members) == 1

    def _choice(self, ways: Sequence[_Node]) -> None:
        ends = []
        for way in ways[:-1]:
            split = self._put(SPLIT, len(self.code) + 1)
            self._write(way)
            ends.append(self._put(JUMP))
            self.code[split][2] = len(self.code)
        self._write(ways[-1])
        for end in ends:
            self.code[end][1] = len(self.code)

    def _put(self, what: int, one: int = 0, other: int = 0) -> int:
        self.code.append([what, one, other])
        return len(self.code) - 1

    def _set(self, members: Members) -> int:
        if members not in self.sets:
            self.sets.append(members)
        return self.sets.index(members)

    def _first(self, at: int) -> Members:
        """The bytes that the program can go on with from here; `AT_END` where the text may end."""
        what, one, other = self.code[at]
        if what == LITERAL:
            return frozenset({self.pool[one]})
        if what == ONE_OF:
            return self.sets[one]
        if what in (LAZY, GREEDY):
            return self.sets[one] | self._first(at + 1)
        if what == SAVE:
            return self._first(at + 1)
        if what == SPLIT:
            return self._first(one) | self._first(other)
        if what == JUMP:
            return self._first(one)
        return frozenset({AT_END}) if what == END else _ALL | {AT_END}
