"""The demo's child processes: started, stopped, killed, and asked what they have read.

Rules kept here
- No child outlives the demo: `dismiss` ends all of them, and each ends by itself when its standard input does.
"""

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import IO, Any, Final

LAST_WORDS_S: Final = 5.0


@dataclass(slots=True)
class Hand:
    """One child."""

    name: str
    client: str
    group: str
    process: subprocess.Popen[str]
    thread: threading.Thread


@dataclass(slots=True)
class Read:
    """What a group has read of its topic."""

    ranges: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def counts(self) -> tuple[int, int]:
        """How many different records were read, and how many readings were of a record read before."""
        distinct = readings = 0
        for ranges in self.ranges.values():
            readings += sum(until - start for start, until in ranges)
            reached = 0
            for start, until in sorted(ranges):
                distinct += max(until - max(start, reached), 0)
                reached = max(reached, until)
        return distinct, readings - distinct


class Crew:
    """All children of a demo."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._hands: dict[str, Hand] = {}
        self._past: list[Hand] = []
        self._lock = threading.Lock()
        self.read: dict[str, Read] = defaultdict(Read)
        self.acknowledged = 0

    def clients(self) -> dict[str, str]:
        """Which client each name stands for."""
        return {hand.name: hand.client for hand in (*self._past, *self._hands.values())}

    def counts(self) -> tuple[int, int]:
        """How many records were read, and how many of them again."""
        with self._lock:
            counts = [read.counts() for read in self.read.values()]
        return sum(read for read, _ in counts), sum(twice for _, twice in counts)

    def hire(self, name: str, client: str, topic: str, group: str = "", **config: Any) -> None:
        """Start a child."""
        given = {"name": name, "client": client, "topic": topic, "group": group, "bootstrap": self._bootstrap, **config}
        process = subprocess.Popen(
            [sys.executable, "-m", "slackwater.cli.demo.members", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the demo alone, which ends its children in order
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )
        assert process.stdout is not None
        thread = threading.Thread(target=self._listen, args=(group, process.stdout), daemon=True)
        self._hands[name] = Hand(name, client, group, process, thread)
        thread.start()

    def stop(self, name: str) -> None:
        """Ask a child to close its client and end; wait for it."""
        hand = self._hands.pop(name)
        self._past.append(hand)
        hand.process.terminate()
        self._see_off(hand)

    def kill(self, name: str) -> None:
        """`kill -9`."""
        hand = self._hands.pop(name)
        self._past.append(hand)
        hand.process.kill()
        self._see_off(hand)

    def stop_all(self) -> None:
        """Ask everybody to end, at the same time."""
        hands = list(self._hands.values())
        for hand in hands:
            hand.process.terminate()
        for hand in hands:
            self.stop(hand.name)

    def dismiss(self) -> None:
        """End whoever is left, at once."""
        for name in list(self._hands):
            self.kill(name)

    def _see_off(self, hand: Hand) -> None:
        try:
            hand.process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            hand.process.kill()
            hand.process.wait()
        hand.thread.join()
        for pipe in (hand.process.stdin, hand.process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self, group: str, lines: IO[str]) -> None:
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:  # the last line of a child that was killed
                continue
            with self._lock:
                if "acknowledged" in told:
                    self.acknowledged += told["acknowledged"]
                else:
                    ranges = self.read[group].ranges[told["topic"], told["partition"]]
                    ranges.append((told["from"], told["until"]))
