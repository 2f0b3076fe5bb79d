"""The round-robin assignor: deal all partitions out like cards.

Rules kept here
- Topics by name, partitions ascending, one circular pass over the members; a member that does not subscribe to a
  topic is passed over (RR-01). Members in the order of AS-01.
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
        """Deal the partitions out."""
        layout = GroupLayout(cluster, members, in_member_order(members))
        owner = np.empty(layout.partition_count, np.int64)
        turn = 0
        for topic, subscribers in enumerate(layout.subscribers(layout.subscribed())):
            start, end = int(layout.first[topic]), int(layout.first[topic + 1])
            first = int(np.searchsorted(subscribers, turn))
            dealt = subscribers[(first + np.arange(end - start)) % len(subscribers)]
            owner[start:end] = dealt
            turn = int(dealt[-1]) + 1  # past the last member, the search above wraps around to the first
        return layout.assignments(owner)
