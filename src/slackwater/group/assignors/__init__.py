"""Who gets which partitions: range, round robin, sticky, cooperative-sticky, and the bytes they read and write.

Rules kept here
- An assignor is a function: cluster and subscriptions in, one assignment per member out (`assignor.py`). It keeps
  nothing, and the order in which members are listed does not matter.
- Work is done on arrays of partition numbers (`layout.py`); tuples are made only for whoever asks.
- Names lead to assignors in one place (`registry.py`).
"""

from slackwater.group.assignors.assignor import Assignor, MemberSubscription, RebalanceProtocol, TopicInfo
from slackwater.group.assignors.range_assignor import RangeAssignor
from slackwater.group.assignors.registry import assignor
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
]
