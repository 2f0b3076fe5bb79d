"""Random schedules for queries that share a group, and an oracle that counts what became of every record.

What is counted
- The group's offset passes nothing that is not in a sink; with handover=handoff, nothing that is not at least in a
  checkpoint.
- In the end everything is in a sink, and committed.
- A record is in two batches only where the documentation says so: it was in a batch that was logged and not committed
  when its run died, was stopped or was thrown out of the group, or, with handover=release or after a handover timeout,
  when its partition left; or an operator had moved the group's offset back. A static application that is back in the
  same generation has lost nothing, and repeats nothing. One run never reads a record twice.

A run depends on its seed alone:  .venv/bin/python -m tests.spark.schedules wait 7
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slackwater.group.assignors import assignor
from slackwater.group.batches.commit_marker import CommitMarker
from slackwater.group.batches.config import BatchConfig, Handover
from slackwater.group.batches.effects import BatchEvent, BatchEventKind
from slackwater.group.coordinator import AppendRecords, CommittedOffset, CoordinatorConfig
from slackwater.group.errors import Error
from slackwater.group.events import GroupEvent
from slackwater.group.member import MemberConfig, MemberState, OffsetAndMetadata, RebalanceDriver
from slackwater.group.messages import OffsetCommit, OffsetToCommit
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.broker import SimBroker
from slackwater.sim.checkers import Checker, Violation
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom
from tests.spark.fake_spark import Checkpoint, FakeQuery, Habits

GROUP: Final = "tide"
TOPIC: Final = "orders"
STORY_LINES: Final = 80
MOST_PARTITIONS: Final = 6
MOST_APPS: Final = 4
NEVER: Final = -2


class Fault(StrEnum):
    """What can go wrong, or at least change."""

    KILL = "an application dies"
    RESTART = "an application dies and is started again"
    STOP = "an application is stopped and started again"
    STALL = "the source's process stands still"
    LONG_BATCH = "a batch takes long"
    CUT = "an application is cut off"
    LOSE_ANSWERS = "answers to an application are lost"
    SCALE_OUT = "an application is added"
    ENFORCE = "somebody asks for a rebalance"
    ADD_PARTITIONS = "the topic grows"
    BROKER_CRASH = "the broker dies and comes back"
    FAILOVER = "the coordinator reloads"
    REFUSE_WRITES = "the coordinator's log refuses writes"
    RESET = "all are stopped, and an operator moves the group back"


_FAULTS: Final = (
    *[Fault.RESTART] * 4,
    *[Fault.SCALE_OUT] * 4,
    *[Fault.LONG_BATCH] * 3,
    *[Fault.STOP] * 2,
    *[Fault.KILL, Fault.STALL, Fault.CUT, Fault.LOSE_ANSWERS, Fault.ENFORCE, Fault.ADD_PARTITIONS],
    *[Fault.BROKER_CRASH, Fault.FAILOVER, Fault.REFUSE_WRITES, Fault.RESET],
)


@dataclass(frozen=True, slots=True)
class Mishap:
    """One fault: when, to whom, for how long."""

    at_ms: int
    fault: Fault
    whom: int
    length_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Everything a run needs."""

    seed: int
    handover: Handover
    assignor: str
    static: bool
    apps: int
    partitions: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    handover_timeout_ms: int
    max_delay_ms: int
    chaos_ms: int
    habits: Habits
    faults: tuple[Mishap, ...]

    @property
    def settle_ms(self) -> int:
        """How long until everything must be read and committed after the last fault."""
        return 3 * (self.session_timeout_ms + self.rebalance_timeout_ms) + 30_000


def schedule(seed: int, handover: Handover) -> Schedule:
    """The schedule of a seed."""
    random = SeededRandom(f"schedule {seed}")
    chaos_ms = random.between(8_000, 25_000)
    session_ms = 6_000
    faults = sorted(
        (
            Mishap(
                random.between(500, chaos_ms),
                random.pick(_FAULTS),
                random.between(0, 99),
                random.pick((random.between(10, 2_000), session_ms + random.between(-1_500, 2_500), 2 * session_ms)),
            )
            for _ in range(random.between(1, 6))
        ),
        key=lambda fault: fault.at_ms,
    )
    return Schedule(
        seed=seed,
        handover=handover,
        assignor="range" if random.chance(0.1) else "cooperative-sticky",
        static=random.chance(0.45),
        apps=random.between(1, 3),
        partitions=random.between(1, 4),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=random.pick((6_000, 8_000)),
        handover_timeout_ms=random.pick((3_000, 600_000, 600_000)),
        max_delay_ms=random.pick((2, 20, 150)),
        chaos_ms=chaos_ms,
        habits=Habits(
            trigger_ms=random.pick((50, 500, 3_000)),
            work_ms=random.pick((300, 1_500, 5_000)),
            log_ms=random.pick((5, 60, 800)),
            max_offsets=random.pick((None, None, 20)),
            listener=random.chance(0.7),
        ),
        faults=tuple(faults),
    )


class Oracle(Checker):
    """Counts what became of every record."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)  # type: ignore[arg-type]  # it looks at nothing but the time
        self.world = world
        self.handoff = world.plan.handover is Handover.HANDOFF
        self.sinks: dict[TopicPartition, dict[int, set[tuple[str, int]]]] = {}
        self.by_run: dict[tuple[str, TopicPartition], dict[int, int]] = {}
        self.promised: dict[TopicPartition, set[int]] = {}
        self.excused: dict[TopicPartition, set[int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.logged: dict[tuple[str, int], list[OffsetRange]] = {}  # by application and batch
        self.by_app: dict[tuple[str, TopicPartition], int] = {}  # what an application has committed last
        self.absent: dict[
            str, tuple[int, list[OffsetRange]]
        ] = {}  # of static applications: excused unless back in time
        self.skipped: dict[TopicPartition, int] = {}  # by an operator, who knows nothing of what was handed off
        self.counts: Counter[str] = Counter()

    # --- what queries do ----------------------------------------------------------------------------------------------

    def began(self, run: FakeQuery, seq: int, ranges: Sequence[OffsetRange]) -> None:
        app = run.checkpoint.app
        self.logged[app, seq] = [one for one in ranges if one.size]
        for one in ranges:
            self.promised.setdefault(one.topic_partition, set()).update(range(one.from_offset, one.until_offset))
            seen = self.by_run.setdefault((run.name, one.topic_partition), {})
            for offset in range(one.from_offset, one.until_offset):
                if offset in seen and not self.world.was_reset:
                    self.fail(
                        f"{run.name} reads {one.topic_partition}@{offset} in batch {seq}, and has in {seen[offset]}"
                    )
                seen[offset] = seq

    def sunk(self, run: FakeQuery, seq: int, ranges: Sequence[OffsetRange]) -> None:
        self.counts["batches"] += 1
        for one in ranges:
            sink = self.sinks.setdefault(one.topic_partition, {})
            for offset in range(one.from_offset, one.until_offset):
                sink.setdefault(offset, set()).add((run.checkpoint.app, seq))

    def gone(self, run: FakeQuery, partitions: Iterable[TopicPartition], how: str) -> None:
        """What is logged and not committed may be read again by others, if the rules allow it."""
        app = run.checkpoint.app
        if how == "revoked" and self.world.plan.handover is not Handover.RELEASE and not self._eager:
            return  # it waited, or was handed off; what timed out is excused where that is told
        mine = set(partitions)
        ended = how in ("killed", "stopped")
        unseen = [] if run.planned is None or how == "revoked" else list(run.planned.ranges.values())
        open_ones = [
            one
            for ranges in [unseen, *(ranges for (name, _), ranges in self.logged.items() if name == app)]
            for one in ranges
            if self.by_app.get((app, one.topic_partition), 0) < one.until_offset
            and (ended or one.topic_partition in mine)
        ]
        if ended and run.config.group_instance_id is not None:
            at_rest = run.member.state is MemberState.STABLE and not run.member.needs_rejoin
            generation_id = run.member.generation_id if at_rest else NEVER
            self.absent.setdefault(app, (generation_id, []))[1].extend(open_ones)
        else:
            self._excuse(open_ones)

    @property
    def _eager(self) -> bool:
        return self.world.plan.assignor == "range"

    def came_back(self, app: str, generation_id: int) -> None:
        """A static application is in the group again; if in the same generation, then nobody has had its partitions."""
        before, open_ones = self.absent.pop(app, (generation_id, []))
        if before != generation_id:
            self._excuse(open_ones)

    def _excuse(self, ranges: Iterable[OffsetRange]) -> None:
        for one in ranges:
            self.excused.setdefault(one.topic_partition, set()).update(range(one.from_offset, one.until_offset))

    def joined(self, run: FakeQuery, generation_id: int) -> None:
        self.came_back(run.checkpoint.app, generation_id)

    def happened(self, run: FakeQuery, what: BatchEvent) -> None:
        self.counts[what.kind.name] += 1
        self.world.note(
            f"{run.name}: {what.partition} {what.kind.value} {what.offset} {what.previous_offset} {what.duration_ms}"
        )
        if what.kind is BatchEventKind.HANDOVER_TIMED_OUT:
            planned = run.planned.ranges.values() if run.planned is not None else ()
            self._excuse(one for one in (*run.reading, *planned) if one.topic_partition == what.partition)

    # --- what the coordinator does ------------------------------------------------------------------------------------

    def on_written(self, append: AppendRecords, error: Error) -> None:
        for record in append.records if error is Error.NONE else ():
            if isinstance(record, CommittedOffset) and record.value is not None:
                partition = TopicPartition(record.topic, record.partition)
                mark = CommitMarker.parse(OffsetAndMetadata(record.value.offset, metadata=record.value.metadata))
                if mark is not None:
                    self.by_app[mark.token.split(".")[0], partition] = record.value.offset
                self._committed(partition, record.value.offset)

    def _committed(self, partition: TopicPartition, offset: int) -> None:
        before = self.committed.get(partition, 0)
        self.world.note(f"{partition} is committed at {offset}")
        if offset < before and not self.world.resetting:
            self.fail(f"{partition} was committed at {before} and now at {offset}")
        sink, promised = self.sinks.get(partition, {}), self.promised.get(partition, set())
        for each in range(before, offset):
            if each not in sink and not (self.handoff and each in promised):
                self.fail(f"{partition} was committed at {offset}, and {each} is in no sink")
        self.committed[partition] = offset

    def on_event(self, event: GroupEvent) -> None:
        self.world.note(f"  {event.kind} gen={event.generation} {event.trigger or ''} {event.member or ''}")

    # --- in the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        for app in list(self.absent):
            self.came_back(app, NEVER)
        for partition, end in self.world.broker.ends.items():
            sink = self.sinks.get(partition, {})
            skipped = self.skipped.get(partition, 0)
            missing = [offset for offset in range(skipped, end) if offset not in sink]
            if missing:
                self.fail(f"{partition} has {end} records, and {missing} are in no sink")
            if self.committed.get(partition, 0) != end:
                self.fail(f"{partition} has {end} records, and {self.committed.get(partition, 0)} is committed")
            excused = self.excused.get(partition, set())
            for offset, batches in sink.items():
                self.counts["records"] += 1
                self.counts["duplicates"] += len(batches) - 1
                if len(batches) > 1 and offset not in excused:
                    self.fail(f"{partition} at {offset} is in the batches {sorted(batches)}, and nothing excuses it")


class World:
    """Runs a schedule, once."""

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.queue = EventQueue()
        self.random = SeededRandom(f"run {plan.seed}")
        config = CoordinatorConfig(
            offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0, new_member_join_timeout_ms=60_000
        )
        self.broker = SimBroker(self.queue, self.random, config, GROUP)
        self.story: list[str] = []
        self.oracle = Oracle(self)
        self.broker.checkers = [self.oracle]
        self.checkpoints: list[Checkpoint] = []
        self.runs: dict[str, FakeQuery] = {}  # by application: the last one
        self.resetting = False
        self.was_reset = False

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.queue.now_ms

    def note(self, what: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.now_ms:>7} ms  {what}")

    def run(self) -> None:
        """Play the schedule to its end; a broken promise raises `Violation`."""
        for number in range(self.plan.partitions):
            self.broker.ends[TopicPartition(TOPIC, number)] = self.random.between(0, 4)
        for _ in range(self.plan.apps):
            self._add_app(self.random.between(0, 1_000))
        for fault in self.plan.faults:
            self.queue.at(fault.at_ms, lambda fault=fault: self._inject_fault(fault))  # type: ignore[misc]
        self.queue.after(300, self._produce)
        self.queue.run_until(self.plan.chaos_ms)
        self._heal()
        deadline_ms = self.now_ms + self.plan.settle_ms
        self.queue.run_until(self.now_ms + self.plan.session_timeout_ms + 8_000)
        while self.now_ms < deadline_ms and not self._is_at_rest():
            self.queue.run_until(self.now_ms + 1_000)
        for run in self.runs.values():
            if run.fatal is not None and not run.is_fenced:
                raise Violation("OnlyFencedMembersFail", self.now_ms, f"{run.name} ended with {run.fatal!r}")
        self.oracle.finish()

    def _is_at_rest(self) -> bool:
        unfinished = any(run.alive and run.reading_seq > run.checkpoint.finished for run in self.runs.values())
        return not unfinished and all(
            self.broker.committed.get(at) == end for at, end in self.broker.ends.items() if end
        )

    def _produce(self) -> None:
        for partition in self.broker.ends:
            self.broker.ends[partition] += self.random.between(0, 2)
        if self.now_ms < self.plan.chaos_ms:
            self.queue.after(self.random.between(200, 800), self._produce)

    # --- applications -------------------------------------------------------------------------------------------------

    def _add_app(self, delay_ms: int) -> None:
        checkpoint = Checkpoint(f"a{len(self.checkpoints)}")
        self.checkpoints.append(checkpoint)
        self.queue.after(delay_ms, lambda: self._start(checkpoint))

    def _start(self, checkpoint: Checkpoint) -> None:
        plan = self.plan
        before = self.runs.get(checkpoint.app)
        if before is not None and before.alive:
            if not before.stopping:
                return
            before.kill()
        instance = f"i-{checkpoint.app}" if plan.static else None
        config = MemberConfig(
            group_id=GROUP,
            client_id=checkpoint.app,
            group_instance_id=instance,
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=1_000,
            rebalance_timeout_ms=plan.rebalance_timeout_ms,
            request_timeout_ms=2_000,
            default_api_timeout_ms=4_000,
            enable_auto_commit=False,
            assignors=(assignor(plan.assignor),),
            driver=RebalanceDriver.BACKGROUND,
        )
        batches = BatchConfig(handover=plan.handover, handover_timeout_ms=plan.handover_timeout_ms)
        world = self.queue, self.random, self.broker
        run = FakeQuery(checkpoint, config, batches, plan.habits, TOPIC, world, self.oracle)
        run.link.max_delay_ms = plan.max_delay_ms
        self.runs[checkpoint.app] = run
        self.note(f"{run.name} starts")

    # --- faults ------------------------------------------------------------------------------------------------------

    def _inject_fault(self, fault: Mishap) -> None:
        live = [run for run in self.runs.values() if run.alive and not run.stopping]
        if not live or self.resetting:
            return
        run = live[fault.whom % len(live)]
        length_ms, checkpoint = fault.length_ms, run.checkpoint
        self.note(f"{fault.fault} ({run.name}, {length_ms} ms)")
        match fault.fault:
            case Fault.KILL:
                run.kill()
                if self.plan.handover is Handover.HANDOFF:  # which rests on the checkpoint being restarted
                    self.queue.after(4 * length_ms, lambda: self._start(checkpoint))
            case Fault.RESTART:
                run.kill()
                self.queue.after(length_ms // 2, lambda: self._start(checkpoint))
            case Fault.STOP:
                run.stop()
                self.queue.after(length_ms // 2 + 200, lambda: self._start(checkpoint))
            case Fault.STALL:
                run.stall(length_ms)
            case Fault.LONG_BATCH:
                run.extra_work_ms = length_ms
            case Fault.CUT:
                run.link.to_broker = run.link.from_broker = False
                self.queue.after(length_ms, lambda: self._mend(run))
            case Fault.LOSE_ANSWERS:
                run.link.from_broker = False
                self.queue.after(length_ms, lambda: self._mend(run))
            case Fault.SCALE_OUT:
                if len(self.checkpoints) < MOST_APPS:
                    self._add_app(0)
            case Fault.ENFORCE:
                run.enforce_rebalance()
            case Fault.ADD_PARTITIONS:
                if len(self.broker.ends) < MOST_PARTITIONS:
                    self.broker.ends[TopicPartition(TOPIC, len(self.broker.ends))] = 0
            case Fault.BROKER_CRASH:
                if self.broker.up:
                    self.broker.crash()
                    self.queue.after(min(length_ms, 3_000), self._restart_broker)
            case Fault.FAILOVER:
                self.broker.fail_over(min(length_ms, 1_500))
            case Fault.REFUSE_WRITES:
                self.broker.fail_writes = True
                self.queue.after(min(length_ms, 3_000), self._accept_writes)
            case Fault.RESET:
                self._reset(live)

    def _reset(self, live: list[FakeQuery]) -> None:
        """An operator stops everybody, waits until the group is empty, moves it back, and starts everybody again."""
        self.resetting = True
        for run in live:
            run.stop()
        for run in live:
            self.queue.after(2_500, run.kill)
        self.queue.after(self.plan.session_timeout_ms + 5_000, lambda: self._move_back(live))

    def _move_back(self, live: list[FakeQuery]) -> None:
        committed = dict(self.broker.committed)
        if self.broker.members or not self.broker.up or self.broker.fail_writes or not committed:
            self.note("the operator gives up")
        else:
            self.was_reset = True
            moved = {at: self.random.between(0, offset) for at, offset in sorted(committed.items())}
            for at, offset in moved.items():
                if self.plan.handover is Handover.HANDOFF:
                    self.oracle.skipped[at] = offset
                if offset < committed[at]:
                    self.oracle._excuse([OffsetRange(*at, offset, self.broker.ends[at])])
            offsets = tuple(OffsetToCommit(at.topic, at.partition, offset, -1, "") for at, offset in moved.items())
            request = OffsetCommit(GROUP, "", None, -1, offsets)
            self.broker.receive(request, "/operator", lambda _answer: None, lambda: None)
        self.queue.after(500, self._reset_is_over)
        for run in live:
            self.queue.after(600, lambda run=run: self._start(run.checkpoint))  # type: ignore[misc]

    def _reset_is_over(self) -> None:
        self.resetting = False

    def _mend(self, run: FakeQuery) -> None:
        run.link.to_broker = run.link.from_broker = True

    def _restart_broker(self) -> None:
        if not self.broker.up:
            self.broker.start()

    def _accept_writes(self) -> None:
        self.broker.fail_writes = False

    def _heal(self) -> None:
        self._restart_broker()
        self._accept_writes()
        for run in self.runs.values():
            self._mend(run)
        self.queue.after(self.plan.session_timeout_ms + 6_000, self._revive)

    def _revive(self) -> None:
        """Somebody must be there; with handoff, everybody whose checkpoint promises something."""
        for checkpoint in self.checkpoints:
            run = self.runs.get(checkpoint.app)
            dead = run is None or not run.alive
            nobody = not any(one.alive and not one.stopping for one in self.runs.values())
            if dead and (nobody or self.plan.handover is Handover.HANDOFF):
                self._start(checkpoint)
        if self.plan.static:
            for run in self.runs.values():
                run.enforce_rebalance()  # a static leader that returned skipped the assignment, and new partitions


def play(seed: int, handover: Handover) -> tuple[World, str | None]:
    """Run one seed; the answer is what went wrong, if anything did."""
    world = World(schedule(seed, handover))
    try:
        world.run()
    except Violation as violation:
        return world, str(violation)
    except Exception as error:
        return world, f"{type(error).__name__}: {error}"
    return world, None


def report(world: World, what: str) -> str:
    """What to show: the promise, how it came to it, and the command that plays it again."""
    plan = world.plan
    command = f".venv/bin/python -m tests.spark.schedules {plan.handover.value} {plan.seed}"
    return "\n".join([f"seed {plan.seed}: {what}", *world.story[-STORY_LINES:], f"replay: {command}"])


if __name__ == "__main__":
    played, failed = play(int(sys.argv[2]), Handover(sys.argv[1]))
    print(played.plan)
    print("\n".join(played.story))
    print(failed or f"nothing broke: {dict(played.oracle.counts)}")
    sys.exit(failed is not None)
