"""The order in which members are assigned partitions (AS-01).

Invariants:
- Static members come first, by instance id, so that a restart with a new member id changes nothing (RA-02); dynamic
  members follow, by member id.
"""

from collections.abc import Mapping

from slackwater.group.assignors.assignor import MemberSubscription
from slackwater.group.java_order import utf16_key


def in_member_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """The member ids, static members first."""

    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].group_instance_id
        return instance_id is None, utf16_key(member_id if instance_id is None else instance_id)

    return sorted(members, key=key)
