"""The round-robin assignor.

Invariants:
- Topics by name, partitions ascending, one circular pass over the members; members that do not subscribe to a topic are
  skipped (RR-01). Members in the order of AS-01.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slackwater.group.assignors.assignor import Assignor, MemberSubscription, TopicInfo
from slackwater.group.assignors.consumer_protocol import Assignment
from slackwater.group.assignors.layout import GroupLayout
from slackwater.group.assignors.member_order import in_member_order


class RoundRobinAssignor(Assignor):
    """Java's `RoundRobinAssignor`."""

    name: ClassVar[str] = "roundrobin"
    built_in: ClassVar[bool] = True

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        """Assign the partitions in turn."""
        layout = GroupLayout(cluster, members, in_member_order(members))
        owner = np.empty(layout.partition_count, np.int64)
        turn = 0
        for topic, subscribers in enumerate(layout.subscribers(layout.subscribed())):
            start, end = int(layout.first[topic]), int(layout.first[topic + 1])
            first = int(np.searchsorted(subscribers, turn))
            takers = subscribers[(first + np.arange(end - start)) % len(subscribers)]
            owner[start:end] = takers
            turn = int(takers[-1]) + 1  # after the last member, the search above wraps to the first
        return layout.assignments(owner)
