"""A random scenario from a seed: who takes part, with which settings, and what goes wrong when.

Rules kept here
- A scenario is data. Everything random about it is drawn here, before anything runs; what the run itself draws (delays
  of messages and writes) comes from dice of its own, so that looking at a scenario does not change it.
- Faults end: after `chaos_ms` nothing new goes wrong, links are whole, the broker is up.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slackwater.sim.seeded_random import SeededRandom


class FaultKind(StrEnum):
    """What can go wrong, or at least change."""

    CRASH = "a process dies"
    RESTART = "a process dies and is started again"
    STOP = "a process closes cleanly and is started again"
    STALL = "a process stands still"
    OVERRUN = "a process takes too long over a batch"
    CUT = "a process is cut off"
    LOSE_ANSWERS = "answers to a process are lost"
    LOSE_HEARTBEATS = "heartbeats of a process are lost"
    SCALE_OUT = "a process is added"
    CONFLICT = "a second process uses the same instance id"
    REMOVE = "an administrator removes a member"
    ENFORCE = "an application asks for a rebalance"
    ADD_PARTITIONS = "a topic grows"
    RESUBSCRIBE = "an application subscribes to other topics"
    BROKER_CRASH = "the broker dies and comes back"
    FAILOVER = "the coordinator reloads"
    REFUSE_WRITES = "the coordinator's log refuses writes"


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """One fault: when, to whom (a number, taken modulo the live processes), for how long."""

    at_ms: int
    fault: FaultKind
    whom: int
    length_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything a run needs."""

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
    chaos_ms: int
    mishaps: tuple[FaultEvent, ...]

    @property
    def settle_ms(self) -> int:
        """How long a group may take to come to rest once faults have stopped.

        The last fault may have left a round that waits for its timeout, then a generation whose dead members must
        expire, each expiry a round of its own whose leader may be the next to expire.
        """
        round_ms = self.rebalance_timeout_ms + self.session_timeout_ms
        return 3 * round_ms + 2 * self.max_poll_interval_ms + self.initial_delay_ms + 10_000

    @property
    def rest_ms(self) -> int:
        """How long nothing may happen then: long enough for every timer of a member to come up."""
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
_COMMON: Final = (
    FaultKind.RESTART,
    FaultKind.RESTART,
    FaultKind.CRASH,
    FaultKind.STOP,
    FaultKind.STOP,
    FaultKind.STALL,
    FaultKind.STALL,
    FaultKind.OVERRUN,
    FaultKind.OVERRUN,
    FaultKind.CUT,
    FaultKind.CUT,
    FaultKind.LOSE_ANSWERS,
    FaultKind.LOSE_HEARTBEATS,
    FaultKind.SCALE_OUT,
    FaultKind.SCALE_OUT,
    FaultKind.REMOVE,
    FaultKind.ENFORCE,
    FaultKind.ADD_PARTITIONS,
    FaultKind.RESUBSCRIBE,
    FaultKind.BROKER_CRASH,
    FaultKind.FAILOVER,
    FaultKind.REFUSE_WRITES,
)


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    dice = SeededRandom(f"scenario {seed}")
    session_ms = dice.pick((6_000, 8_000, 10_000))
    # Any shorter than a heartbeat and a poll together, and a healthy group would storm: nobody would rejoin in time.
    rebalance_ms = dice.pick((8_000, 10_000, 15_000))
    poll_ms = dice.pick((8_000, 12_000, 25_000))
    static = dice.chance(0.35)
    chaos_ms = dice.between(20_000, 60_000)
    faults = (*_COMMON, FaultKind.CONFLICT) if static else _COMMON
    mishaps = sorted(
        (
            FaultEvent(
                dice.between(0, chaos_ms),
                dice.pick(faults),
                dice.between(0, 99),
                _length(dice, (session_ms, poll_ms, rebalance_ms)),
            )
            for _ in range(dice.between(1, 7))
        ),
        key=lambda mishap: mishap.at_ms,
    )
    return Scenario(
        seed=seed,
        assignors=dice.pick(_ASSIGNORS),
        background=dice.chance(0.2),
        static=static,
        processes=dice.between(1, 4),
        partitions=tuple(dice.between(1, 5) for _ in range(dice.between(1, 2))),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=dice.pick((1_500, 2_000, 3_000)),
        rebalance_timeout_ms=rebalance_ms,
        max_poll_interval_ms=poll_ms,
        initial_delay_ms=dice.pick((0, 500, 3_000)),
        auto_commit=dice.chance(0.3),
        poll_every_ms=dice.pick((700, 1_500, 2_500)),
        max_delay_ms=dice.pick((2, 20, 300)),
        chaos_ms=chaos_ms,
        mishaps=tuple(mishaps),
    )


def _length(dice: SeededRandom, timers_ms: tuple[int, ...]) -> int:
    """Some faults are over before anybody notices, some last about as long as a timer, some much longer."""
    around = dice.pick(timers_ms)
    return dice.pick((dice.between(10, 2_000), around + dice.between(-2_000, 4_000), 2 * around))
