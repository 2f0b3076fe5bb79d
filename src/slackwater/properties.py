"""Kafka's file format for settings (java.util.Properties): of the client, the broker and its file of users.

Invariants:
- A line that ends with an odd number of backslashes continues in the next one, without its leading whitespace.
- `=`, `:` or whitespace ends a name; a backslash makes such a character part of it.
- No error shows a line or a value.
"""

import os
import re
from pathlib import Path
from typing import Final

from slackwater.group.errors import UsageError

_BLANKS: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE: Final = re.compile(r"[0-9a-fA-F]{4}")
_LINE: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*([=:]?)[ \t\f]*(.*)", re.DOTALL)


def read_properties(path: str | os.PathLike[str], *, allow_name_only: bool = True) -> dict[str, str]:
    """Read a file of settings. A line with a name only gives it an empty value, or is an error."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The file {os.fspath(path)} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise UsageError(f"The file {os.fspath(path)} is not UTF-8 text. Use a properties file.") from None
    settings: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        assert match is not None  # every line matches
        name, separator, value = match.groups()
        if not (separator or value or allow_name_only):
            raise UsageError(f"{os.fspath(path)}, line {number} is not a setting; use name=value.")
        try:
            settings[_unescape(name)] = _unescape(value)
        except ValueError:
            raise UsageError(f"Line {number} of {os.fspath(path)} has an invalid \\u escape.") from None
    return settings


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines with their numbers, without comments, continued lines as one."""
    lines: list[tuple[int, str]] = []
    start, pending = 0, ""
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append((start, pending + line))
        pending = ""
    if pending:
        lines.append((start, pending))
    return lines


def _unescape(text: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            digits = text[at + 2 : at + 6]
            if not _UNICODE.fullmatch(digits):
                raise ValueError
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            escaped = text[at + 1 : at + 2]
            out.append(_ESCAPES.get(escaped, escaped))
            at += 2
    return "".join(out)
