"""Eager rebalancing: whatever the cause, everybody stops for it.

Rules kept here
- This is a remark, never the cause: it makes each rebalance dearer, it brings none about.
- It is made where it costs something: more than one round after the start, in a group known to be eager.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.finding import SURE, Finding
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.rebalances import Protocol, Rebalance

STOP_THE_WORLD: Final = "eager_stop_the_world"
_EAGER: Final = Protocol.EAGER


def stop_the_world(history: GroupHistory, rounds: Sequence[Rebalance]) -> Finding | None:
    """How long an eager group stood still."""
    settled_ms = history.settled_ms
    later = [one for one in rounds if one.began_ms > settled_ms and one.protocol == _EAGER]
    stopped = sum(one.duration_ms for one in later)
    if len(later) < 2 or stopped == 0:
        return None
    return Finding(
        cause=STOP_THE_WORLD,
        culprits=(),
        times=tuple(one.began_ms for one in later),
        confidence=SURE,
        figures={"stopped_ms": stopped, "rounds": len(later)},
    )
