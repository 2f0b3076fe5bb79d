"""Fetch requests and responses. The consumer, the Spark source and the admin client all fetch through this module.

Invariants:
- A request names topics by id only if every topic of its session has one.
- A response has at most `max_bytes` of records, or one larger batch: its size is limited by `max_bytes` and
  MAX_RESPONSE_BYTES together.
- Fetched bytes are never decoded here; `FetchedData` starts at the first record the reader has not read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from slackwater.client.network.cluster import Cluster
from slackwater.client.network.connection import MAX_RESPONSE_BYTES, BrokerConnection
from slackwater.client.network.fetch_session import FetchPosition, SessionRequest
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import MAX_INT
from slackwater.wire.apis import FETCH
from slackwater.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from slackwater.wire.records.batch import end_offset
from slackwater.wire.records.compression import Buffer
from slackwater.wire.schema import NO_UUID

LAST_FETCH_VERSION_BY_NAME: Final = 12  # newer versions take topic ids (KIP-516)
_FIRST_VERSION_WITH_SESSIONS: Final = 7
_STALE_METADATA: Final = frozenset(
    {
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.LEADER_NOT_AVAILABLE,
        Error.REPLICA_NOT_AVAILABLE,
        Error.KAFKA_STORAGE_ERROR,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The limits of a Fetch request."""

    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_partition_bytes: int = 1_048_576
    max_wait_ms: int = 500
    read_committed: bool = False
    client_rack: str = ""


@dataclass(frozen=True, slots=True)
class FetchedData:
    """Whole record batches of one partition.

    `aborted` lists the aborted transactions to leave out, as pairs of producer id and first offset. It is None under
    read_uncommitted.
    """

    data: Buffer
    start_offset: int
    next_offset: int
    aborted: list[tuple[int, int]] | None


class FetchStatus(Enum):
    """How a reader handles the error code of a partition."""

    OK = "ok"
    OUT_OF_RANGE = "out of range"
    STALE_METADATA = "refresh the metadata, then retry"
    RETRIABLE = "retry"
    FATAL = "raise"


def fetch_status(error: Error) -> FetchStatus:
    """Classify the error code of a partition in a Fetch response, as Kafka's FetchCollector does.

    CORRUPT_MESSAGE is retriable for a producer. For a reader it means that the log is damaged at this offset.
    """
    if error is Error.NONE:
        return FetchStatus.OK
    if error is Error.OFFSET_OUT_OF_RANGE:
        return FetchStatus.OUT_OF_RANGE
    if error in _STALE_METADATA:
        return FetchStatus.STALE_METADATA
    if error is Error.CORRUPT_MESSAGE:
        return FetchStatus.FATAL
    return FetchStatus.RETRIABLE if error.retriable or error is Error.UNKNOWN_SERVER_ERROR else FetchStatus.FATAL


def fetch_position(cluster: Cluster, partition: TopicPartition, offset: int, max_bytes: int) -> FetchPosition:
    """Return the position of a partition with the topic id and leader epoch of the current metadata."""
    topic = cluster.topics.get(partition.topic)
    leader = cluster.leader(*partition)
    topic_id = topic.topic_id if topic is not None else NO_UUID
    return FetchPosition(topic_id, offset, leader.leader_epoch if leader is not None else -1, max_bytes)


async def send_fetch(
    cluster: Cluster, connection: BrokerConnection, request: SessionRequest, options: FetchOptions
) -> FetchResponse:
    """Send one Fetch request and return its response."""
    version = connection.version_of(FETCH)
    if request.by_name:
        version = min(version, LAST_FETCH_VERSION_BY_NAME)
    return await connection.request(
        _build_request(cluster, request, options, version),
        FetchResponse,
        timeout_s=(cluster.config.request_timeout_ms + options.max_wait_ms) / 1000,
        version=version,
        max_bytes=min(options.max_bytes + MAX_RESPONSE_BYTES, MAX_INT),
    )


def _build_request(cluster: Cluster, request: SessionRequest, options: FetchOptions, version: int) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for partition, position in request.positions.items():
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=position.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                partition_max_bytes=position.max_bytes,
            )
        )
    forgotten: dict[str, ForgottenTopic] = {}
    for partition in request.forgotten:
        removed = forgotten.get(partition.topic)
        if removed is None:
            metadata = cluster.topics.get(partition.topic)
            topic_id = metadata.topic_id if metadata is not None else NO_UUID
            removed = forgotten[partition.topic] = ForgottenTopic(topic=partition.topic, topic_id=topic_id)
        removed.partitions.append(partition.partition)
    return FetchRequest(
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        isolation_level=int(options.read_committed),
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()) if version >= _FIRST_VERSION_WITH_SESSIONS else [],
        rack_id=options.client_rack,
    )


def fetched_partitions(cluster: Cluster, response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Yield every partition of a response; from version 13 on, topics are named by their ids."""
    for topic in response.responses:
        name = topic.topic or cluster.names_by_id.get(topic.topic_id, "")
        for data in topic.partitions:
            yield TopicPartition(name, data.partition_index), data


def fetched_data(data: PartitionData, offset: int, *, read_committed: bool) -> FetchedData | None:
    """Return the batches of a partition's response, or None if they end before or at `offset`."""
    if not data.records:
        return None
    next_offset = end_offset(data.records)
    if next_offset is None or next_offset <= offset:
        return None
    aborted = None
    if read_committed:
        aborted = [
            (transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()
        ]
    return FetchedData(data.records, offset, next_offset, aborted)
