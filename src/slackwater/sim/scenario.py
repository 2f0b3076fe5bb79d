"""Random scenarios: the processes, their settings, and the faults of a simulated run.

Invariants:
- A scenario is data and depends only on its seed. A run draws its delays from a separate generator.
- Faults end: after `fault_phase_ms` there are no new faults, links work, and the broker is up.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slackwater.sim.seeded_random import SeededRandom


class FaultKind(StrEnum):
    """The faults and changes that a run injects."""

    CRASH = "a process dies"
    RESTART = "a process dies and is started again"
    STOP = "a process closes cleanly and is started again"
    STALL = "a process stalls"
    OVERRUN = "a process takes too long for a batch"
    DISCONNECT = "a process loses its connection"
    LOSE_RESPONSES = "responses to a process are lost"
    LOSE_HEARTBEATS = "heartbeats of a process are lost"
    SCALE_OUT = "a process is added"
    CONFLICT = "a second process uses the same instance id"
    REMOVE = "an administrator removes a member"
    ENFORCE = "an application requests a rebalance"
    ADD_PARTITIONS = "a topic gets more partitions"
    RESUBSCRIBE = "an application subscribes to other topics"
    BROKER_CRASH = "the broker dies and restarts"
    FAILOVER = "the coordinator reloads"
    FAIL_WRITES = "writes to the coordinator's log fail"


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """One fault: time, kind, target (a number, modulo the live processes), and duration."""

    at_ms: int
    kind: FaultKind
    target: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The input of a run."""

    seed: int
    assignors: tuple[str, ...]
    background: bool
    static: bool
    processes: int
    partitions: tuple[int, ...]  # per topic
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    max_poll_interval_ms: int
    initial_delay_ms: int
    auto_commit: bool
    poll_every_ms: int
    max_delay_ms: int
    fault_phase_ms: int
    faults: tuple[FaultEvent, ...]

    @property
    def settle_ms(self) -> int:
        """The time that a group may take to become stable after the last fault.

        The last fault may leave a rebalance that waits for its timeout, then a generation with dead members. Each
        expiration starts a rebalance whose leader may be the next to expire.
        """
        round_ms = self.rebalance_timeout_ms + self.session_timeout_ms
        return 3 * round_ms + 2 * self.max_poll_interval_ms + self.initial_delay_ms + 10_000

    @property
    def idle_phase_ms(self) -> int:
        """The time without any change at the end: long enough for every timer of a member to fire."""
        return 2 * self.session_timeout_ms + self.rebalance_timeout_ms


_ASSIGNORS: Final = (
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
    ("range", "cooperative-sticky"),
)
_FAULT_KINDS: Final = (
    FaultKind.RESTART,
    FaultKind.RESTART,
    FaultKind.CRASH,
    FaultKind.STOP,
    FaultKind.STOP,
    FaultKind.STALL,
    FaultKind.STALL,
    FaultKind.OVERRUN,
    FaultKind.OVERRUN,
    FaultKind.DISCONNECT,
    FaultKind.DISCONNECT,
    FaultKind.LOSE_RESPONSES,
    FaultKind.LOSE_HEARTBEATS,
    FaultKind.SCALE_OUT,
    FaultKind.SCALE_OUT,
    FaultKind.REMOVE,
    FaultKind.ENFORCE,
    FaultKind.ADD_PARTITIONS,
    FaultKind.RESUBSCRIBE,
    FaultKind.BROKER_CRASH,
    FaultKind.FAILOVER,
    FaultKind.FAIL_WRITES,
)


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    random = SeededRandom(f"scenario {seed}")
    session_ms = random.pick((6_000, 8_000, 10_000))
    # A timeout below a heartbeat interval plus a poll interval would make a healthy group rebalance forever.
    rebalance_ms = random.pick((8_000, 10_000, 15_000))
    poll_ms = random.pick((8_000, 12_000, 25_000))
    static = random.chance(0.35)
    fault_phase_ms = random.between(20_000, 60_000)
    kinds = (*_FAULT_KINDS, FaultKind.CONFLICT) if static else _FAULT_KINDS
    faults = sorted(
        (
            FaultEvent(
                random.between(0, fault_phase_ms),
                random.pick(kinds),
                random.between(0, 99),
                _duration_ms(random, (session_ms, poll_ms, rebalance_ms)),
            )
            for _ in range(random.between(1, 7))
        ),
        key=lambda fault: fault.at_ms,
    )
    return Scenario(
        seed=seed,
        assignors=random.pick(_ASSIGNORS),
        background=random.chance(0.2),
        static=static,
        processes=random.between(1, 4),
        partitions=tuple(random.between(1, 5) for _ in range(random.between(1, 2))),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=random.pick((1_500, 2_000, 3_000)),
        rebalance_timeout_ms=rebalance_ms,
        max_poll_interval_ms=poll_ms,
        initial_delay_ms=random.pick((0, 500, 3_000)),
        auto_commit=random.chance(0.3),
        poll_every_ms=random.pick((700, 1_500, 2_500)),
        max_delay_ms=random.pick((2, 20, 300)),
        fault_phase_ms=fault_phase_ms,
        faults=tuple(faults),
    )


def _duration_ms(random: SeededRandom, timers_ms: tuple[int, ...]) -> int:
    """Return a short duration, one close to a timer's, or twice a timer's."""
    timer_ms = random.pick(timers_ms)
    return random.pick((random.between(10, 2_000), timer_ms + random.between(-2_000, 4_000), 2 * timer_ms))
