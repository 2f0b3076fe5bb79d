"""Progress of a command on standard error, only if that is a terminal."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import typer

_REFRESH_S: Final = 0.3
_BAR_WIDTH: Final = 24
_MB: Final = 1_000_000


@contextmanager
def show_activity(text: str) -> Iterator[None]:
    """Show a text on the terminal during the block."""
    is_terminal = sys.stderr.isatty()
    if is_terminal:
        typer.echo(f"\r\033[K{text} …", err=True, nl=False)
    try:
        yield
    finally:
        if is_terminal:
            typer.echo("\r\033[K", err=True, nl=False)


def bar(done: int, total: int) -> str:
    """Return a bar of which a part is filled."""
    filled = _BAR_WIDTH * min(done, total) // total
    return f"[{'█' * filled}{'·' * (_BAR_WIDTH - filled)}]"


class ProgressLine:
    """A line on the terminal that is drawn again and again during a block."""

    def __init__(self, describe: Callable[[], str], *, delay_s: float = 0.0) -> None:
        self._describe: Final = describe
        self._delay_s: Final = delay_s
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> None:
        if sys.stderr.isatty():
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
            typer.echo("\r\033[K", err=True, nl=False)

    def _show(self) -> None:
        self._over.wait(self._delay_s)
        while not self._over.is_set():
            typer.echo(f"\r\033[K{self._describe()}", err=True, nl=False)
            self._over.wait(_REFRESH_S)


class ReadBytes:
    """The number of bytes that have been read, and how to show it."""

    def __init__(self, total: int) -> None:
        self._total: Final = total
        self._read = 0

    def add(self, count: int) -> None:
        """Add a block."""
        self._read += count

    def describe(self) -> str:
        """Return the progress as a line."""
        if self._read >= self._total:
            return "finding causes …"
        if self._total < _MB:
            return "reading …"
        return f"reading {bar(self._read, self._total)} {self._read // _MB:,} of {self._total / _MB:,.0f} MB"
