"""ListOffsets: the first and last offset of partitions, and the first offset from a timestamp on.

Invariants:
- The leaders of all partitions are queried in parallel. A partition whose leader has moved is retried after a metadata
  refresh and a backoff, until the timeout.
- An error that no retry resolves is raised with the name of its partition.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.backoff import RetryBackoff
from slackwater.client.network.cluster import Cluster
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
_NO_REPLICA: Final = -1


class OffsetAndTimestamp(NamedTuple):
    """The offset and timestamp of a record; the timestamp is -1 for `EARLIEST` and `LATEST`."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_s: float | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Return the offset for each timestamp, `LATEST` or `EARLIEST`; None where no record is as new."""
    config = cluster.config
    backoff = RetryBackoff(config, config.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s)
    offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    last_error: Exception | None = None
    while missing := {partition: time for partition, time in timestamps.items() if partition not in offsets}:
        received, error = await list_offsets_once(cluster, missing, read_committed=read_committed)
        offsets |= received
        last_error = error or last_error
        if len(offsets) == len(timestamps):
            break
        if backoff.is_exhausted:
            names = ", ".join(str(partition) for partition in sorted(set(timestamps) - set(offsets))[:5])
            reason = f" {last_error}" if last_error is not None else " They have no leader, or do not exist."
            raise ClientTimeoutError(f"Listing the offsets of {names} timed out.{reason}")
        await backoff.wait()
        try:
            await cluster.refresh({partition.topic for partition in missing})
        except NetworkError as failed:
            last_error = failed
    return offsets


async def list_offsets_once(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> tuple[dict[TopicPartition, OffsetAndTimestamp | None], NetworkError | None]:
    """Query every reachable leader once; also return the error of a leader that was not reachable."""
    offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    failure: NetworkError | None = None
    if any(cluster.leader(*partition) is None for partition in timestamps):
        try:
            await cluster.refresh({partition.topic for partition in timestamps})
        except NetworkError as error:
            failure = error
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for partition, time in timestamps.items():
        if (leader := cluster.leader(*partition)) is not None:
            by_leader[leader.leader][partition] = time
    requests = [_query_leader(cluster, node_id, times, read_committed) for node_id, times in by_leader.items()]
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, dict):
            offsets |= outcome
        elif isinstance(outcome, NetworkError):
            failure = outcome
        else:
            raise outcome
    return offsets, failure


async def _query_leader(
    cluster: Cluster, node_id: int, timestamps: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Return the offsets that one leader knows, without the partitions that have a retriable error."""
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, time in sorted(timestamps.items()):
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        leader = cluster.leader(*partition)
        epoch = leader.leader_epoch if leader is not None else -1
        topic.partitions.append(
            ListOffsetsPartition(partition_index=partition.partition, current_leader_epoch=epoch, timestamp=time)
        )
    connection = await cluster.connection_to(node_id)
    response = await connection.request(
        ListOffsetsRequest(
            replica_id=_NO_REPLICA,
            isolation_level=int(read_committed),
            topics=list(topics.values()),
            timeout_ms=cluster.config.request_timeout_ms,
        ),
        ListOffsetsResponse,
        timeout_s=cluster.config.request_timeout_ms / 1000,
    )
    offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    for row in response.topics:
        for data in row.partitions:
            partition = TopicPartition(row.name, data.partition_index)
            error = Error(data.error_code)
            if error is Error.NONE:
                offset = OffsetAndTimestamp(data.offset, data.timestamp, data.leader_epoch)
                offsets[partition] = offset if data.offset >= 0 else None
            elif not error.retriable:
                text = f"The offset of {partition} cannot be listed: {error.name}."
                raise cluster.error(error, text, f"Describe on topic {partition.topic}")
    return offsets
