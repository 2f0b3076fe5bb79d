"""Random schedules for queries that share a group, and a checker that accounts for every record.

Checks:
- The committed offset passes no record that is not in a sink; with handover=handoff, none that is not at least in a
  checkpoint.
- At the end every record is in a sink and committed.
- A record is in two batches only where the documentation allows it: its batch was logged and not committed when the run
  died, was stopped or was removed from the group, or, with handover=release or after a handover timeout, when its
  partition was revoked; or an operator moved the committed offset back. A static application that returns in the same
  generation loses and repeats nothing. One run never reads a record twice.

A run depends only on its seed:  .venv/bin/python -m tests.spark.schedules wait 7
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slackwater.group.assignors import get_assignor
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
from tests.spark.fake_spark import Checkpoint, FakeQuery, QueryBehavior

GROUP: Final = "orders"
TOPIC: Final = "orders"
REPORT_LINES: Final = 80
MAX_PARTITIONS: Final = 6
MAX_APPS: Final = 4
NEVER: Final = -2


class Fault(StrEnum):
    """The faults and changes of a schedule."""

    KILL = "an application dies"
    RESTART = "an application dies and is started again"
    STOP = "an application is stopped and started again"
    STALL = "the source's process is blocked"
    LONG_BATCH = "a batch takes long"
    DISCONNECT = "an application is disconnected"
    LOSE_RESPONSES = "responses to an application are lost"
    SCALE_OUT = "an application is added"
    ENFORCE = "a rebalance is requested"
    ADD_PARTITIONS = "the topic grows"
    BROKER_CRASH = "the broker dies and restarts"
    FAILOVER = "the coordinator reloads"
    REFUSE_WRITES = "the coordinator's log refuses writes"
    RESET = "all applications are stopped, and an operator moves the committed offsets back"


_FAULTS: Final = (
    *[Fault.RESTART] * 4,
    *[Fault.SCALE_OUT] * 4,
    *[Fault.LONG_BATCH] * 3,
    *[Fault.STOP] * 2,
    *[Fault.KILL, Fault.STALL, Fault.DISCONNECT, Fault.LOSE_RESPONSES, Fault.ENFORCE, Fault.ADD_PARTITIONS],
    *[Fault.BROKER_CRASH, Fault.FAILOVER, Fault.REFUSE_WRITES, Fault.RESET],
)


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """One fault: its time, its application and its duration."""

    at_ms: int
    fault: Fault
    application: int
    length_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The parameters of a run."""

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
    fault_phase_ms: int
    behavior: QueryBehavior
    faults: tuple[ScheduledFault, ...]

    @property
    def settle_ms(self) -> int:
        """The time after the last fault by which all records must be read and committed."""
        return 3 * (self.session_timeout_ms + self.rebalance_timeout_ms) + 30_000


def schedule(seed: int, handover: Handover) -> Schedule:
    """The schedule of a seed."""
    random = SeededRandom(f"schedule {seed}")
    fault_phase_ms = random.between(8_000, 25_000)
    session_ms = 6_000
    faults = sorted(
        (
            ScheduledFault(
                random.between(500, fault_phase_ms),
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
        fault_phase_ms=fault_phase_ms,
        behavior=QueryBehavior(
            trigger_ms=random.pick((50, 500, 3_000)),
            work_ms=random.pick((300, 1_500, 5_000)),
            log_ms=random.pick((5, 60, 800)),
            max_offsets=random.pick((None, None, 20)),
            listener=random.chance(0.7),
        ),
        faults=tuple(faults),
    )


class RecordChecker(Checker):
    """Accounts for every record."""

    def __init__(self, schedule_run: "ScheduleRun") -> None:
        super().__init__(schedule_run)  # type: ignore[arg-type]  # the base class only reads the time
        self.schedule_run = schedule_run
        self.commits_early = schedule_run.plan.handover is Handover.COMMIT_EARLY
        self.sinks: dict[TopicPartition, dict[int, set[tuple[str, int]]]] = {}
        self.by_run: dict[tuple[str, TopicPartition], dict[int, int]] = {}
        self.promised: dict[TopicPartition, set[int]] = {}
        self.excused: dict[TopicPartition, set[int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.logged: dict[tuple[str, int], list[OffsetRange]] = {}  # by application and batch
        self.by_app: dict[tuple[str, TopicPartition], int] = {}  # the last commit of an application
        # Ranges of absent static applications; they are excused unless the application returns in time.
        self.absent: dict[str, tuple[int, list[OffsetRange]]] = {}
        self.skipped: dict[TopicPartition, int] = {}  # by an operator, who does not know of batches committed early
        self.counts: Counter[str] = Counter()

    # --- the queries --------------------------------------------------------------------------------------------------

    def on_batch_started(self, run: FakeQuery, seq: int, ranges: Sequence[OffsetRange]) -> None:
        app = run.checkpoint.app
        self.logged[app, seq] = [offset_range for offset_range in ranges if offset_range.size]
        for offset_range in ranges:
            partition = offset_range.topic_partition
            offsets = range(offset_range.from_offset, offset_range.until_offset)
            self.promised.setdefault(partition, set()).update(offsets)
            batch_by_offset = self.by_run.setdefault((run.name, partition), {})
            for offset in offsets:
                if offset in batch_by_offset and not self.schedule_run.was_reset:
                    self.fail(
                        f"{run.name} reads {partition}@{offset} in batch {seq} after batch {batch_by_offset[offset]}"
                    )
                batch_by_offset[offset] = seq

    def on_batch_written(self, run: FakeQuery, seq: int, ranges: Sequence[OffsetRange]) -> None:
        self.counts["batches"] += 1
        for offset_range in ranges:
            sink = self.sinks.setdefault(offset_range.topic_partition, {})
            for offset in range(offset_range.from_offset, offset_range.until_offset):
                sink.setdefault(offset, set()).add((run.checkpoint.app, seq))

    def on_partitions_removed(self, run: FakeQuery, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Logged and uncommitted records may be read again by other members, if the rules allow it."""
        app = run.checkpoint.app
        if reason == "revoked" and self.schedule_run.plan.handover is not Handover.RELEASE and not self._eager:
            return  # the revocation waited, or handed the batch off; on_batch_event excuses a timeout
        removed = set(partitions)
        has_ended = reason in ("killed", "stopped")
        unlogged = [] if run.planned is None or reason == "revoked" else list(run.planned.ranges.values())
        open_ranges = [
            offset_range
            for ranges in [unlogged, *(ranges for (name, _), ranges in self.logged.items() if name == app)]
            for offset_range in ranges
            if self.by_app.get((app, offset_range.topic_partition), 0) < offset_range.until_offset
            and (has_ended or offset_range.topic_partition in removed)
        ]
        if has_ended and run.config.group_instance_id is not None:
            is_stable = run.member.state is MemberState.STABLE and not run.member.needs_rejoin
            generation_id = run.member.generation_id if is_stable else NEVER
            self.absent.setdefault(app, (generation_id, []))[1].extend(open_ranges)
        else:
            self.excuse(open_ranges)

    @property
    def _eager(self) -> bool:
        return self.schedule_run.plan.assignor == "range"

    def on_return(self, app: str, generation_id: int) -> None:
        """A static application has rejoined; in the same generation no other member has had its partitions."""
        before, open_ranges = self.absent.pop(app, (generation_id, []))
        if before != generation_id:
            self.excuse(open_ranges)

    def excuse(self, ranges: Iterable[OffsetRange]) -> None:
        """Allow duplicates of these records."""
        for offset_range in ranges:
            offsets = range(offset_range.from_offset, offset_range.until_offset)
            self.excused.setdefault(offset_range.topic_partition, set()).update(offsets)

    def on_joined(self, run: FakeQuery, generation_id: int) -> None:
        self.on_return(run.checkpoint.app, generation_id)

    def on_batch_event(self, run: FakeQuery, event: BatchEvent) -> None:
        self.counts[event.kind.name] += 1
        self.schedule_run.note(
            f"{run.name}: {event.partition} {event.kind.value} {event.offset} {event.previous_offset} "
            f"{event.duration_ms}"
        )
        if event.kind is BatchEventKind.HANDOVER_TIMED_OUT:
            planned = run.planned.ranges.values() if run.planned is not None else ()
            self.excuse(
                offset_range
                for offset_range in (*run.reading, *planned)
                if offset_range.topic_partition == event.partition
            )

    # --- the coordinator ----------------------------------------------------------------------------------------------

    def on_written(self, append: AppendRecords, error: Error) -> None:
        for record in append.records if error is Error.NONE else ():
            if isinstance(record, CommittedOffset) and record.value is not None:
                partition = TopicPartition(record.topic, record.partition)
                marker = CommitMarker.parse(OffsetAndMetadata(record.value.offset, metadata=record.value.metadata))
                if marker is not None:
                    self.by_app[marker.checkpoint_id.split(".")[0], partition] = record.value.offset
                self._on_committed(partition, record.value.offset)

    def _on_committed(self, partition: TopicPartition, offset: int) -> None:
        before = self.committed.get(partition, 0)
        self.schedule_run.note(f"{partition} is committed at {offset}")
        if offset < before and not self.schedule_run.resetting:
            self.fail(f"{partition} was committed at {before} and now at {offset}")
        sink, promised = self.sinks.get(partition, {}), self.promised.get(partition, set())
        for passed in range(before, offset):
            if passed not in sink and not (self.commits_early and passed in promised):
                self.fail(f"{partition} was committed at {offset}, and {passed} is in no sink")
        self.committed[partition] = offset

    def on_event(self, event: GroupEvent) -> None:
        self.schedule_run.note(f"  {event.kind} gen={event.generation} {event.trigger or ''} {event.member or ''}")

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        for app in list(self.absent):
            self.on_return(app, NEVER)
        for partition, end in self.schedule_run.broker.ends.items():
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
                    self.fail(f"{partition} at {offset} is in the batches {sorted(batches)} without an excuse")


class ScheduleRun:
    """One run of a schedule."""

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.queue = EventQueue()
        self.random = SeededRandom(f"run {plan.seed}")
        config = CoordinatorConfig(
            offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0, new_member_join_timeout_ms=60_000
        )
        self.broker = SimBroker(self.queue, self.random, config, GROUP)
        self.log: list[str] = []
        self.checker = RecordChecker(self)
        self.broker.checkers = [self.checker]
        self.checkpoints: list[Checkpoint] = []
        self.runs: dict[str, FakeQuery] = {}  # the last run of each application
        self.resetting = False
        self.was_reset = False

    @property
    def now_ms(self) -> int:
        """The current time."""
        return self.queue.now_ms

    def note(self, text: str) -> None:
        """Add a line to the log."""
        self.log.append(f"{self.now_ms:>7} ms  {text}")

    def run(self) -> None:
        """Run the schedule to its end; a failed check raises `Violation`."""
        for number in range(self.plan.partitions):
            self.broker.ends[TopicPartition(TOPIC, number)] = self.random.between(0, 4)
        for _ in range(self.plan.apps):
            self._add_app(self.random.between(0, 1_000))
        for fault in self.plan.faults:
            self.queue.at(fault.at_ms, lambda fault=fault: self._inject_fault(fault))  # type: ignore[misc]
        self.queue.after(300, self._produce)
        self.queue.run_until(self.plan.fault_phase_ms)
        self._heal()
        deadline_ms = self.now_ms + self.plan.settle_ms
        self.queue.run_until(self.now_ms + self.plan.session_timeout_ms + 8_000)
        while self.now_ms < deadline_ms and not self._is_finished():
            self.queue.run_until(self.now_ms + 1_000)
        for run in self.runs.values():
            if run.fatal is not None and not run.is_fenced:
                raise Violation("OnlyFencedMembersFail", self.now_ms, f"{run.name} ended with {run.fatal!r}")
        self.checker.finish()

    def _is_finished(self) -> bool:
        unfinished = any(run.alive and run.reading_seq > run.checkpoint.finished for run in self.runs.values())
        return not unfinished and all(
            self.broker.committed.get(partition) == end for partition, end in self.broker.ends.items() if end
        )

    def _produce(self) -> None:
        for partition in self.broker.ends:
            self.broker.ends[partition] += self.random.between(0, 2)
        if self.now_ms < self.plan.fault_phase_ms:
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
            assignors=(get_assignor(plan.assignor),),
            driver=RebalanceDriver.BACKGROUND,
        )
        batches = BatchConfig(handover=plan.handover, handover_timeout_ms=plan.handover_timeout_ms)
        simulation = self.queue, self.random, self.broker
        run = FakeQuery(checkpoint, config, batches, plan.behavior, TOPIC, simulation, self.checker)
        run.link.max_delay_ms = plan.max_delay_ms
        self.runs[checkpoint.app] = run
        self.note(f"{run.name} starts")

    # --- faults ------------------------------------------------------------------------------------------------------

    def _inject_fault(self, fault: ScheduledFault) -> None:
        live = [run for run in self.runs.values() if run.alive and not run.stopping]
        if not live or self.resetting:
            return
        run = live[fault.application % len(live)]
        length_ms, checkpoint = fault.length_ms, run.checkpoint
        self.note(f"{fault.fault} ({run.name}, {length_ms} ms)")
        match fault.fault:
            case Fault.KILL:
                run.kill()
                if self.plan.handover is Handover.COMMIT_EARLY:  # handoff relies on a restart from the checkpoint
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
            case Fault.DISCONNECT:
                run.link.to_broker = run.link.from_broker = False
                self.queue.after(length_ms, lambda: self._reconnect(run))
            case Fault.LOSE_RESPONSES:
                run.link.from_broker = False
                self.queue.after(length_ms, lambda: self._reconnect(run))
            case Fault.SCALE_OUT:
                if len(self.checkpoints) < MAX_APPS:
                    self._add_app(0)
            case Fault.ENFORCE:
                run.enforce_rebalance()
            case Fault.ADD_PARTITIONS:
                if len(self.broker.ends) < MAX_PARTITIONS:
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
        """An operator stops all applications, waits for an empty group, moves it back, and starts them again."""
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
            moved = {partition: self.random.between(0, offset) for partition, offset in sorted(committed.items())}
            for partition, offset in moved.items():
                if self.plan.handover is Handover.COMMIT_EARLY:
                    self.checker.skipped[partition] = offset
                if offset < committed[partition]:
                    self.checker.excuse([OffsetRange(*partition, offset, self.broker.ends[partition])])
            offsets = tuple(
                OffsetToCommit(partition.topic, partition.partition, offset, -1, "")
                for partition, offset in moved.items()
            )
            request = OffsetCommit(GROUP, "", None, -1, offsets)
            self.broker.receive(request, "/operator", lambda _response: None, lambda: None)
        self.queue.after(500, self._finish_reset)
        for run in live:
            self.queue.after(600, lambda run=run: self._start(run.checkpoint))  # type: ignore[misc]

    def _finish_reset(self) -> None:
        self.resetting = False

    def _reconnect(self, run: FakeQuery) -> None:
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
            self._reconnect(run)
        self.queue.after(self.plan.session_timeout_ms + 6_000, self._restart_missing)

    def _restart_missing(self) -> None:
        """Make sure that an application runs; with handoff, every application whose checkpoint has promised records."""
        for checkpoint in self.checkpoints:
            run = self.runs.get(checkpoint.app)
            is_dead = run is None or not run.alive
            none_running = not any(other.alive and not other.stopping for other in self.runs.values())
            if is_dead and (none_running or self.plan.handover is Handover.COMMIT_EARLY):
                self._start(checkpoint)
        if self.plan.static:
            for run in self.runs.values():
                run.enforce_rebalance()  # a static leader that returned did not assign new partitions


def run_schedule(seed: int, handover: Handover) -> tuple[ScheduleRun, str | None]:
    """Run one seed; return the run and its error, if any."""
    schedule_run = ScheduleRun(schedule(seed, handover))
    try:
        schedule_run.run()
    except Violation as violation:
        return schedule_run, str(violation)
    except Exception as error:
        return schedule_run, f"{type(error).__name__}: {error}"
    return schedule_run, None


def report(schedule_run: ScheduleRun, error: str) -> str:
    """The error, the end of the log, and the command that repeats the run."""
    plan = schedule_run.plan
    command = f".venv/bin/python -m tests.spark.schedules {plan.handover.value} {plan.seed}"
    return "\n".join([f"seed {plan.seed}: {error}", *schedule_run.log[-REPORT_LINES:], f"replay: {command}"])


if __name__ == "__main__":
    finished_run, error = run_schedule(int(sys.argv[2]), Handover(sys.argv[1]))
    print(finished_run.plan)
    print("\n".join(finished_run.log))
    print(error or f"no violation: {dict(finished_run.checker.counts)}")
    sys.exit(error is not None)
