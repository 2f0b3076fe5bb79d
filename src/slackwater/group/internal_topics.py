"""The internal topics, and the partition of the offsets topic that stores a group."""

from typing import Final

from slackwater.group.java_order import string_hash

OFFSETS_TOPIC: Final = "__consumer_offsets"
EVENTS_TOPIC: Final = "__group_events"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_GROUPS_TOPIC: Final = "__share_group_state"


def offsets_partition(group_id: str, partition_count: int) -> int:
    """Return the partition that stores a group: Java's string hash, made positive, modulo the count (CO-01)."""
    code = string_hash(group_id)
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count
