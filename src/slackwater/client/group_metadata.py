"""A consumer's place in its group, which a transactional producer sends with the group's offsets (KIP-447)."""

from typing import NamedTuple


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's place in its group, as in Java's `groupMetadata()`; generation_id is -1 before the first join."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
