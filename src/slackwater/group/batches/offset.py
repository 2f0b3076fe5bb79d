"""The offset of a batch as Spark stores it in the checkpoint.

Invariants:
- An offset describes its own batch, not the difference to the previous offset: `ranges` contains every partition that
  the query had when the batch was planned, also those without new records.
- `seq` increases with every planned batch, and only then.
- `starts` are the start offsets of partitions without a committed offset, resolved once at the first start of the
  query. A partition that is not among them was added later and starts at its beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.group.messages import NO_GENERATION
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class BatchOffset:
    """One batch; `seq` 0 is the position before the first batch."""

    checkpoint_id: str
    seq: int
    group_id: str | None
    generation_id: int = NO_GENERATION
    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of offsets in the batch."""
        return sum(offset_range.size for offset_range in self.ranges.values())
