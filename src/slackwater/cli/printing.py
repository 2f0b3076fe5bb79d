"""Output of the commands: tables for people, JSON lines for programs.

Invariants:
- On a terminal a table fits its width. Elsewhere nothing is wrapped, so that `grep` and `awk` see one row per line.
- Numbers are right-aligned. Unknown values are a dash, in JSON null.
- Control characters are escaped: ids come from clients, and the names of topics and hosts from the cluster. No text is
  read as Rich's markup.
- Rich and Typer are imported when something is printed, because they take long to import.
"""

import errno
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from slackwater.escaping import escape, escape_json, escape_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

UNKNOWN: Final = "–"
_UNWRAPPED: Final = 10_000
_FOLDED: Final = ("MEMBER", "PARTITIONS", "NOTE", "TO")  # long values that must not be cut

OUTPUT_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of writing to a full or broken device."""

Cell = object


def emit(row: object) -> None:
    """Print one line of JSON."""
    from typer import echo

    echo(escape_json(json.dumps(row, ensure_ascii=False)))


def print_line(text: str = "") -> None:
    """Print one line."""
    from typer import echo

    echo(escape_line(text))


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, styles: dict[str, str] | None = None) -> None:
    """Print rows under headings; a cell is a number, a text or None. `styles` apply to whole columns."""
    from rich.table import Table
    from rich.text import Text

    all_rows = [list(row) for row in rows]
    output = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(columns):
        cells = [row[index] for row in all_rows if row[index] is not None]
        numeric = bool(cells) and all(isinstance(cell, int) for cell in cells)
        output.add_column(
            name,
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=name not in _FOLDED,
            style=(styles or {}).get(name, ""),
        )
    for row in all_rows:
        output.add_row(*(Text(UNKNOWN if cell is None else escape(str(cell))) for cell in row))
    show(output)


def facts(rows: Iterable[tuple[str, str, str]]) -> None:
    """Print names and values, one pair per line; the third text is the style of the value."""
    from rich.table import Table
    from rich.text import Text

    output = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    output.add_column(style="dim", no_wrap=True)
    output.add_column(overflow="fold")
    for name, text, style in rows:
        output.add_row(Text(escape(name)), Text(escape(text), style=style))
    show(output)


def heading(text: str) -> None:
    """Print a line in bold."""
    from rich.text import Text

    show(Text(escape_line(text), style="bold"))


def warn(text: str) -> None:
    """Print a warning on standard error."""
    from typer import echo

    echo(escape_line(f"slackwater: {text}"), err=True)


def discard_output() -> None:
    """Redirect standard output to the null device, including data that is still buffered.

    Without this the interpreter flushes the buffer at exit, fails again, and exits with code 120.
    """
    if sys.stdout is None:
        return
    with suppress(OSError, ValueError):  # a replaced stream has no file descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, sys.stdout.fileno())
        finally:
            os.close(null)


def flush_output(*, quiet: bool = False) -> OSError | None:
    """Flush standard output; report and return the error if that fails, and discard the rest."""
    if sys.stdout is None:
        return None
    try:
        sys.stdout.flush()
    except ValueError:  # closed
        return None
    except OSError as error:
        discard_output()
        if not quiet and not isinstance(error, BrokenPipeError):
            warn(f"The output cannot be written: {error.strerror}.")
        return error
    return None


def show(renderable: "RenderableType") -> None:
    """Print on standard output."""
    from typer import echo

    console = _console()
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as captured:
        console.print(renderable)
    for line in captured.get().splitlines():
        echo(line.rstrip())


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _UNWRAPPED)


def count(number: int, noun: str, plural: str = "") -> str:
    """1 member, 2 members."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"
