"""Fetches and whether they wait, as Apache Kafka 4.3.1 decides; tested on the broker and on Kafka."""

from typing import Final, NamedTuple

from ..storage.log.batches import sized

SEGMENT_BYTES: Final = 1 << 20  # the smallest that Kafka accepts: three batches of 300,000 bytes
BATCH: Final = 300_000


class FetchCase(NamedTuple):
    """A fetch: the batches of each partition, of one record each, and the limits of the request."""

    title: str
    waits: bool
    min_bytes: int
    batches: tuple[int, ...]  # the number of batches in each partition
    offsets: tuple[int, ...]
    partition_max_bytes: int = 1 << 20
    max_bytes: int = 50 << 20
    segment_bytes: int = 1 << 30
    batch_bytes: int = BATCH

    def records(self) -> bytearray:
        """One batch."""
        return sized(self.batch_bytes)


CASES: Final = (
    FetchCase("limit inside a batch", False, 1_000_000, (4,), (0,)),
    FetchCase("too few bytes", True, 1_000_000, (3,), (0,)),
    FetchCase("exactly min_bytes", False, 3 * BATCH, (3,), (0,)),
    FetchCase("one byte too few", True, 3 * BATCH + 1, (3,), (0,)),
    FetchCase("end of the log", True, 2, (3,), (3,)),
    FetchCase("end of the log without min_bytes", False, 0, (3,), (3,)),
    FetchCase("end of an older segment", False, 1_000_000, (4,), (2,), segment_bytes=SEGMENT_BYTES),
    FetchCase("last segment", True, 1_000_000, (4,), (3,), segment_bytes=SEGMENT_BYTES),
    FetchCase("end after a full segment", True, 1_000_000, (3,), (3,), segment_bytes=SEGMENT_BYTES),
    FetchCase("last segment is full", True, 1_000_000, (3,), (2,), segment_bytes=SEGMENT_BYTES),
    FetchCase("older segment of the second partition", False, 1_000_000, (1, 4), (1, 2), segment_bytes=SEGMENT_BYTES),
    FetchCase("partition limit is min_bytes", False, 500_000, (4,), (0,), partition_max_bytes=500_000),
    FetchCase("partition limit below min_bytes", True, 500_001, (4,), (0,), partition_max_bytes=500_000),
    FetchCase("first batch is larger than its limit", False, BATCH, (2,), (0,), partition_max_bytes=100_000),
    FetchCase("large first batch is too small", True, BATCH + 1, (2,), (0,), partition_max_bytes=100_000),
    FetchCase("limits of three partitions", False, 600_000, (2, 2, 2), (0, 0, 0), partition_max_bytes=200_000),
    FetchCase("limits of three are too small", True, 600_001, (2, 2, 2), (0, 0, 0), partition_max_bytes=200_000),
    FetchCase("other partitions do not fit", False, 400_000, (1, 1, 1), (0, 0, 0), max_bytes=400_000),
    FetchCase("second partition is empty", False, BATCH, (1, 0), (0, 0)),
    FetchCase("second partition is read", True, BATCH + 1, (1, 1), (0, 1)),
    FetchCase("min_bytes larger than max_bytes", False, 10_000_000, (4,), (0,), max_bytes=500_000),
    FetchCase("fewer bytes than max_bytes", True, 10_000_000, (1,), (0,), max_bytes=500_000),
    FetchCase("max_bytes is inside the first batch", False, 10_000_000, (1, 1), (0, 0), max_bytes=100_000),
)
