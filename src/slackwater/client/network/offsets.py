"""Offsets by time: the beginning and the end of partitions, and the first record from a time on.

Rules kept here
- Every partition's leader is asked, all leaders at the same time. Who is not the leader any more is asked again, after
  a refresh of the metadata and a pause, until the time is over.
- An error that no retry mends is raised with the partition it belongs to.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.group.errors import BrokerError, Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
CONSUMER: Final = -1  # who asks: no replica


class OffsetAndTimestamp(NamedTuple):
    """A record's offset and time; for the beginning and the end of a partition the time is -1."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_s: float | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The offset for each timestamp (`LATEST` and `EARLIEST` are such); None where no record is as new."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (cluster.config.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s)
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    pause_s = cluster.config.retry_backoff_ms / 1000
    last: Exception | None = None
    while left := {partition: time for partition, time in wanted.items() if partition not in found}:
        now_found, error = await ask_leaders(cluster, left, read_committed=read_committed)
        found |= now_found
        last = error or last
        if len(found) == len(wanted):
            break
        if loop.time() + pause_s > deadline:
            names = ", ".join(str(partition) for partition in sorted(set(wanted) - set(found))[:5])
            why = f" {last}" if last is not None else " They have no leader, or do not exist."
            raise ClientTimeoutError(f"The offsets of {names} could not be had in time.{why}")
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, cluster.config.retry_backoff_max_ms / 1000)
        try:
            await cluster.refresh({partition.topic for partition in left})
        except NetworkError as failed:
            last = failed
    return found


async def ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> tuple[dict[TopicPartition, OffsetAndTimestamp | None], NetworkError | None]:
    """One round: what the leaders that can be reached know, and why one could not be."""
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    failed: NetworkError | None = None
    if any(cluster.leader(*partition) is None for partition in wanted):
        try:
            await cluster.refresh({partition.topic for partition in wanted})
        except NetworkError as error:
            failed = error
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for partition, time in wanted.items():
        if (leader := cluster.leader(*partition)) is not None:
            by_leader[leader.leader][partition] = time
    rounds = [_ask(cluster, node, asked, read_committed) for node, asked in by_leader.items()]
    for outcome in await asyncio.gather(*rounds, return_exceptions=True):
        if isinstance(outcome, dict):
            found |= outcome
        elif isinstance(outcome, NetworkError):
            failed = outcome
        else:
            raise outcome
    return found, failed


async def _ask(
    cluster: Cluster, node_id: int, asked: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """What one leader knows; partitions with an error that passes are left out."""
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, time in sorted(asked.items()):
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        leader = cluster.leader(*partition)
        epoch = leader.leader_epoch if leader is not None else -1
        topic.partitions.append(
            ListOffsetsPartition(partition_index=partition.partition, current_leader_epoch=epoch, timestamp=time)
        )
    connection = await cluster.connection_to(node_id)
    answer = await connection.request(
        ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=int(read_committed),
            topics=list(topics.values()),
            timeout_ms=cluster.config.request_timeout_ms,
        ),
        ListOffsetsResponse,
        timeout_s=cluster.config.request_timeout_ms / 1000,
    )
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    for row in answer.topics:
        for one in row.partitions:
            partition = TopicPartition(row.name, one.partition_index)
            error = Error(one.error_code)
            if error is Error.NONE:
                known = OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)
                found[partition] = known if one.offset >= 0 else None
            elif not error.retriable:
                raise BrokerError(error, f"The offset of {partition} could not be had: {error.name}.")
    return found
