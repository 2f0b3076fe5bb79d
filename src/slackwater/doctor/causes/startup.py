"""A group that starts with many members, one after another.

Rules kept here
- Each member that joins a group after its first generation costs another; the broker's initial delay
  (group.initial.rebalance.delay.ms, KIP-134) holds the first one back while members keep coming.
- A few members that start together are no herd, whatever a busy machine makes of it: at worst they cost a generation
  each. A herd is more members than that, which come over a longer time than Kafka's own initial delay, or cost several
  generations.
- If the delay held all of them, it did its work, and nothing needs doing.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.absences import Reading
from slackwater.doctor.causes.finding import SURE, Finding, evidence, shown
from slackwater.doctor.defaults import INITIAL_DELAY_MS
from slackwater.doctor.history import GroupHistory

HERD: Final = 5
"""With fewer members a staggered start costs no more than a handful of short rounds."""
_ROUNDS: Final = 3


def startup_herd(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Many members that started one after another."""
    if not history.start_seen or len(history.starters) < HERD:
        return None
    joins = sorted(story.terms[0].joined_ms for story in history.starters)
    spread = joins[-1] - joins[0]
    rounds = sum(1 for one in history.generations if one.time_ms <= history.settled_ms)
    if spread <= INITIAL_DELAY_MS and rounds < _ROUNDS:
        return None
    first = [story.terms[0].began for story in history.starters]
    return Finding(
        cause="startup_herd",
        culprits=tuple(story.name for story in history.starters),
        times=tuple(one.time_ms for one in history.generations if one.time_ms <= history.settled_ms),
        confidence=SURE,
        evidence=shown(
            [
                evidence(first[0], f"the first of {len(joins)} members"),
                evidence(first[-1], f"the last of them, {spread / 1000:.1f} s later"),
            ]
        ),
        figures={"spread_ms": spread, "rounds": rounds, "members": len(joins)},
    )
