"""The demo's screen: the step, the groups, recent events; and the summary at the end.

On a terminal one screen is redrawn; it fits the terminal (80 × 24 and larger). Elsewhere steps, notes and events
are printed as plain lines. A partition has the colour of its owner.
"""

import textwrap
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from slackwater.cli.demo.groups import GroupMonitor, ShownGroup, describe_event
from slackwater.escaping import escape_line
from slackwater.group.events import EventKind, GroupEvent

REFRESH_S: Final = 0.1
SHOW_WAIT_AFTER_S: Final = 3.0
MAX_WIDTH: Final = 100
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "bright_cyan", "bright_green")
_STATE_STYLES: Final = {
    "Stable": "bold green",
    "PreparingRebalance": "bold yellow",
    "CompletingRebalance": "bold yellow",
}
_EVENT_STYLES: Final = {
    EventKind.REBALANCE_STARTED: "yellow",
    EventKind.REBALANCE_COMPLETED: "green",
    EventKind.MEMBER_EXPIRED: "red",
    EventKind.MEMBER_DROPPED: "red",
    EventKind.MEMBER_REPLACED: "bold cyan",
}


class RecordCounts(Protocol):
    """The numbers of the child processes that the screen shows."""

    @property
    def produced(self) -> Mapping[str, int]:
        """Acknowledged records by topic."""
        ...

    @property
    def reads(self) -> Mapping[tuple[str, str], int]:
        """Records read by group and client name."""
        ...

    def clients(self) -> Mapping[str, str]:
        """The client library of each name."""
        ...


@dataclass(frozen=True, slots=True)
class StepResult:
    """A row of the summary."""

    title: str
    rebalances: list[GroupEvent]
    result: str


class Screen:
    """The screen on a terminal; elsewhere, plain lines."""

    def __init__(
        self, console: Console, monitor: GroupMonitor, counts: RecordCounts, partitions: int, title: str
    ) -> None:
        self._console = console
        self._monitor = monitor
        self._counts = counts
        self._partitions = partitions
        self._title = title
        self._started = time.time()
        self._step = ""
        self._text = ""
        self._notes: list[str] = []
        self._groups: dict[str, str] = {}
        """The topic of each group that is shown."""
        self._colours: dict[str, str] = {}
        self._waiting: tuple[str, float] | None = None
        self._live: Live | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)
        self._printed_events = 0

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live = Live(self.render(), console=self._console, auto_refresh=False)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closed.set()
        self._thread.join()
        self._show()
        if self._live is not None:
            self._live.stop()

    def start_step(self, heading: str, text: str) -> None:
        """Start a step."""
        self._step, self._text, self._notes = heading, text, []
        self._print_line(f"\n{heading}: {' '.join(text.split())}")

    def note(self, text: str) -> None:
        """Add a note to this step."""
        self._notes.append(text)
        self._print_line(f"  {text}")

    def waiting_for(self, what: str | None) -> None:
        """Show what the demo waits for, once that takes a few seconds."""
        self._waiting = None if what is None else (what, time.time())

    def show_group(self, group_id: str, topic: str) -> None:
        """Show this group and its lag from now on."""
        self._groups[group_id] = topic

    def hide_group(self, group_id: str) -> None:
        """Do not show this group any more."""
        del self._groups[group_id]

    def _print_line(self, text: str) -> None:
        if self._live is None:
            self._show()
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _refresh(self) -> None:
        while not self._closed.wait(REFRESH_S):
            self._show()

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(self.render(), refresh=True)
            return
        events = self._monitor.shown_events()
        for event in events[self._printed_events :]:
            if event.group in self._groups:
                self._console.print("  ", *self._event(event), sep="  ", highlight=False, soft_wrap=True)
        self._printed_events = len(events)
        if (what := self._long_wait()) is not None:
            self._console.print(f"  waiting for {what} …", highlight=False, markup=False, soft_wrap=True)
            self._waiting = None
        self._console.file.flush()

    def _long_wait(self) -> str | None:
        if self._waiting is None or time.time() - self._waiting[1] < SHOW_WAIT_AFTER_S:
            return None
        return self._waiting[0]

    def render(self) -> RenderableType:
        """Return the current screen, cut to the size of the terminal."""
        width = min(self._console.width, MAX_WIDTH)
        rows = self._console.height - 4  # the panel's border, the line below it, and the line above the events
        head = [Text(self._step, style="bold"), *(Text(line, style="dim") for line in self._wrap(self._text, width))]
        shown = dict(self._groups)  # the main thread may change it meanwhile
        groups = [
            line for group_id, topic in shown.items() for line in self._group(self._monitor.group(group_id), topic)
        ]
        rows -= len(head) + len(groups)
        notes = [Text(line) for note in list(self._notes) for line in self._wrap(note, width)][: max(rows, 0)]
        rows -= len(notes)
        events = [event for event in self._monitor.shown_events() if event.group in shown]
        lines = [Text(" ").join(self._event(event)) for event in events[-rows:]] if rows > 0 else []
        body = [*head, *notes, *groups, Text(), *lines]
        for line in body:
            line.no_wrap, line.overflow = True, "ellipsis"
        elapsed = f"{int(time.time() - self._started)} s"
        waiting = self._long_wait()
        return Panel(
            Group(*body),
            title=Text.assemble(("slackwater", "bold"), f" · {self._title}"),
            subtitle=elapsed if waiting is None else f"{elapsed} · waiting for {waiting}",
            box=ROUNDED,
            width=width,
        )

    def _wrap(self, text: str, width: int) -> list[str]:
        return [line for part in text.splitlines() for line in textwrap.wrap(part, width - 4, subsequent_indent="  ")]

    def _group(self, group: ShownGroup, topic: str) -> list[Text]:
        """A group as lines: a title, and a line per member."""
        idle = sum(not member.partitions for member in group.members) if group.state == "Stable" else 0
        lag = self._monitor.lag(group.group_id, self._counts.produced.get(topic, 0))
        title = Text.assemble(
            ("group ", "dim"),
            (group.group_id, "bold"),
            "  ",
            (group.state, _STATE_STYLES.get(group.state, "dim")),
            f"  generation {group.generation}",
            (f"  {group.assignor}" if group.assignor else "", "dim"),
            (f"  {idle} idle" if idle else "", "yellow"),
            f"  lag {lag:,}",
        )
        lines = [Text(), title]
        clients = self._counts.clients()
        for member in group.members:
            colour = self._colours.setdefault(member.name, _COLOURS[len(self._colours) % len(_COLOURS)])
            line = Text.assemble(
                "  ",
                (f"{escape_line(member.name):<10}", colour),
                (f"{clients.get(member.name, ''):<16}", "dim"),
                (f"{'static' if member.instance else '':<7}", "dim"),
            )
            for partition in range(self._partitions):
                owned = partition in member.partitions
                line.append(f" {partition} " if owned else " · ", style=f"black on {colour}" if owned else "dim")
            line.append(f"{self._counts.reads.get((group.group_id, member.name), 0):>9,} read", style="dim")
            line.append("" if group.state == "Stable" else "  rejoining", style="yellow")
            lines.append(line)
        return lines

    def _event(self, event: GroupEvent) -> tuple[Text, Text, Text]:
        style = _EVENT_STYLES.get(event.kind, "")
        return (
            Text(f"{event.time_ms / 1000 - self._started:6.1f} s", style="dim"),
            Text(f"{event.group:<14}", style="dim"),
            Text(escape_line(describe_event(event)), style=style),
        )


def summary(results: list[StepResult]) -> RenderableType:
    """A table: what every step cost its group."""
    table = Table(box=SIMPLE_HEAD, title="Summary", title_justify="left", title_style="bold")
    table.add_column("step")
    table.add_column("rebalances", justify="right")
    table.add_column("triggers")
    table.add_column("result")
    for step in results:
        counts = Counter(event.trigger.value for event in step.rebalances if event.trigger is not None)
        triggers = ", ".join(f"{trigger} × {times}" if times > 1 else trigger for trigger, times in counts.items())
        table.add_row(step.title, str(len(step.rebalances)), triggers or "–", step.result)
    return table
