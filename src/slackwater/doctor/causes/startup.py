"""A group that starts with many members, one after another.

Rules kept here
- Each member that joins a group after its first generation costs another; the broker's initial delay
  (group.initial.rebalance.delay.ms, KIP-134) holds the first one back while members keep coming.
- A few members that start together are no herd, whatever a busy machine makes of it: at worst they cost a generation
  each. A herd is more members than that, which come over a longer time than Kafka's own initial delay. A crowd is one
  too if it does not come at once, or costs several generations.
- Processes that were started together are no herd, however long a busy machine takes until the last of them joins:
  where their logs tell when they came up, that counts, and not the joins.
- If the delay held all of them, it did its work, and nothing needs doing.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.absences import Reading
from slackwater.doctor.causes.finding import LIKELY, SURE, Finding, evidence, shown
from slackwater.doctor.defaults import INITIAL_DELAY_MS
from slackwater.doctor.timeline.group_history import GroupHistory

HERD: Final = 7
"""Half a dozen members or fewer cost no more than a handful of short rounds, however they start."""
CROWD: Final = 8
_AT_ONCE_MS: Final = 1_000
_ROUNDS: Final = 3
STARTS = "whether they were started one after another, or a busy machine was slow: ask for the clients' logs"


def startup_herd(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Many members that started one after another."""
    if not history.start_seen or len(history.starters) < HERD:
        return None
    joins = sorted(story.terms[0].joined_ms for story in history.starters)
    logged = all(story.starts for story in history.starters)
    came_up = sorted(story.starts[0].time_ms for story in history.starters) if logged else joins
    spread = came_up[-1] - came_up[0]
    rounds = sum(1 for one in history.generations if one.time_ms <= history.settled_ms)
    crowd = len(joins) >= CROWD and (spread > _AT_ONCE_MS or rounds >= _ROUNDS)
    if spread <= INITIAL_DELAY_MS and not crowd:
        return None
    first = [story.terms[0].began for story in history.starters]
    return Finding(
        cause="startup_herd",
        culprits=tuple(story.name for story in history.starters),
        times=tuple(one.time_ms for one in history.generations if one.time_ms <= history.settled_ms),
        confidence=SURE if logged else LIKELY,
        missing=() if logged else (STARTS,),
        evidence=shown(
            [
                evidence(first[0], f"the first of {len(joins)} members"),
                evidence(first[-1], f"the last of them, {(joins[-1] - joins[0]) / 1000:.1f} s later"),
            ]
        ),
        figures={"spread_ms": spread, "rounds": rounds, "members": len(joins)},
    )
