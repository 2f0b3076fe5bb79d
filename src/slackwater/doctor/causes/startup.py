"""Startup: a group that starts with many members, one after another.

Invariants:
- Each member that joins after the first generation causes another one. The broker's initial delay
  (group.initial.rebalance.delay.ms, KIP-134) postpones the first generation while members keep joining.
- A few members that start together cost at most one generation each and are not reported. Reported are more members
  over a longer time than the initial delay, or a larger number that does not join at once or costs several generations.
- If the members' logs contain their starts, these count instead of the joins: on a busy machine the last join can be
  late.
- If one rebalance covered all members, the delay worked and nothing needs to be done.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.departures import ExplainedDeparture
from slackwater.doctor.causes.finding import LIKELY, SURE, Finding, evidence, shown
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.rebalance_counter import INITIAL_DELAY_MS

MIN_MEMBERS: Final = 7
"""Fewer members cost only a few short rebalances."""
MANY_MEMBERS: Final = 8
_AT_ONCE_MS: Final = 1_000
_MIN_REBALANCES: Final = 3
STARTS = "whether they were started one after another or the machine was slow; add the clients' logs"


def startup_herd(history: GroupHistory, departures: Sequence[ExplainedDeparture]) -> Finding | None:
    """Find many members that started one after another."""
    if not history.has_start or not history.initial_clients:
        return None
    formed = [generation for generation in history.generations if generation.time_ms <= history.start_ended_ms]
    # The lines of some joins can be missing; the generation has the number of members.
    members = max(len(history.initial_clients), *(generation.members or 0 for generation in formed), 0)
    if members < MIN_MEMBERS:
        return None
    joins = sorted(timeline.intervals[0].joined_ms for timeline in history.initial_clients)
    logged = all(timeline.starts for timeline in history.initial_clients)
    started = sorted(timeline.starts[0].time_ms for timeline in history.initial_clients) if logged else joins
    spread = started[-1] - started[0]
    rounds = len(formed)
    is_slow = members >= MANY_MEMBERS and (spread > _AT_ONCE_MS or rounds >= _MIN_REBALANCES)
    if spread <= INITIAL_DELAY_MS and not is_slow:
        return None
    first = [timeline.intervals[0].began for timeline in history.initial_clients]
    return Finding(
        cause="startup_herd",
        culprits=tuple(timeline.name for timeline in history.initial_clients),
        times=tuple(generation.time_ms for generation in formed),
        confidence=SURE if logged else LIKELY,
        missing_input=() if logged else (STARTS,),
        evidence=shown(
            [
                evidence(first[0], f"the first of {members} members joined"),
                evidence(first[-1], f"the last of them joined {(joins[-1] - joins[0]) / 1000:.1f} s later"),
            ]
        ),
        figures={"spread_ms": spread, "rounds": rounds, "members": members},
    )
