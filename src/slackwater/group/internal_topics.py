"""The internal topics, and the partitions that store a group or a transactional id."""

from typing import Final

from slackwater.group.java_order import string_hash

OFFSETS_TOPIC: Final = "__consumer_offsets"
EVENTS_TOPIC: Final = "__group_events"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_GROUPS_TOPIC: Final = "__share_group_state"


def offsets_partition(group_id: str, partition_count: int) -> int:
    """Return the partition that stores a group (CO-01)."""
    return _partition_of(group_id, partition_count)


def transactions_partition(transactional_id: str, partition_count: int) -> int:
    """Return the partition that stores a transactional id (TX-52)."""
    return _partition_of(transactional_id, partition_count)


def _partition_of(key: str, partition_count: int) -> int:
    """Return Java's string hash, made positive, modulo the count."""
    code = string_hash(key)
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count
