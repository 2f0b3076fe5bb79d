"""Patterns for transactional ids in ListTransactions.

Kafka matches with RE2, whose time is linear. Python's `re` may take exponential time, and a client chooses the pattern.
So a pattern that could make it slow is invalid here: one with back references or look-around (RE2 has none either),
with a repeated group that contains alternatives or another repetition, or with many repetitions. A repetition with an
exact count, such as [0-9a-f]{8}, is not counted: there is only one way to match it.
"""

import re
from collections.abc import Callable
from typing import Final

MAX_REPETITIONS: Final = 4
MAX_OPTIONAL: Final = 8
MAX_ID_CHARACTERS: Final = 512
_TOKEN: Final = re.compile(
    r"\\(?P<escaped>.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<group>\(\?P?[^:)]?)|(?P<exact>\{[0-9]+\})|(?P<one>.)",
    re.S,
)
_REPEATS: Final = frozenset("*+{")


def compile_pattern(text: str) -> Callable[[str], bool] | None:
    """Return whether a whole id matches the pattern; None if the pattern is invalid. Long ids never match."""
    if not _is_safe(text):
        return None
    try:
        compiled = re.compile(text)
    except re.error:
        return None
    return lambda name: len(name) <= MAX_ID_CHARACTERS and compiled.fullmatch(name) is not None


def _is_safe(text: str) -> bool:
    repetitions = optional = 0
    is_complex = [False]  # of each open group: whether it has alternatives or a repetition
    closed_is_complex = False  # of the group that ends before this token
    for token in _TOKEN.finditer(text):
        if (escaped := token["escaped"]) is not None and escaped.isdigit():
            return False
        if (group := token["group"]) is not None:
            if group not in ("(?", "(?P<", "(?i", "(?s", "(?m"):
                return False
            is_complex.append(False)
        character = token["one"]
        if character == "(":
            is_complex.append(False)
        elif character == "|":
            is_complex[-1] = True
        elif token["exact"] is not None:
            if closed_is_complex:
                return False
            is_complex[-1] = True
        elif character in _REPEATS:
            if closed_is_complex:
                return False
            repetitions += 1
            is_complex[-1] = True
        elif character == "?":
            optional += 1
            is_complex[-1] = True
        closed_is_complex = False
        if character == ")" and len(is_complex) > 1:
            closed_is_complex = is_complex.pop()
            is_complex[-1] |= closed_is_complex
    return repetitions <= MAX_REPETITIONS and optional <= MAX_OPTIONAL
