"""A committed position in a partition, under Kafka's name for it."""

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """An offset to commit or read back, with its leader epoch and the metadata stored with it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
