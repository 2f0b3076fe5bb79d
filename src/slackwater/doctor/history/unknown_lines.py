"""Lines about groups that no template knows, clustered by shape, for a report that a user can publish.

Invariants:
- A shape contains no times, numbers, ids, names, addresses and paths of the line: placeholders stand for them.
- Each shape has the place of its first line, so that the user can look at the line itself.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slackwater.doctor.history.files import COMPRESSED, DECOMPRESSED, LocalFile
from slackwater.doctor.history.layouts import normalize
from slackwater.doctor.history.lines import TEMPLATES, find_lines, unwrap
from slackwater.doctor.history.ranges import read_blocks, whole_file
from slackwater.group.errors import UsageError

_MAX_SHAPE: Final = 300
_ABOUT_GROUPS: Final = re.compile(
    rb"\b[Rr]ebalanc(?!e protocol)|onsumer[ _-]?[Gg]roup|oin[_ ]?[Gg]roup|ync[_ ]?[Gg]roup|eave[_ ]?[Gg]roup|"
    rb"roup[ _]?[Cc]oordinator|[Hh]eartbeat .*(?:[Gg]roup|[Mm]ember|[Ss]ession)|max\.poll\.interval|MAXPOLL|"
    rb"SESSTMOUT|[A-Z_]*GENERATION\b"
)
_IRRELEVANT: Final = re.compile(rb"\s*(?:at |\.\.\. |File \"|[\w.]+ = |(?:return |await )*self\.)")
"""Frames of stack traces and printed settings."""
_CLOCK: Final = r"(?:[T ,]+\d\d?:\d\d(?::\d\d)?)?[\d.,:Z+]*"
_BEFORE_NAMES: Final = (
    r"\b((?:[Gg]roup|[Mm]ember|[Cc]lient|[Tt]opic|[Ii]nstance|[Cc]onsumer|[Pp]artition|[Hh]ost)s?(?:[ _]?[Ii][Dd])?"
    r"[ :]+)"
)
_WORDS: Final = (
    r"is|was|has|of|to|for|in|id|with|not|because|since|coordinator|member|rebalanc\w*|left|joined|failed|group|leader|"
    r"session|management|protocol|offsets?|and|closed|stopped|started|poll"
)
"""Words that follow `group`, `member` and the like, and are not names."""
_PLACEHOLDERS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[a-z][a-z0-9+.-]*://[^\s\"',;)\]}]+", "<address>"),
        (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "<address>"),
        (
            r"(?<![\w.])(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d?[-/.]\d\d?[-/.]\d{2,4})" + _CLOCK,
            "<time>",
        ),
        (r"\d\d?:\d\d:\d\d[\d.,]*(?: ?[AaPp][Mm])?", "<time>"),
        (r"[\w.<>@/-]*[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}[\w.-]*", "<id>"),
        (r"/?(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?:/\d+)?", "<address>"),
        (r"\b[\w-]+(?:\.[\w-]+)*:\d{2,5}\b(?:/\w+)?", "<address>"),
        (r"\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|local|internal|svc|cloud|[a-z]{2})\b(?!\.)", "<address>"),
        (r"(?<![\w<])(?:[A-Za-z]:)?(?:[/\\][\w.@ -]*[\w.@-])+", "<path>"),
        (r"((?:\b[\w.-]+|[\"'][\w.-]+[\"']) ?[=:] ?)([\"'`])(?:(?!\2)[^ ])*\2", r"\1<value>"),
        (r"(\b[\w.-]*\w=)(?![\"'<])[^\s,;)\]}]+", r"\1<value>"),
        (
            _BEFORE_NAMES + rf"(?!(?:{_WORDS})\b)[^\s<,;]+",
            r"\1<name>",
        ),
        (r"([\"'`])(?:(?!\1)\S)+\1", r"\1<name>\1"),
        (r"\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]{6,}\b", "<name>"),
        (r"\b[\w-]*\d[\w-]*\b", "<n>"),
    )
)


@dataclass(frozen=True, slots=True)
class UnknownShape:
    """Lines that differ only in times, numbers and names."""

    shape: str
    count: int
    file: str
    line: int
    """The number of the first of these lines in its file, from 1."""


def shape_of(text: str) -> str:
    """Return a line with placeholders for everything that belongs to a user."""
    shape = normalize(unwrap(text).text.split("\n", 1)[0]).strip()[: 4 * _MAX_SHAPE]
    for pattern, replacement in _PLACEHOLDERS:
        shape = pattern.sub(replacement, shape)
    return shape if len(shape) <= _MAX_SHAPE else shape[:_MAX_SHAPE] + "…"


def find_unknown_lines(files: Iterable[LocalFile]) -> list[UnknownShape]:
    """Return the shapes of the lines about groups that no template matches, the most frequent first."""
    shapes: dict[str, UnknownShape] = {}
    for file in files:
        for number, text in _unknown_in(file):
            shape = shape_of(text)
            first = shapes.get(shape)
            if first is None:
                shapes[shape] = UnknownShape(shape, 1, file.path, number)
            else:
                shapes[shape] = UnknownShape(shape, first.count + 1, first.file, first.line)
    return sorted(shapes.values(), key=lambda found: (-found.count, found.file, found.line))


def report_unknown_lines(shapes: Iterable[UnknownShape], version: str) -> Iterator[str]:
    """Yield the lines of a report for an issue."""
    yield f"Lines about consumer groups that slackwater {version} does not know."
    yield "Times, numbers, ids, names and addresses are replaced. Check the lines before you publish them."
    for found in shapes:
        yield ""
        yield f"{found.count} x, first at {Path(found.file).name}:{found.line}"
        yield f"    {found.shape}"


def _unknown_in(file: LocalFile) -> Iterator[tuple[int, str]]:
    """Yield number and text of the unknown lines of a file."""
    if file.path.endswith(COMPRESSED) and not file.path.endswith(DECOMPRESSED):
        raise UsageError(f"--unknown does not decompress {file.path}. Decompress it, or pass paths without it.")
    number = 1
    for _, block in read_blocks(whole_file(file)):
        known = {
            line.position
            for line in find_lines(block)
            if line.record_kind is not None
            or (
                (choice := TEMPLATES.choose(line.literals)) is not None
                and TEMPLATES.match(line.text, choice) is not None
            )
        }
        start = counted = 0
        for match in _ABOUT_GROUPS.finditer(block):
            if match.start() < start:
                continue
            begin = block.rfind(b"\n", 0, match.start()) + 1
            end = block.find(b"\n", begin)
            start = len(block) if end < 0 else end + 1
            number += block.count(b"\n", counted, begin)
            counted = begin
            if begin not in known and not _IRRELEVANT.match(block, begin):
                yield number, block[begin:start].decode("utf-8", "replace").rstrip()
        number += block.count(b"\n", counted)
        if not block.endswith((b"\n", b"\r")):  # the rest of a long line was skipped
            number += 1
