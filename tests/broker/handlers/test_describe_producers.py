"""DescribeProducers: the active producers of a partition."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from slackwater.wire.messages.produce import ProduceResponse

from ..server_client import Client, with_server
from ..storage.log.batches import NOW_MS, Sent, batch
from .data_requests import LAST_BY_NAME, produce_request


def test_producers_have_their_last_batch(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 2)
        client = await Client.connect(server)
        for producer_id, epoch, sequence in ((7, 0, 0), (7, 0, 2), (8, 3, 0)):
            records = batch(
                Sent(), Sent(timestamp=NOW_MS + sequence), producer_id=producer_id, epoch=epoch, sequence=sequence
            )
            await client.request(produce_request("t", 0, records), ProduceResponse, LAST_BY_NAME)
        request = DescribeProducersRequest(
            [TopicRequest("t", [0, 1, 2]), TopicRequest("gone", [0]), TopicRequest("?", [0])]
        )
        response = await client.request(request, DescribeProducersResponse)
        rows = [row for topic in response.topics for row in topic.partitions]
        assert rows[0].active_producers == [
            ProducerState(7, 0, 3, NOW_MS + 2, -1, -1),
            ProducerState(8, 3, 1, NOW_MS, -1, -1),
        ]
        assert rows[1].active_producers == []
        assert [row.error_code for row in rows] == [
            Error.NONE,
            Error.NONE,
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            Error.INVALID_TOPIC_EXCEPTION,
        ]

    with_server(tmp_path, scenario)
