"""Reads the last records of a partition, newest first.

Invariants:
- No more records are read than requested, however long the partition is.
"""

from collections.abc import AsyncIterator
from typing import Final

from slackwater.client.network.cluster import Cluster
from slackwater.client.network.fetch import FetchOptions
from slackwater.client.network.offsets import EARLIEST, LATEST, list_offsets
from slackwater.client.network.range_reader import RangeReader
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.fetched import read_records
from slackwater.wire.records.record import Record

STEP_RECORDS: Final = 2_000  # most callers stop after a few records
_OPTIONS: Final = FetchOptions(max_bytes=1 << 20, max_partition_bytes=1 << 20, max_wait_ms=0)


async def read_newest_first(cluster: Cluster, partition: TopicPartition, max_records: int) -> AsyncIterator[Record]:
    """Yield the last `max_records` records, the newest first."""
    ends = await list_offsets(cluster, {partition: LATEST})
    starts = await list_offsets(cluster, {partition: EARLIEST})
    end, start = ends[partition], starts[partition]
    if end is None or start is None:
        return
    first = max(start.offset, end.offset - max_records)
    until = end.offset
    while until > first:
        since = max(first, until - STEP_RECORDS)
        for record in reversed(await read_range(cluster, OffsetRange(*partition, since, until))):
            yield record
        until = since


async def read_range(cluster: Cluster, offsets: OffsetRange) -> list[Record]:
    """Return the records of a range that still exist."""
    reader = RangeReader(
        cluster,
        offsets,
        _OPTIONS,
        timeout_ms=cluster.config.request_timeout_ms,
        timeout_setting="request.timeout.ms",
        on_data_loss=lambda _lost, _seen: None,
    )
    records: list[Record] = []
    position = offsets.from_offset
    while (batches := await reader.read(position)) is not None:
        records += read_records(batches.data, batches.start_offset, offsets.until_offset).records
        position = batches.next_offset
    return records
