"""The demo's child processes: started, told what to do, stopped, killed, and asked what they have read.

Rules kept here
- No child outlives the demo: `dismiss` ends all of them, each ends by itself when its standard input does, and the
  janitor ends what is left, with everything that a child has started.
- A child that is replaced keeps its name: the old one goes, the new one is that name from then on.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from slackwater.cli.demo.janitor import Janitor, kill_sessions
from slackwater.cli.demo.ledger import Read

LAST_WORDS_S: Final = 5.0
SPARK: Final = "Spark"


@dataclass(slots=True)
class Hand:
    """One child."""

    name: str
    client: str
    group: str
    process: subprocess.Popen[str]
    directory: Path
    said: list[dict[str, Any]] = field(default_factory=list)
    thread: threading.Thread | None = None

    def tell(self, **what: Any) -> None:
        """Tell it what to do."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()

    def has_said(self, word: str) -> bool:
        """Whether it has said this word."""
        return any(said["say"] == word for said in self.said)

    def failure(self) -> str | None:
        """Why it cannot go on, if so."""
        why = next((str(said["why"]) for said in self.said if said["say"] == "failed"), None)
        if why is None and self.process.poll() not in (None, 0) and not self.has_said("ended"):
            return f"it ended with code {self.process.returncode}; its last words: {self._last_words()}"
        return why

    def _last_words(self) -> str:
        path = self.directory / "log"
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "none")


class Crew:
    """All children of a demo; what they write goes below `home`."""

    def __init__(self, bootstrap: str, home: Path, janitor: Janitor) -> None:
        self._bootstrap = bootstrap
        self._home = home
        self._janitor = janitor
        self._hands: dict[str, Hand] = {}
        self._past: list[Hand] = []
        self._lock = threading.Lock()
        self._started = 0
        self.read: dict[str, Read] = defaultdict(Read)
        self.readings: dict[tuple[str, str], int] = defaultdict(int)
        """How many records each name has read in each group, those that were read before among them."""
        self.acknowledged = 0
        self.written: dict[str, int] = defaultdict(int)
        """How many records a topic has, where its producer tells it as it goes."""
        self.on_end: Callable[[str], None] = lambda _name: None
        """Called with the name of whoever is about to be stopped or killed."""

    def clients(self) -> dict[str, str]:
        """Which client each name stands for."""
        return {hand.name: hand.client for hand in (*self._past, *self._hands.values())}

    def counts(self, group: str | None = None) -> tuple[int, int]:
        """How many records were read, and how many of them again; by one group, or by all."""
        with self._lock:
            counts = [read.counts() for name, read in self.read.items() if group in (None, name)]
        return sum(read for read, _ in counts), sum(twice for _, twice in counts)

    def hand(self, name: str) -> Hand:
        """The child of this name."""
        return self._hands[name]

    def failures(self) -> list[str]:
        """What has gone wrong with children that should be at work."""
        return [f"{hand.name}: {why}" for hand in list(self._hands.values()) if (why := hand.failure()) is not None]

    def hire(
        self, name: str, client: str, topic: str, group: str = "", *, module: str = "members", **config: Any
    ) -> None:
        """Start a child that is a client."""
        given = {"name": name, "client": client, "topic": topic, "group": group, "bootstrap": self._bootstrap, **config}
        self._hands[name] = self._start(name, client, group, module, lambda _directory: json.dumps(given))

    def prepare(self, name: str, module: str = "application") -> Hand:
        """Start a child on Spark. It has no place in the crew before `take`, and is at work when it is told so."""
        return self._start(name, SPARK, "", module, str)

    def take(self, hand: Hand) -> None:
        """Take a prepared child into the crew, under its name."""
        assert hand.name not in self._hands, f"{hand.name} is still there"
        self._hands[hand.name] = hand

    def stop(self, name: str, patience_s: float = LAST_WORDS_S) -> None:
        """Ask a child to close its client and end; wait for it."""
        self.on_end(name)
        hand = self._hands.pop(name)
        self._past.append(hand)
        self._ask_to_end(hand)
        self._see_off(hand, patience_s)

    def kill(self, name: str) -> None:
        """`kill -9`, for the child and everything that it has started."""
        self.on_end(name)
        hand = self._hands.pop(name)
        self._past.append(hand)
        kill_sessions([hand.process.pid])
        self._see_off(hand, LAST_WORDS_S)

    def stop_all(self, patience_s: float = LAST_WORDS_S) -> None:
        """Ask everybody to end, at the same time."""
        hands = list(self._hands.values())
        for hand in hands:
            self._ask_to_end(hand)
        for hand in hands:
            self.stop(hand.name, patience_s)

    def dismiss(self) -> None:
        """End whoever is left, at once."""
        for name in list(self._hands):
            self.kill(name)

    def _start(self, name: str, client: str, group: str, module: str, argument: Callable[[Path], str]) -> Hand:
        self._started += 1
        directory = self._home / f"{self._started}-{name}"
        directory.mkdir()
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"slackwater.cli.demo.{module}", argument(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=directory,
                start_new_session=True,  # Ctrl-C reaches the demo alone, which ends its children in order
                env=os.environ
                | {
                    "PYTHONWARNINGS": "ignore",
                    "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "TMPDIR": str(directory),
                },
            )
        self._janitor.see(process.pid)
        hand = Hand(name, client, group, process, directory)
        assert process.stdout is not None
        hand.thread = threading.Thread(target=self._listen, args=(hand, process.stdout), daemon=True)
        hand.thread.start()
        return hand

    def _ask_to_end(self, hand: Hand) -> None:
        if hand.client == SPARK:
            hand.tell(do="end")
        else:
            hand.process.terminate()

    def _see_off(self, hand: Hand, patience_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            hand.process.wait(patience_s)
        kill_sessions([hand.process.pid])  # also what a Spark application leaves for a moment
        hand.process.wait()
        if hand.thread is not None:
            hand.thread.join()
        for pipe in (hand.process.stdin, hand.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _listen(self, hand: Hand, lines: IO[str]) -> None:
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:  # the last line of a child that was killed
                continue
            with self._lock:
                if "say" in told:
                    hand.said.append(told)
                elif "acknowledged" in told:
                    self.acknowledged += told["acknowledged"]
                    if "topic" in told:
                        self.written[told["topic"]] += told["acknowledged"]
                else:
                    group = told.get("group", hand.group)
                    self.read[group].add(told["topic"], told["partition"], told["from"], told["until"])
                    self.readings[group, hand.name] += told["until"] - told["from"]
