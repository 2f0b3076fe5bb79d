"""One simulated run: a broker, consumer processes, a network, faults, and checkers.

Invariants:
- Coordinator and member are the production code; only clock, network, log and application are simulated.
- A run has three phases: faults, during which safety is checked; settling, after which the group must be stable; and
  rest, during which nothing may change.
- A run depends only on its scenario. The digest of all events and records compares two runs.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from slackwater.group.assignors import get_assignor
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

GROUP: Final = "orders"
_PRODUCE_EVERY_MS: Final = 2_000


class Simulation:
    """Runs a scenario once; it implements `SimulationView` for the checkers."""

    def __init__(self, scenario: Scenario, checkers: Collection[type[Checker]] = ALL) -> None:
        self.scenario = scenario
        self.queue = EventQueue()
        self.random = SeededRandom(f"run {scenario.seed}")
        self.topics = [f"topic-{number}" for number in range(len(scenario.partitions))]
        config = CoordinatorConfig(
            offsets_topic_num_partitions=1,
            group_initial_rebalance_delay_ms=scenario.initial_delay_ms,
            new_member_join_timeout_ms=60_000,
        )
        self.broker = SimBroker(self.queue, self.random, config, GROUP)
        self.checkers: list[Checker] = [_Digest(self), *(checker(self) for checker in checkers)]
        self.broker.checkers = self.checkers
        self.processes: dict[str, SimConsumer] = {}
        self.started = 0
        self.trace: list[str] = []

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Run the scenario and return its digest; raise `Violation` when a check fails."""
        for topic, count in zip(self.topics, self.scenario.partitions, strict=True):
            for number in range(count):
                self.broker.ends[TopicPartition(topic, number)] = 0
        for slot in range(self.scenario.processes):
            self.queue.at(self.random.between(0, 1_500), lambda slot=slot: self._start(slot))  # type: ignore[misc]
        for fault in self.scenario.faults:
            self.queue.at(fault.at_ms, lambda fault=fault: self._inject_fault(fault))  # type: ignore[misc]
        self.queue.at(0, self._produce)
        self.queue.run_until(self.scenario.fault_phase_ms)
        self._end_faults()
        self._run_for(self.scenario.settle_ms)
        for checker in self.checkers:
            checker.on_settled()
        self._run_for(self.scenario.idle_phase_ms)
        for checker in self.checkers:
            checker.on_finish()
        digest = self.checkers[0]
        assert isinstance(digest, _Digest)
        return digest.hash.hexdigest()

    def _run_for(self, duration_ms: int) -> None:
        self.queue.run_until(self.queue.now_ms + duration_ms)
        for process in self.processes.values():
            fatal = process.fatal
            if fatal is not None and not (isinstance(fatal, BrokerError) and fatal.error is Error.FENCED_INSTANCE_ID):
                raise Violation("OnlyFencedMembersFail", self.now_ms, f"{process.name} ended with {fatal!r}")

    def _produce(self) -> None:
        for partition in self.broker.ends:
            self.broker.ends[partition] += self.random.between(0, 3)
        if self.now_ms < self.scenario.fault_phase_ms:
            self.queue.after(_PRODUCE_EVERY_MS, self._produce)

    def _start(self, slot: int, instance: str | None = None) -> None:
        """Start a process; with static membership the slot is its instance id."""
        scenario = self.scenario
        self.started += 1
        name = f"p{slot}.{self.started}"
        if instance is None and scenario.static:
            instance = f"i{slot}"
        config = MemberConfig(
            group_id=GROUP,
            client_id=f"p{slot}",
            group_instance_id=instance,
            session_timeout_ms=scenario.session_timeout_ms,
            heartbeat_interval_ms=scenario.heartbeat_interval_ms,
            max_poll_interval_ms=scenario.max_poll_interval_ms,
            rebalance_timeout_ms=scenario.rebalance_timeout_ms,
            request_timeout_ms=3_000,
            default_api_timeout_ms=6_000,
            enable_auto_commit=scenario.auto_commit,
            auto_commit_interval_ms=2_000,
            assignors=tuple(get_assignor(name) for name in scenario.assignors),
            driver=RebalanceDriver.BACKGROUND if scenario.background else RebalanceDriver.POLL,
        )
        behavior = ApplicationBehavior(
            poll_every_ms=scenario.poll_every_ms,
            commit_after_batch=not scenario.auto_commit,
            commit_on_revoke=not scenario.background,  # in the background the batch commits when it is finished
        )
        process = SimConsumer(name, config, behavior, self.topics, self.queue, self.random, self.broker, self.checkers)
        process.link.max_delay_ms = scenario.max_delay_ms
        self.processes[name] = process
        self._log(f"{name} starts" + (f" as {instance}" if instance else ""))

    def _log(self, text: str) -> None:
        self.trace.append(f"{self.now_ms:>8} ms  {text}")

    # --- faults ------------------------------------------------------------------------------------------------------

    def _inject_fault(self, fault: FaultEvent) -> None:
        live = [process for process in self.processes.values() if process.is_running]
        duration_ms = fault.duration_ms
        if not live:
            self._start(fault.target % 4)
            return
        process = live[fault.target % len(live)]
        slot = int(process.name[1:].split(".")[0])
        self._log(f"{fault.kind} ({process.name}, {duration_ms} ms)")
        match fault.kind:
            case FaultKind.CRASH:
                process.crash()
            case FaultKind.RESTART:
                process.crash()
                self.queue.after(duration_ms // 2, lambda: self._start(slot))
            case FaultKind.STOP:
                process.stop()
                self.queue.after(duration_ms // 2 + 2_500, lambda: self._start(slot))
            case FaultKind.STALL:
                process.stall(duration_ms)
            case FaultKind.OVERRUN:
                process.overrun(duration_ms)
            case FaultKind.DISCONNECT:
                process.link.to_broker = process.link.from_broker = False
                self.queue.after(duration_ms, lambda: self._restore_link(process))
            case FaultKind.LOSE_RESPONSES:
                process.link.from_broker = False
                self.queue.after(duration_ms, lambda: self._restore_link(process))
            case FaultKind.LOSE_HEARTBEATS:
                process.link.dropped_type = Heartbeat
                self.queue.after(duration_ms, lambda: self._restore_link(process))
            case FaultKind.SCALE_OUT:
                if len(live) < MAX_PROCESSES:
                    self._start(self.started)
            case FaultKind.CONFLICT:
                self._start(self.started, instance=process.config.group_instance_id)
            case FaultKind.REMOVE:
                leaver = LeavingMember(process.member.member_id, process.config.group_instance_id, "removed by hand")
                if self.broker.up:
                    self.broker.receive(LeaveGroup(GROUP, (leaver,)), "/admin", lambda _response: None, lambda: None)
            case FaultKind.ENFORCE:
                process.enforce_rebalance()
            case FaultKind.ADD_PARTITIONS:
                self._add_partition(self.topics[fault.target % len(self.topics)])
            case FaultKind.RESUBSCRIBE:
                process.resubscribe(self.topics[: 1 + fault.target % len(self.topics)])
                self.queue.after(duration_ms, lambda: process.resubscribe(self.topics))
            case FaultKind.BROKER_CRASH:
                if self.broker.up:
                    self.broker.crash()
                    self.queue.after(min(duration_ms, 5_000), self._restart_broker)
            case FaultKind.FAILOVER:
                self.broker.fail_over(min(duration_ms, 2_000))
            case FaultKind.FAIL_WRITES:
                self.broker.fail_writes = True
                self.queue.after(min(duration_ms, 5_000), self._accept_writes)

    def _restore_link(self, process: SimConsumer) -> None:
        process.link.to_broker = process.link.from_broker = True
        process.link.dropped_type = None

    def _restart_broker(self) -> None:
        if not self.broker.up:
            self._log("the broker restarts")
            self.broker.start()

    def _accept_writes(self) -> None:
        self.broker.fail_writes = False

    def _add_partition(self, topic: str) -> None:
        count = sum(1 for partition in self.broker.ends if partition.topic == topic)
        if count < MAX_PARTITIONS:
            self.broker.ends[TopicPartition(topic, count)] = 0

    def _end_faults(self) -> None:
        """End all faults and make sure that at least one process runs."""
        self._restart_broker()
        self._accept_writes()
        for process in self.processes.values():
            self._restore_link(process)
        live = [process for process in self.processes.values() if process.is_running]
        if not live:
            self._start(0)
        if self.scenario.static:
            # Two gaps of the protocol. A static leader that rejoins skips the assignment (KIP-814), so partitions
            # that were added in the meantime stay unassigned; and a static member that rejoins with another
            # subscription does not start a rebalance (JG-41). As an operator would, request a rebalance after all
            # processes have joined.
            self.queue.after(self.scenario.settle_ms // 2, self._enforce_rebalance)

    def _enforce_rebalance(self) -> None:
        for process in self.processes.values():
            process.enforce_rebalance()

    # --- the checkers' view -------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The virtual time."""
        return self.queue.now_ms

    @property
    def initial_delay_ms(self) -> int:
        """group.initial.rebalance.delay.ms."""
        return self.scenario.initial_delay_ms

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
        """The end offset of each partition."""
        return self.broker.ends

    @property
    def log(self) -> Sequence[CoordinatorRecord]:
        """The coordinator's log."""
        return self.broker.log

    def _live(self) -> list[SimConsumer]:
        return [process for process in self.processes.values() if process.alive]

    @property
    def owned(self) -> Mapping[str, frozenset[TopicPartition]]:
        """The partitions that each live process believes to own."""
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
        """Whether each live process is stable."""
        return {process.name: process.settled for process in self._live()}


MAX_PROCESSES: Final = 5
MAX_PARTITIONS: Final = 8


class _Digest(Checker):
    """Hashes every event and every processed record, and adds the events to the trace."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.simulation = simulation
        self.hash = blake2b(digest_size=16)

    def on_event(self, event: GroupEvent) -> None:
        line = f"{event.time_ms} {event.kind} {event.member} {event.generation} {event.trigger}"
        self.hash.update(line.encode())
        self.simulation.trace.append(
            f"{event.time_ms:>8} ms    {event.kind} gen={event.generation} {event.state_after} "
            f"{event.trigger or ''} {event.member or ''} {event.detail}"
        )

    def on_processed(self, process: str, partition: TopicPartition, offset: int) -> None:
        self.hash.update(f"{self.view.now_ms} {process} {partition} {offset}".encode())
