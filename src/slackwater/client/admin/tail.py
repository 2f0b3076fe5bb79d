"""The last records of a partition, read from the end backwards.

Rules kept here
- Bounded: no more records than asked for are read, however long the partition is.
- Every fetch stands alone: no session, no position, nothing that another reader could notice.
"""

from collections.abc import AsyncIterator
from typing import Final

from slackwater.client.network.cluster import Cluster
from slackwater.client.network.offsets import EARLIEST, LATEST, list_offsets
from slackwater.group.errors import BrokerError, Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.apis import FETCH
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.records.fetched import read_records
from slackwater.wire.records.record import Record
from slackwater.wire.schema import NO_UUID

STEP: Final = 2_000  # records; most questions are answered by the last few
FETCH_BYTES: Final = 1 << 20
BY_NAME: Final = 12  # the newest Fetch that names topics


async def newest_first(cluster: Cluster, partition: TopicPartition, most: int) -> AsyncIterator[Record]:
    """The last `most` records, the newest first."""
    ends = await list_offsets(cluster, {partition: LATEST})
    starts = await list_offsets(cluster, {partition: EARLIEST})
    end, start = ends[partition], starts[partition]
    if end is None or start is None:
        return
    first = max(start.offset, end.offset - most)
    until = end.offset
    while until > first:
        since = max(first, until - STEP)
        for record in reversed(await between(cluster, partition, since, until)):
            yield record
        until = since


async def between(cluster: Cluster, partition: TopicPartition, since: int, until: int) -> list[Record]:
    found: list[Record] = []
    while since < until:
        data = await _fetch(cluster, partition, since)
        came = read_records(data, since, until)
        if came.next_offset <= since:  # nothing is there any more
            break
        found += came.records
        since = came.next_offset
    return found


async def _fetch(cluster: Cluster, partition: TopicPartition, offset: int) -> bytes:
    leader, topic = cluster.leader(*partition), cluster.topics.get(partition.topic)
    if leader is None or topic is None:
        raise BrokerError(Error.LEADER_NOT_AVAILABLE, f"{partition} has no leader.")
    connection = await cluster.connection_to(leader.leader)
    version = connection.version_of(FETCH)
    if topic.topic_id == NO_UUID:
        version = min(version, BY_NAME)
    request = FetchRequest(
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=[
            FetchTopic(
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
                ],
            )
        ],
    )
    timeout_s = cluster.config.request_timeout_ms / 1000
    answer = await connection.request(request, FetchResponse, timeout_s=timeout_s, version=version)
    if answer.error_code:
        raise BrokerError(Error(answer.error_code))
    row = answer.responses[0].partitions[0]
    if row.error_code:
        raise BrokerError(Error(row.error_code))
    return bytes(row.records or b"")
