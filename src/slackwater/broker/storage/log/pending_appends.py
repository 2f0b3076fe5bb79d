"""The appends of one turn of the loop: placed one after the other, then written together.

Rules kept here
- What waits here has offsets, but nobody may see them yet: the log's end and its producers move when the write is done.
- If the write fails, whoever waits is refused, and the turn goes on from the log's end.
"""

from typing import NamedTuple

from slackwater.broker.storage.log.producer_state import ProducerStateEntry
from slackwater.broker.storage.log.validation import Rejection
from slackwater.wire.records.compression import Buffer


class AppendInfo(NamedTuple):
    """An append that was written, or had been before."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class PlacedBatch(NamedTuple):
    """A batch that has its offset and is about to be written."""

    size: int
    last_offset: int
    max_timestamp: int


class PendingAppends:
    """What one call has placed and not yet written."""

    __slots__ = ("answers", "buffers", "changed", "end_offset", "placed", "size", "waiting")

    def __init__(self, end_offset: int) -> None:
        self.answers: list[AppendInfo | Rejection] = []
        self.end_offset = end_offset
        self.start()

    def start(self) -> None:
        """Nothing waits to be written."""
        self.buffers: list[Buffer] = []
        self.placed: list[PlacedBatch] = []
        self.changed: dict[int, ProducerStateEntry] = {}
        self.waiting: list[int] = []
        self.size = 0
