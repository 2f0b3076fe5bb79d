"""Eager rebalancing: every rebalance stops all members.

Invariants:
- This is a remark and never the cause: it makes each rebalance more expensive but starts none.
- It is made only for a group known to be eager with more than one rebalance after the start.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.finding import SURE, Finding
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.rebalances import RebalanceMode, RecordedRebalance

STOP_THE_WORLD: Final = "eager_stop_the_world"
_EAGER: Final = RebalanceMode.EAGER


def stop_the_world(history: GroupHistory, rebalances: Sequence[RecordedRebalance]) -> Finding | None:
    """Return how long all members of an eager group were stopped."""
    start_ended_ms = history.start_ended_ms
    later = [
        rebalance for rebalance in rebalances if rebalance.began_ms > start_ended_ms and rebalance.protocol == _EAGER
    ]
    stopped = sum(rebalance.duration_ms for rebalance in later)
    if len(later) < 2 or stopped == 0:
        return None
    return Finding(
        cause=STOP_THE_WORLD,
        culprits=(),
        times=tuple(rebalance.began_ms for rebalance in later),
        confidence=SURE,
        figures={"stopped_ms": stopped, "rounds": len(later)},
    )
