"""What a query's checkpoint knows of a batch: the offset that Spark keeps for the source.

Rules kept here
- A batch is what its own offset says, and not the difference of two: `ranges` has what it reads of every partition that
  the query had when it was planned, also those it read nothing of.
- `seq` grows with every batch that was planned, and with nothing else.
- `starts` are the places where partitions begin that nobody has committed, resolved once, when the query first started.
  A partition that is not among them was added later, and begins at its beginning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class BatchOffset:
    """One batch, or with `seq` 0 the place before the first."""

    token: str
    seq: int
    group_id: str | None
    generation_id: int = NO_GENERATION
    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many offsets the batch spans."""
        return sum(one.size for one in self.ranges.values())
