"""What commands print: tables for people, lines of JSON for programs.

Rules kept here
- On a terminal a table fits the terminal. Anywhere else its columns are as wide as they must be, and nothing is
  wrapped: `grep` and `awk` see one row per line.
- Numbers are on the right. What is not known is a dash, and in JSON null.
- Rich is loaded when the first table is printed.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

NOTHING: Final = "–"
_UNWRAPPED: Final = 10_000
_FOLDED: Final = ("MEMBER", "PARTITIONS", "NOTE", "TO")  # what may be long, and is no shorter for being cut

Cell = object


def emit(row: object) -> None:
    """One line of JSON."""
    typer.echo(json.dumps(row, ensure_ascii=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, styles: dict[str, str] | None = None) -> None:
    """Rows under headings; a cell may be a number, a text or None. `styles` are those of whole columns."""
    from rich.table import Table
    from rich.text import Text

    found = [list(row) for row in rows]
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(columns):
        cells = [row[index] for row in found if row[index] is not None]
        numeric = bool(cells) and all(isinstance(cell, int) for cell in cells)
        shown.add_column(
            name,
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=name not in _FOLDED,
            style=(styles or {}).get(name, ""),
        )
    for row in found:
        shown.add_row(*(Text(NOTHING if cell is None else str(cell)) for cell in row))
    show(shown)


def facts(rows: Iterable[tuple[str, str, str]]) -> None:
    """Names with what they are, one per line; the third text is a style."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, text, style in rows:
        shown.add_row(name, Text(text, style=style))
    show(shown)


def heading(text: str) -> None:
    """A line that stands out on a terminal."""
    from rich.text import Text

    show(Text(text, style="bold"))


def warn(text: str) -> None:
    """A sentence beside what was asked for; it never mixes with the output."""
    typer.echo(f"slackwater: {text}", err=True)


def discard_output() -> None:
    """Let what is still to be printed go nowhere: nobody reads it any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def show(what: "RenderableType") -> None:
    """Print on standard output."""
    console = _console()
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as captured:
        console.print(what)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _UNWRAPPED)


def count(number: int, what: str, plural: str = "") -> str:
    """1 member, 2 members."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {plural or what + 's'}"
