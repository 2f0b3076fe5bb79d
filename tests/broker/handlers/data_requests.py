"""Short ways to build Produce and Fetch requests and to read their responses."""

from collections.abc import Sequence

from slackwater.broker.storage.topics import Topic
from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from slackwater.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

from ..server_client import Client
from ..storage.log.batches import Read, Sent, batch, read_records

LAST_BY_NAME = 12  # the last version of both requests with topic names


def produce_request(
    topic: str, partition: int, records: bytes | bytearray | None, *, acks: int = -1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    data = [PartitionProduceData(partition, None if records is None else bytes(records))]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(topic, topic_id, data)])


def produced(response: ProduceResponse) -> PartitionProduceResponse:
    """Return the only partition of a response."""
    ((row,),) = (topic.partition_responses for topic in response.responses)
    return row


async def send(client: Client, topic: str, partition: int, *values: bytes) -> int:
    """Append records without an error and return the base offset."""
    records = batch(*(Sent(b"k", value) for value in values))
    row = produced(await client.request(produce_request(topic, partition, records), ProduceResponse, LAST_BY_NAME))
    assert row.error_code == Error.NONE, row
    return row.base_offset


def fetch_request(
    *positions: tuple[Topic, int, int],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 30,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[tuple[Topic, int]] = (),
    current_leader_epoch: int = -1,
) -> FetchRequest:
    """Build a fetch of topics, partitions and offsets."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic.name,
                topic.topic_id,
                [
                    FetchPartition(
                        index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=current_leader_epoch,
                    )
                ],
            )
            for topic, index, offset in positions
        ],
        forgotten_topics_data=[ForgottenTopic(topic.name, topic.topic_id, [index]) for topic, index in forgotten],
    )


def rows(response: FetchResponse) -> list[PartitionData]:
    """Return all partitions of a response."""
    return [data for topic in response.responses for data in topic.partitions]


def records_of(data: PartitionData) -> list[Read]:
    return read_records(data.records or b"")


def values(response: FetchResponse) -> list[bytes | None]:
    """Return the values of all records of a response."""
    return [record.value for data in rows(response) for record in records_of(data)]
