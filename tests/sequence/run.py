"""One sequence of random actions on a group and its broker.

Invariants:
- The seed determines the actions, their members and the pauses. The timing inside consumers and broker may vary.
- After every REST_EVERY actions the group must catch up with the writer.
- All members, the writer and the broker are stopped at the end, also after a violation.
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
MAX_MEMBERS: Final = 4
TIMEOUT_S: Final = 90.0
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
NewMember = Callable[[str, str, dict[str, object], Oracle, int], Member]


def replay_command(seed: int, actions: int) -> str:
    """Return the command that repeats a sequence."""
    return f".venv/bin/python -m tests.sequence --seed {seed} --actions {actions}"


@dataclass
class Summary:
    """The actions and their results."""

    actions: dict[str, int] = field(default_factory=dict)
    processed: int = 0
    reprocessed: int = 0
    written: int = 0

    def __str__(self) -> str:
        done = ", ".join(f"{count} × {name}" for name, count in sorted(self.actions.items()))
        return f"{done}; {self.written} records written, {self.processed} processed, {self.reprocessed} of them again"


class SequenceRun:
    """A broker, a writer, members, and random actions on them."""

    def __init__(self, seed: int, *, new_member: NewMember = Member, log: Callable[[str], object] = print) -> None:
        self._rng = random.Random(seed)
        self._log = log
        self._new_member = new_member
        self.summary = Summary()
        self.oracle = Oracle()
        self._members: dict[str, Member] = {}
        self._ended: list[Member] = []
        self._member_count = 0
        self._stack = ExitStack()
        self._is_static = self._rng.random() < 0.3
        self._strategy = self._rng.choice(STRATEGIES)

    def run(self, actions: int) -> Summary:
        """Perform the actions and check all guarantees."""
        self._log(f"{self._strategy}, {'static' if self._is_static else 'dynamic'} members")
        with self._stack:
            self._start()
            for number in range(1, actions + 1):
                self._act(number)
                if number % REST_EVERY == 0:
                    self._rest()
            self._finish()
        return self.summary

    # --- start and end ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._broker = self._stack.enter_context(Broker(process=True, settings=BROKER))
        self._broker.create_topic(TOPIC, PARTITIONS)
        self._writer = Writer(self._broker.bootstrap_servers, TOPIC, PARTITIONS)
        self._stack.callback(self._writer.close)
        self._stack.callback(self._kill_all)
        self._watching = threading.Event()
        watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        watcher.start()
        self._stack.callback(watcher.join)
        self._stack.callback(self._watching.set)
        self._join()

    def _kill_all(self) -> None:
        """Kill the remaining members; their errors were checked before."""
        for member in self._members.values():
            member.kill()

    def _finish(self) -> None:
        """Wait until everything is processed and committed, then check the totals."""
        self._writer.finish()
        self._rest()
        ends = self._writer.ends()
        self._until(lambda: self._committed() == ends, "not everything was committed")
        for name in list(self._members):
            self._leave(name)
        for member in self._ended:
            member.end()
        self.oracle.check()
        self._compare(ends)
        self.summary.processed, self.summary.reprocessed = self.oracle.processed_count, self.oracle.reprocessed_count

    def _compare(self, ends: dict[TopicPartition, int]) -> None:
        """Check that the log has the acknowledged records in order, and that the group processed all."""
        with Consumer(
            {"bootstrap.servers": self._broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        ) as consumer:
            consumer.assign(list(ends))
            numbers_read: dict[TopicPartition, list[int]] = {partition: [] for partition in ends}

            def read() -> bool:
                for record in consumer.poll(0.2):
                    numbers_read[record.topic_partition].append(int(record.value or b""))
                return all(consumer.position(partition) >= end for partition, end in ends.items())

            wait_until(
                read, lambda: {partition: len(numbers) for partition, numbers in numbers_read.items()}, TIMEOUT_S
            )
        for partition, numbers in numbers_read.items():
            if numbers != sorted(self._writer.written[partition]):
                raise Violation(f"{partition} does not hold the records that were acknowledged, once and in order")
            self.summary.written += len(numbers)
        if not self.oracle.is_done(ends):
            raise Violation(f"the log ends at {ends}, but the group has processed {self.oracle.progress()}")

    # --- watching -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Check the committed offsets of the broker repeatedly."""
        while not self._watching.wait(0.02):
            with suppress(SlackwaterError, OSError, Violation):
                floors = self.oracle.floors()
                self.oracle.check_committed(self._committed(), floors)

    def _committed(self) -> dict[TopicPartition, int]:
        try:
            return self._broker.committed(GROUP)
        except WireError as error:
            raise ConnectionError("the broker ended during its response") from error

    def _check(self) -> None:
        self.oracle.check()
        self._writer.check()
        for member in (*self._members.values(), *self._ended):
            if member.failure is not None:
                raise member.failure

    def _until(self, condition: Callable[[], bool], failure: str) -> None:
        def is_satisfied() -> bool:
            self._check()
            with suppress(OSError):  # the broker may be restarting
                return condition()
            return False

        wait_until(is_satisfied, lambda: f"{failure}: {self.oracle.progress()} of {self._writer.ends()}", TIMEOUT_S)

    def _rest(self) -> None:
        """Wait until the group, with at least one member, has processed all acknowledged records."""
        if not self._members:
            self._join()
        ends = self._writer.ends()
        self._until(lambda: self.oracle.is_done(ends), "the group did not catch up")

    # --- actions ------------------------------------------------------------------------------------------------------

    def _act(self, number: int) -> None:
        self._check()
        threading.Event().wait(self._rng.uniform(0, PAUSE_S))
        action, work = self._choose()
        self.summary.actions[action] = self.summary.actions.get(action, 0) + 1
        self._log(f"{number}: {action}{work()}")

    def _choose(self) -> tuple[str, Callable[[], str]]:
        can_join = len(self._members) < MAX_MEMBERS
        choices: Sequence[tuple[int, str, Callable[[], str]]] = (
            (30 if can_join else 0, "join", self._join),
            (15 if self._members else 0, "leave", lambda: self._leave(self._random_member())),
            (20 if self._members else 0, "stall", lambda: self._stall(self._random_member())),
            (15 if self._members else 0, "kill", lambda: self._kill(self._random_member())),
            (5, "broker restart", lambda: self._restart(clean=True)),
            (5, "broker kill -9", lambda: self._restart(clean=False)),
        )
        ((_, action, work),) = self._rng.choices(choices, [weight for weight, _, _ in choices])
        return action, work

    def _random_member(self) -> str:
        return self._rng.choice(sorted(self._members))

    def _join(self) -> str:
        slot = next(n for n in range(MAX_MEMBERS) if all(not name.endswith(f"-{n}") for name in self._members))
        self._member_count += 1
        name = f"member-{self._member_count}-{slot}"
        settings = CONSUMER | {
            "bootstrap.servers": self._broker.bootstrap_servers,
            "partition.assignment.strategy": self._strategy,
        }
        if self._is_static:
            settings["group.instance.id"] = f"instance-{slot}"
        member = self._members[name] = self._new_member(name, TOPIC, settings, self.oracle, self._rng.randrange(2**32))
        return f" {name} ({member.commit_mode})"

    def _leave(self, name: str) -> str:
        member = self._members.pop(name)
        member.leave()
        self._ended.append(member)
        return f" {name}"

    def _stall(self, name: str) -> str:
        seconds = self._rng.uniform(*STALL_S)
        self._members[name].stall(seconds)
        return f" {name} {seconds:.2f} s"

    def _kill(self, name: str) -> str:
        member = self._members.pop(name)
        member.kill()
        self._ended.append(member)
        return f" {name}"

    def _restart(self, *, clean: bool) -> str:
        self._broker.restart(clean=clean)
        return ""


def run_sequence(
    seed: int, actions: int, *, new_member: NewMember = Member, log: Callable[[str], object] = lambda _line: None
) -> Summary:
    """Run one sequence; an error has a note with the command that repeats it."""
    try:
        return SequenceRun(seed, new_member=new_member, log=log).run(actions)
    except BaseException as error:
        error.add_note(f"seed {seed}; replay: {replay_command(seed, actions)}")
        raise
