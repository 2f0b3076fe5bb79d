"""Partition assignors (range, round robin, sticky, cooperative-sticky) and the bytes they read and write.

Invariants:
- An assignor is a pure function: cluster and subscriptions in, one assignment per member out (`assignor.py`). The order
  in which members are listed does not matter.
- Assignors work on arrays of partition numbers (`layout.py`); `TopicPartition` tuples are created on demand.
- `registry.py` maps names to assignors.
"""

from slackwater.group.assignors.assignor import Assignor, MemberSubscription, RebalanceProtocol, TopicInfo
from slackwater.group.assignors.range_assignor import RangeAssignor
from slackwater.group.assignors.registry import get_assignor
from slackwater.group.assignors.round_robin import RoundRobinAssignor
from slackwater.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "MemberSubscription",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "TopicInfo",
    "assignor",
    "get_assignor",
]

assignor = get_assignor  # its name in 0.2.0
