"""Incidents played in the simulator, with the series that Prometheus would have recorded.

Coordinator, members, metrics and alert monitor are the production code; the clock is virtual. At each scrape the
recorder reads the broker's group metrics, the members' metrics under the names of the JMX exporter, and evaluates the
alert rules as `slackwater watch` does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from slackwater.broker.groups.group_metrics import GroupMetrics
from slackwater.broker.metrics_page import group_families
from slackwater.client.consumer.metrics import FETCH_GROUP, MetricName
from slackwater.doctor.alerts.monitor import AlertMonitor, ClusterSnapshot, ObservedGroup, ObservedMember
from slackwater.group.assignors.consumer_protocol import decode_assignment
from slackwater.group.events import GroupEvent
from slackwater.group.member.metrics import METRIC_GROUPS
from slackwater.group.messages import JoinGroup, JoinProtocol
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers import Checker
from slackwater.sim.scenario import FaultEvent, FaultKind, Scenario
from slackwater.sim.simulation import GROUP, Simulation

SCRAPE_MS = 15_000
MINUTE_MS = 60_000
RUN_MS = 80 * MINUTE_MS
Series = dict[str, list[float | None]]


@dataclass(frozen=True, slots=True, eq=False)
class Incident:
    """A scenario, what is added to it, and the alerts that must fire."""

    name: str
    scenario: Scenario
    alerts: frozenset[str]
    prepare: Callable[[Simulation], None] = lambda simulation: None


@dataclass(slots=True)
class Recording:
    """What was recorded of an incident, per scrape."""

    series: Series = field(default_factory=dict)
    firing: list[frozenset[str]] = field(default_factory=list)
    """The alerts that `watch` shows as active."""
    scrapes: int = 0

    def add(self, name: str, labels: dict[str, str], value: float) -> None:
        """Add a sample of the current scrape."""
        key = name + "{" + ",".join(f'{label}="{text}"' for label, text in sorted(labels.items())) + "}"
        values = self.series.setdefault(key, [])
        values += [None] * (self.scrapes - len(values))
        values.append(value)


class _EventRecorder(Checker):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.metrics = GroupMetrics(
            simulation.broker.coordinator.groups,
            now_ms=lambda: simulation.now_ms,
            end_offset=lambda partition: simulation.broker.ends.get(partition),
        )
        self.events: list[GroupEvent] = []

    def on_event(self, event: GroupEvent) -> None:
        self.metrics.apply_event(event)
        self.events.append(event)


@cache
def record(incident: Incident) -> Recording:
    """Play an incident and record it, once."""
    simulation = Simulation(incident.scenario, [_EventRecorder])
    recorder = next(checker for checker in simulation.checkers if isinstance(checker, _EventRecorder))
    recording, monitor = Recording(), AlertMonitor()

    def scrape() -> None:
        _record_broker(recorder.metrics, recording)
        _record_members(simulation, recording)
        events, recorder.events = recorder.events, []
        monitor.observe(_snapshot(simulation, events))
        recording.firing.append(frozenset(notice.alert.name for notice in monitor.firing))
        recording.scrapes += 1

    for at_ms in range(0, RUN_MS, SCRAPE_MS):
        simulation.queue.at(at_ms, scrape)
    incident.prepare(simulation)
    simulation.run()
    return recording


def _record_broker(metrics: GroupMetrics, recording: Recording) -> None:
    for family in group_families(metrics.read(10)):
        for sample in family.samples:
            recording.add(sample.name, {"instance": "broker", **sample.labels}, sample.value)


def _record_members(simulation: Simulation, recording: Recording) -> None:
    preparing = simulation.group_state == "PreparingRebalance"
    recording.add(
        "kafka_coordinator_group_GroupMetadataManager_Value",
        {"instance": "broker", "name": "NumGroupsPreparingRebalance"},
        float(preparing),
    )
    for process in simulation.processes.values():
        if not process.alive:
            continue
        labels = {"instance": process.name, "client_id": process.config.client_id}
        for name, value in process.member.metrics(simulation.now_ms).items():
            recording.add(MetricName(name, METRIC_GROUPS[name], "").prometheus, labels, value)
        lags = [simulation.ends[partition] - offset for partition, offset in process.positions.items()]
        if lags:
            recording.add(MetricName("records-lag-max", FETCH_GROUP, "").prometheus, labels, max(lags))


def _snapshot(simulation: Simulation, events: list[GroupEvent]) -> ClusterSnapshot:
    group = simulation.broker.coordinator.groups.get(GROUP)
    groups = {}
    if group is not None:
        members = tuple(
            ObservedMember(member.member_id, member.client_id, _partitions(member.assignment))
            for member in group.members.values()
        )
        committed = simulation.committed
        lag = sum(simulation.ends[partition] - offset for partition, offset in committed.items())
        groups[GROUP] = ObservedGroup(GROUP, group.state.wire_name, members, None, committed, lag)
    return ClusterSnapshot(simulation.now_ms, groups, events=events, has_events=True)


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    return decode_assignment(assignment).partitions if assignment else ()


# --- the incidents ----------------------------------------------------------------------------------------------------


def _scenario(*faults: FaultEvent, **changes: object) -> Scenario:
    values: dict[str, object] = {
        "seed": 1,
        "assignors": ("range",),
        "background": False,
        "static": False,
        "processes": 3,
        "partitions": (6,),
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
        "rebalance_timeout_ms": 300_000,
        "max_poll_interval_ms": 300_000,
        "initial_delay_ms": 3_000,
        "auto_commit": False,
        "poll_every_ms": 5_000,
        "max_delay_ms": 2,
        "fault_phase_ms": RUN_MS,
        "faults": faults,
    }
    return Scenario(**(values | changes))  # type: ignore[arg-type]


def _fault(minute: float, kind: FaultKind, duration_s: float = 0, target: int = 0) -> FaultEvent:
    return FaultEvent(int(minute * MINUTE_MS), kind, target, int(duration_s * 1000))


def _reject_a_join(simulation: Simulation) -> None:
    """Let a client with an assignor that no member supports try to join after half an hour."""
    join = JoinGroup(
        GROUP,
        "",
        None,
        "consumer",
        (JoinProtocol("own-assignor", b""),),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        client_id="stranger",
        client_host="/h",
        uuid="u",
        requires_known_member_id=False,
    )
    simulation.queue.at(
        30 * MINUTE_MS, lambda: simulation.broker.receive(join, "/h", lambda response: None, lambda: None)
    )


INCIDENTS = (
    Incident("calm", _scenario(), frozenset()),
    Incident("one member added", _scenario(_fault(20, FaultKind.SCALE_OUT)), frozenset()),
    Incident(
        "one member added, cooperative",
        _scenario(_fault(20, FaultKind.SCALE_OUT), assignors=("cooperative-sticky",)),
        frozenset(),
    ),
    Incident(
        "storm of poll timeouts",
        _scenario(
            *(_fault(15 + 3 * number, FaultKind.OVERRUN, 40) for number in range(5)),
            max_poll_interval_ms=30_000,
            rebalance_timeout_ms=30_000,
        ),
        frozenset({"RebalancesTooOften"}),
    ),
    Incident(
        "rolling deploy",
        _scenario(*(_fault(20 + number, FaultKind.STOP, 5) for number in range(3))),
        frozenset({"RebalancesTooOften"}),
    ),
    Incident(
        "rolling deploy of static members",
        _scenario(*(_fault(20 + number, FaultKind.RESTART, 20) for number in range(3)), static=True),
        frozenset(),
    ),
    Incident(
        "rebalance waits for a blocked member",
        _scenario(_fault(20, FaultKind.OVERRUN, 200), _fault(20.5, FaultKind.ENFORCE, target=1)),
        frozenset({"RebalanceStuck", "RebalanceTooLong"}),
    ),
    Incident("join is rejected", _scenario(), frozenset({"RebalancesFail"}), _reject_a_join),
    Incident(
        "handler hangs",
        _scenario(
            _fault(20, FaultKind.OVERRUN, 900), processes=1, max_poll_interval_ms=1_800_000, rebalance_timeout_ms=60_000
        ),
        frozenset({"NoProgress"}),
    ),
    Incident("more members than partitions", _scenario(partitions=(2,)), frozenset({"IdleMembers"})),
)
