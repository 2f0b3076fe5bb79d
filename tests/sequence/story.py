"""One sequence: what is done to a group and its broker, in an order that a seed decides.

Rules kept here
- The seed decides what is done, to whom and after which pause. When things happen inside consumers and broker is up to
  the machine, and nothing here depends on it.
- Time and again the group is left alone until it has caught up with the writer; that it does so is a promise, too.
- Everything that was started is ended, also when a promise was broken.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from slackwater import Broker, Consumer
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.errors import WireError
from tests.sequence.members import Member
from tests.sequence.oracle import Oracle, Violation
from tests.sequence.writer import Writer
from tests.waiting import wait_until

TOPIC: Final = "work"
GROUP: Final = "workers"
PARTITIONS: Final = 5
MOST_MEMBERS: Final = 4
PATIENCE_S: Final = 90.0
PAUSE_S: Final = 0.25
REST_EVERY: Final = 25
STALL_S: Final = (0.9, 1.6)  # max.poll.interval.ms is between them
STRATEGIES: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
BROKER: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 3,
}
CONSUMER: Final[dict[str, object]] = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 1_000,
    "heartbeat.interval.ms": 150,
    "max.poll.interval.ms": 1_200,
    "rebalance.timeout.ms": 1_200,
    "auto.commit.interval.ms": 100,
    "default.api.timeout.ms": 5_000,
    "request.timeout.ms": 2_000,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "fetch.max.wait.ms": 50,
    "max.poll.records": 20,
}
Hire = Callable[[str, str, dict[str, object], Oracle, int], Member]


def replay_command(seed: int, actions: int) -> str:
    """The command that plays a sequence again."""
    return f".venv/bin/python -m tests.sequence --seed {seed} --actions {actions}"


@dataclass
class Account:
    """What was done, and what came of it."""

    actions: dict[str, int] = field(default_factory=dict)
    processed: int = 0
    again: int = 0
    written: int = 0

    def __str__(self) -> str:
        done = ", ".join(f"{count} × {name}" for name, count in sorted(self.actions.items()))
        return f"{done}; {self.written} records written, {self.processed} processed, {self.again} of them again"


class Story:
    """A broker, a writer, members that come and go, and what is done to them."""

    def __init__(self, seed: int, *, hire: Hire = Member, tell: Callable[[str], object] = print) -> None:
        self._dice = random.Random(seed)
        self._tell = tell
        self._hire = hire
        self.account = Account()
        self.oracle = Oracle()
        self._members: dict[str, Member] = {}
        self._gone: list[Member] = []
        self._hired = 0
        self._stack = ExitStack()
        self._is_static = self._dice.random() < 0.3
        self._strategy = self._dice.choice(STRATEGIES)

    def play(self, actions: int) -> Account:
        """Do all of it, and check everything."""
        self._tell(f"{self._strategy}, {'static' if self._is_static else 'dynamic'} members")
        with self._stack:
            self._start()
            for number in range(1, actions + 1):
                self._act(number)
                if number % REST_EVERY == 0:
                    self._rest()
            self._finish()
        return self.account

    # --- begin and end ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._broker = self._stack.enter_context(Broker(process=True, settings=BROKER))
        self._broker.create_topic(TOPIC, PARTITIONS)
        self._writer = Writer(self._broker.bootstrap_servers, TOPIC, PARTITIONS)
        self._stack.callback(self._writer.close)
        self._stack.callback(self._clear)
        self._watching = threading.Event()
        watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        watcher.start()
        self._stack.callback(watcher.join)
        self._stack.callback(self._watching.set)
        self._join()

    def _clear(self) -> None:
        """End whoever still lives; what they had to say was heard before."""
        for member in self._members.values():
            member.kill()

    def _finish(self) -> None:
        """Leave the group in peace until everything is read and committed; then count."""
        self._writer.finish()
        self._rest()
        ends = self._writer.ends()
        self._until(lambda: self._committed() == ends, "not everything was committed")
        for name in list(self._members):
            self._leave(name)
        for member in self._gone:
            member.end()
        self.oracle.check()
        self._compare(ends)
        self.account.processed, self.account.again = self.oracle.processed_count, self.oracle.reprocessed_count

    def _compare(self, ends: dict[TopicPartition, int]) -> None:
        """The log holds what was acknowledged, in order, and the group has seen all of it."""
        with Consumer({"bootstrap.servers": self._broker.bootstrap_servers, "auto.offset.reset": "earliest"}) as one:
            one.assign(list(ends))
            found: dict[TopicPartition, list[int]] = {partition: [] for partition in ends}

            def read() -> bool:
                for record in one.poll(0.2):
                    found[record.topic_partition].append(int(record.value or b""))
                return all(one.position(partition) >= end for partition, end in ends.items())

            wait_until(read, lambda: {partition: len(numbers) for partition, numbers in found.items()}, PATIENCE_S)
        for partition, numbers in found.items():
            if numbers != sorted(self._writer.written[partition]):
                raise Violation(f"{partition} does not hold the records that were acknowledged, once and in order")
            self.account.written += len(numbers)
        if not self.oracle.is_done(ends):
            raise Violation(f"the log ends at {ends}, but the group has come to {self.oracle.progress()}")

    # --- watching -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Ask the broker again and again what is committed, as long as it is there."""
        while not self._watching.wait(0.02):
            with suppress(SlackwaterError, OSError, Violation):
                floors = self.oracle.floors()
                self.oracle.check_committed(self._committed(), floors)

    def _committed(self) -> dict[TopicPartition, int]:
        try:
            return self._broker.committed(GROUP)
        except WireError as error:
            raise ConnectionError("the broker was ended in the middle of its answer") from error

    def _check(self) -> None:
        self.oracle.check()
        self._writer.check()
        for member in (*self._members.values(), *self._gone):
            if member.failure is not None:
                raise member.failure

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def held() -> bool:
            self._check()
            with suppress(OSError):  # the broker may be on its way back
                return condition()
            return False

        wait_until(held, lambda: f"{what}: {self.oracle.progress()} of {self._writer.ends()}", PATIENCE_S)

    def _rest(self) -> None:
        """Wait until the group, of one member at least, has caught up with what is acknowledged now."""
        if not self._members:
            self._join()
        ends = self._writer.ends()
        self._until(lambda: self.oracle.is_done(ends), "the group did not catch up")

    # --- what is done -------------------------------------------------------------------------------------------------

    def _act(self, number: int) -> None:
        self._check()
        threading.Event().wait(self._dice.uniform(0, PAUSE_S))
        what, work = self._choose()
        self.account.actions[what] = self.account.actions.get(what, 0) + 1
        self._tell(f"{number}: {what}{work()}")

    def _choose(self) -> tuple[str, Callable[[], str]]:
        free = len(self._members) < MOST_MEMBERS
        choices: Sequence[tuple[int, str, Callable[[], str]]] = (
            (30 if free else 0, "join", self._join),
            (15 if self._members else 0, "leave", lambda: self._leave(self._somebody())),
            (20 if self._members else 0, "stall", lambda: self._stall(self._somebody())),
            (15 if self._members else 0, "kill", lambda: self._kill(self._somebody())),
            (5, "broker restart", lambda: self._restart(clean=True)),
            (5, "broker kill -9", lambda: self._restart(clean=False)),
        )
        ((_, what, work),) = self._dice.choices(choices, [weight for weight, _, _ in choices])
        return what, work

    def _somebody(self) -> str:
        return self._dice.choice(sorted(self._members))

    def _join(self) -> str:
        seat = next(n for n in range(MOST_MEMBERS) if all(not name.endswith(f"-{n}") for name in self._members))
        self._hired += 1
        name = f"member-{self._hired}-{seat}"
        settings = CONSUMER | {
            "bootstrap.servers": self._broker.bootstrap_servers,
            "partition.assignment.strategy": self._strategy,
        }
        if self._is_static:
            settings["group.instance.id"] = f"seat-{seat}"
        member = self._members[name] = self._hire(name, TOPIC, settings, self.oracle, self._dice.randrange(2**32))
        return f" {name} ({member.way})"

    def _leave(self, name: str) -> str:
        member = self._members.pop(name)
        member.leave()
        self._gone.append(member)
        return f" {name}"

    def _stall(self, name: str) -> str:
        seconds = self._dice.uniform(*STALL_S)
        self._members[name].stall(seconds)
        return f" {name} {seconds:.2f} s"

    def _kill(self, name: str) -> str:
        member = self._members.pop(name)
        member.kill()
        self._gone.append(member)
        return f" {name}"

    def _restart(self, *, clean: bool) -> str:
        self._broker.restart(clean=clean)
        return ""


def play(
    seed: int, actions: int, *, hire: Hire = Member, tell: Callable[[str], object] = lambda _line: None
) -> Account:
    """Play one sequence; a broken promise says how to play it again."""
    try:
        return Story(seed, hire=hire, tell=tell).play(actions)
    except BaseException as error:
        error.add_note(f"seed {seed}; replay: {replay_command(seed, actions)}")
        raise
