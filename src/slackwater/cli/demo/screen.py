"""What the demo shows: the chapter, the groups, what has just happened; and the account at the end.

Rules kept here
- On a terminal one picture is kept up to date; anywhere else the chapters and events are plain lines, as they come.
- A partition has the colour of its owner, so that one can see it change hands.
"""

import threading
import time
from collections import Counter
from typing import Final

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from slackwater.cli.demo.crew import Crew
from slackwater.cli.demo.watch import Group as ShownGroup
from slackwater.cli.demo.watch import Watch, said
from slackwater.group.events import EventKind, GroupEvent

REFRESH_S: Final = 0.1
EVENTS_SHOWN: Final = 9
EVENTS_AT_LEAST: Final = 3
"""Beside notes, which need the room."""
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "bright_cyan", "bright_green")
_STATES: Final = {"Stable": "bold green", "PreparingRebalance": "bold yellow", "CompletingRebalance": "bold yellow"}
_EVENTS: Final = {
    EventKind.REBALANCE_STARTED: "yellow",
    EventKind.REBALANCE_COMPLETED: "green",
    EventKind.MEMBER_EXPIRED: "red",
    EventKind.MEMBER_DROPPED: "red",
    EventKind.MEMBER_REPLACED: "bold cyan",
}


class Screen:
    """The demo's terminal."""

    def __init__(self, console: Console, watch: Watch, crew: Crew, partitions: int, title: str) -> None:
        self._title = title
        self._console = console
        self._watch = watch
        self._crew = crew
        self._partitions = partitions
        self._began = time.time()
        self._chapter = ""
        self._text = ""
        self._notes: list[str] = []
        self._groups: list[str] = []
        self._topics: dict[str, str | None] = {}
        self._colours: dict[str, str] = {}
        self._live: Live | None = None
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = 0

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live = Live(self._picture(), console=self._console, auto_refresh=False)
            self._live.start()
        self._thread = threading.Thread(target=self._keep_up, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        self._show()
        if self._live is not None:
            self._live.stop()

    def chapter(self, number: int, of: int, title: str, text: str) -> None:
        """A new chapter begins."""
        self._chapter, self._text, self._notes = f"{number} of {of}  {title}", text, []
        if self._live is None:
            self._show()
            self._console.print(f"\n{self._chapter}: {' '.join(text.split())}", highlight=False, soft_wrap=True)

    def opening(self, text: str) -> None:
        """Before the first chapter."""
        self._chapter, self._text = "Set-up", text
        if self._live is None:
            self._console.print(text, highlight=False)

    def note(self, text: str) -> None:
        """Something to say in this chapter."""
        self._notes.append(text)
        if self._live is None:
            self._show()
            self._console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)

    def show_group(self, group_id: str, topic: str | None = None) -> None:
        """Show this group from now on; with its topic, how far behind it is."""
        self._topics[group_id] = topic
        self._groups.append(group_id)

    def hide_group(self, group_id: str) -> None:
        """Show it no more."""
        self._groups.remove(group_id)

    def _keep_up(self) -> None:
        while not self._done.wait(REFRESH_S):
            self._show()

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
            return
        told = self._watch.told
        for event in told[self._told :]:
            if event.group in self._groups:
                self._console.print("  ", *self._event(event), sep="  ", highlight=False, soft_wrap=True)
        if len(told) > self._told:
            self._console.file.flush()
        self._told = len(told)

    def _picture(self) -> RenderableType:
        title = Text.assemble(("slackwater", "bold"), f" · {self._title}")
        head = Text.assemble((self._chapter, "bold"), "\n", (self._text, "dim"))
        if self._notes:
            head.append("\n" + "\n".join(self._notes))
        body = [head, *(self._group(self._watch.group(group_id)) for group_id in self._groups), self._happened()]
        elapsed = int(time.time() - self._began)
        return Panel(
            Group(*body), title=title, subtitle=f"{elapsed} s", box=ROUNDED, width=min(self._console.width, 104)
        )

    def _group(self, group: ShownGroup) -> RenderableType:
        idle = sum(not member.partitions for member in group.members) if group.state == "Stable" else 0
        title = Text.assemble(
            ("group ", "dim"),
            (group.group_id, "bold"),
            "   ",
            (group.state, _STATES.get(group.state, "dim")),
            f"   generation {group.generation}",
            (f"   {group.assignor}" if group.assignor else "", "dim"),
            (f"   {idle} of {len(group.members)} idle" if idle else "", "yellow"),
            self._lag(group.group_id),
        )
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        clients = self._crew.clients()
        for member in group.members:
            colour = self._colours.setdefault(member.name, _COLOURS[len(self._colours) % len(_COLOURS)])
            owned = Text()
            for partition in range(self._partitions):
                if partition in member.partitions:
                    owned.append(f" {partition} ", style=f"black on {colour}")
                else:
                    owned.append(" · ", style="dim")
            note = "" if group.state == "Stable" else "rejoining"
            table.add_row(
                Text(member.name, style=colour),
                Text(clients.get(member.name, ""), style="dim"),
                Text(f"static: {member.instance}" if member.instance else "", style="dim"),
                owned,
                Text(f"{self._crew.readings[group.group_id, member.name]:,} read", style="dim", justify="right"),
                Text(note, style="yellow"),
            )
        return Group(Text(), title, table)

    def _lag(self, group_id: str) -> str:
        topic = self._topics[group_id]
        return "" if topic is None else f"   lag {self._watch.lag(group_id, self._crew.written[topic]):,}"

    def _happened(self) -> RenderableType:
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 2))
        shown = [event for event in self._watch.told if event.group in self._groups]
        for event in shown[-max(EVENTS_SHOWN - len(self._notes), EVENTS_AT_LEAST) :]:
            table.add_row(*self._event(event))
        return Group(Text("\nwhat happened", style="dim"), table)

    def _event(self, event: GroupEvent) -> tuple[Text, Text, Text, Text]:
        style = _EVENTS.get(event.kind, "")
        return (
            Text(f"{event.time_ms / 1000 - self._began:5.1f} s", style="dim"),
            Text(event.group),
            Text(event.trigger.value if event.trigger is not None else "", style="bold " + style),
            Text(said(event), style=style, overflow="ellipsis", no_wrap=True),
        )


def account(rows: list[tuple[str, list[GroupEvent], str]]) -> RenderableType:
    """What every chapter cost its group."""
    table = Table(box=SIMPLE_HEAD, title="The account", title_justify="left", title_style="bold")
    table.add_column("chapter")
    table.add_column("rebalances", justify="right")
    table.add_column("triggers")
    table.add_column("what that meant")
    for title, rebalances, meaning in rows:
        counted = Counter(event.trigger.value for event in rebalances if event.trigger is not None)
        triggers = ", ".join(f"{trigger} × {times}" if times > 1 else trigger for trigger, times in counted.items())
        table.add_row(title, str(len(rebalances)), triggers or "–", meaning)
    return table
