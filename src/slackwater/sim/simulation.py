"""One simulated run: a broker, processes, a network, mishaps, and checkers that watch.

Rules kept here
- Real coordinator and member machines; only clock, network, log and application are the simulator's.
- Three phases: chaos, in which safety is checked; settling, after which the group must be at rest; rest, in which
  nothing may happen any more.
- A run depends on its scenario alone. `digest` sums up all that happened, to compare two runs.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from slackwater.group.assignors import assignor
from slackwater.group.coordinator import CoordinatorConfig, CoordinatorRecord
from slackwater.group.errors import BrokerError, Error
from slackwater.group.events import GroupEvent, GroupState
from slackwater.group.member import MemberConfig, RebalanceDriver
from slackwater.group.messages import Heartbeat, LeaveGroup, LeavingMember
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.broker import SimBroker
from slackwater.sim.checkers import ALL, Checker, Violation
from slackwater.sim.consumer import ApplicationBehavior, SimConsumer
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.scenario import FaultEvent, FaultKind, Scenario
from slackwater.sim.seeded_random import SeededRandom

GROUP: Final = "tide"
_PRODUCE_EVERY_MS: Final = 2_000


class Simulation:
    """Runs a scenario, once; it is its own `View` for the checkers."""

    def __init__(self, plan: Scenario, checkers: Collection[type[Checker]] = ALL) -> None:
        self.plan = plan
        self.agenda = EventQueue()
        self.dice = SeededRandom(f"run {plan.seed}")
        self.topics = [f"topic-{number}" for number in range(len(plan.partitions))]
        config = CoordinatorConfig(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=plan.initial_delay_ms,
            new_member_join_timeout_ms=60_000,
        )
        self.broker = SimBroker(self.agenda, self.dice, config, GROUP)
        self.checkers: list[Checker] = [_Digest(self), *(checker(self) for checker in checkers)]
        self.broker.checkers = self.checkers
        self.processes: dict[str, SimConsumer] = {}
        self.started = 0
        self.story: list[str] = []

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Play the scenario to its end; a broken promise raises `Violation`. The digest is returned."""
        for topic, count in zip(self.topics, self.plan.partitions, strict=True):
            for number in range(count):
                self.broker.ends[TopicPartition(topic, number)] = 0
        for slot in range(self.plan.processes):
            self.agenda.at(self.dice.between(0, 1_500), lambda slot=slot: self._start(slot))  # type: ignore[misc]
        for mishap in self.plan.mishaps:
            self.agenda.at(mishap.at_ms, lambda mishap=mishap: self._befall(mishap))  # type: ignore[misc]
        self.agenda.at(0, self._produce)
        self.agenda.run_until(self.plan.chaos_ms)
        self._heal()
        self._step(self.plan.settle_ms)
        for checker in self.checkers:
            checker.quiet()
        self._step(self.plan.rest_ms)
        for checker in self.checkers:
            checker.finish()
        digest = self.checkers[0]
        assert isinstance(digest, _Digest)
        return digest.sum.hexdigest()

    def _step(self, length_ms: int) -> None:
        self.agenda.run_until(self.agenda.now_ms + length_ms)
        for process in self.processes.values():
            fatal = process.fatal
            if fatal is not None and not (isinstance(fatal, BrokerError) and fatal.error is Error.FENCED_INSTANCE_ID):
                raise Violation("NobodyDiesForNothing", self.now_ms, f"{process.name} ended with {fatal!r}")

    def _produce(self) -> None:
        for partition in self.broker.ends:
            self.broker.ends[partition] += self.dice.between(0, 3)
        if self.now_ms < self.plan.chaos_ms:
            self.agenda.after(_PRODUCE_EVERY_MS, self._produce)

    def _start(self, slot: int, instance: str | None = None) -> None:
        """Start a process; with static membership the slot is its instance id."""
        plan = self.plan
        self.started += 1
        name = f"p{slot}.{self.started}"
        if instance is None and plan.static:
            instance = f"i{slot}"
        config = MemberConfig(
            group_id=GROUP,
            client_id=f"p{slot}",
            group_instance_id=instance,
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=plan.heartbeat_interval_ms,
            max_poll_interval_ms=plan.max_poll_interval_ms,
            rebalance_timeout_ms=plan.rebalance_timeout_ms,
            request_timeout_ms=3_000,
            default_api_timeout_ms=6_000,
            enable_auto_commit=plan.auto_commit,
            auto_commit_interval_ms=2_000,
            assignors=tuple(assignor(each) for each in plan.assignors),
            driver=RebalanceDriver.BACKGROUND if plan.background else RebalanceDriver.POLL,
        )
        habits = ApplicationBehavior(
            poll_every_ms=plan.poll_every_ms,
            commit_after_batch=not plan.auto_commit,
            commit_on_revoke=not plan.background,  # there the batch commits itself when it is finished
        )
        process = SimConsumer(name, config, habits, self.topics, self.agenda, self.dice, self.broker, self.checkers)
        process.link.max_delay_ms = plan.max_delay_ms
        self.processes[name] = process
        self._note(f"{name} starts" + (f" as {instance}" if instance else ""))

    def _note(self, what: str) -> None:
        self.story.append(f"{self.now_ms:>8} ms  {what}")

    # --- mishaps ------------------------------------------------------------------------------------------------------

    def _befall(self, mishap: FaultEvent) -> None:
        live = [process for process in self.processes.values() if process.staying]
        length_ms = mishap.length_ms
        if not live:
            self._start(mishap.whom % 4)
            return
        process = live[mishap.whom % len(live)]
        slot = int(process.name[1:].split(".")[0])
        self._note(f"{mishap.fault} ({process.name}, {length_ms} ms)")
        match mishap.fault:
            case FaultKind.CRASH:
                process.crash()
            case FaultKind.RESTART:
                process.crash()
                self.agenda.after(length_ms // 2, lambda: self._start(slot))
            case FaultKind.STOP:
                process.stop()
                self.agenda.after(length_ms // 2 + 2_500, lambda: self._start(slot))
            case FaultKind.STALL:
                process.stall(length_ms)
            case FaultKind.OVERRUN:
                process.overrun(length_ms)
            case FaultKind.CUT:
                process.link.to_broker = process.link.from_broker = False
                self.agenda.after(length_ms, lambda: self._mend(process))
            case FaultKind.LOSE_ANSWERS:
                process.link.from_broker = False
                self.agenda.after(length_ms, lambda: self._mend(process))
            case FaultKind.LOSE_HEARTBEATS:
                process.link.losing = Heartbeat
                self.agenda.after(length_ms, lambda: self._mend(process))
            case FaultKind.SCALE_OUT:
                if len(live) < MAX_PROCESSES:
                    self._start(self.started)
            case FaultKind.CONFLICT:
                self._start(self.started, instance=process.config.group_instance_id)
            case FaultKind.REMOVE:
                leaver = LeavingMember(process.member.member_id, process.config.group_instance_id, "removed by hand")
                if self.broker.up:
                    self.broker.receive(LeaveGroup(GROUP, (leaver,)), "/admin", lambda _answer: None, lambda: None)
            case FaultKind.ENFORCE:
                process.enforce_rebalance()
            case FaultKind.ADD_PARTITIONS:
                self._add_partition(self.topics[mishap.whom % len(self.topics)])
            case FaultKind.RESUBSCRIBE:
                process.resubscribe(self.topics[: 1 + mishap.whom % len(self.topics)])
                self.agenda.after(length_ms, lambda: process.resubscribe(self.topics))
            case FaultKind.BROKER_CRASH:
                if self.broker.up:
                    self.broker.crash()
                    self.agenda.after(min(length_ms, 5_000), self._restart_broker)
            case FaultKind.FAILOVER:
                self.broker.fail_over(min(length_ms, 2_000))
            case FaultKind.REFUSE_WRITES:
                self.broker.refuse_writes = True
                self.agenda.after(min(length_ms, 5_000), self._accept_writes)

    def _mend(self, process: SimConsumer) -> None:
        process.link.to_broker = process.link.from_broker = True
        process.link.losing = None

    def _restart_broker(self) -> None:
        if not self.broker.up:
            self._note("the broker is back")
            self.broker.start()

    def _accept_writes(self) -> None:
        self.broker.refuse_writes = False

    def _add_partition(self, topic: str) -> None:
        count = sum(1 for at in self.broker.ends if at.topic == topic)
        if count < MAX_PARTITIONS:
            self.broker.ends[TopicPartition(topic, count)] = 0

    def _heal(self) -> None:
        """Chaos is over: everything that was broken is whole again, and somebody is there."""
        self._restart_broker()
        self._accept_writes()
        for process in self.processes.values():
            self._mend(process)
        live = [process for process in self.processes.values() if process.staying]
        if not live:
            self._start(0)
        if self.plan.static:
            # Two gaps of the protocol itself. A static leader that returns skips the assignment (KIP-814), so nobody
            # notices partitions that were added while it was away; and a static member that returns with another
            # subscription changes nothing (JG-41). An operator would ask for a rebalance; so do we, once everybody
            # has joined.
            self.agenda.after(self.plan.settle_ms // 2, self._ask_for_a_rebalance)

    def _ask_for_a_rebalance(self) -> None:
        for process in self.processes.values():
            process.enforce_rebalance()

    # --- the checkers' view -------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The virtual time."""
        return self.agenda.now_ms

    @property
    def initial_delay_ms(self) -> int:
        """group.initial.rebalance.delay.ms."""
        return self.plan.initial_delay_ms

    @property
    def group_state(self) -> GroupState | None:
        """The group's state at the coordinator."""
        return self.broker.group_state

    @property
    def generation_id(self) -> int:
        """The group's generation at the coordinator."""
        return self.broker.generation_id

    @property
    def leader_id(self) -> str | None:
        """The group's leader at the coordinator."""
        return self.broker.leader_id

    @property
    def members(self) -> Collection[str]:
        """The group's members at the coordinator."""
        return self.broker.members

    @property
    def committed(self) -> Mapping[TopicPartition, int]:
        """The group's offsets at the coordinator."""
        return self.broker.committed

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """How many records each partition has."""
        return self.broker.ends

    @property
    def log(self) -> Sequence[CoordinatorRecord]:
        """The coordinator's log."""
        return self.broker.log

    def _live(self) -> list[SimConsumer]:
        return [process for process in self.processes.values() if process.alive]

    @property
    def owned(self) -> Mapping[str, frozenset[TopicPartition]]:
        """What each live process takes itself to own."""
        return {process.name: process.owned for process in self._live()}

    @property
    def member_ids(self) -> Mapping[str, str]:
        """The member id of each live process."""
        return {process.name: process.member.member_id for process in self._live()}

    @property
    def generations(self) -> Mapping[str, int]:
        """The generation of each live process."""
        return {process.name: process.member.generation_id for process in self._live()}

    @property
    def settled(self) -> Mapping[str, bool]:
        """Whether each live process has nothing left to do."""
        return {process.name: process.settled for process in self._live()}


MAX_PROCESSES: Final = 5
MAX_PARTITIONS: Final = 8


class _Digest(Checker):
    """Sums up what happened: every event and every record processed."""

    def __init__(self, world: Simulation) -> None:
        super().__init__(world)
        self.world = world
        self.sum = blake2b(digest_size=16)

    def told(self, event: GroupEvent) -> None:
        line = f"{event.time_ms} {event.kind} {event.member} {event.generation} {event.trigger}"
        self.sum.update(line.encode())
        self.world.story.append(
            f"{event.time_ms:>8} ms    {event.kind} gen={event.generation} {event.state_after} "
            f"{event.trigger or ''} {event.member or ''} {event.detail}"
        )

    def processed(self, process: str, partition: TopicPartition, offset: int) -> None:
        self.sum.update(f"{self.view.now_ms} {process} {partition} {offset}".encode())
