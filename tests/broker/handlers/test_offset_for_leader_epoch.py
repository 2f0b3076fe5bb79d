"""OffsetForLeaderEpoch: there is one epoch, and it ends at the log end offset."""

from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from ..server_client import Client, with_server
from .data_requests import send


@pytest.mark.parametrize("version", [2, 3, 4])
def test_only_the_current_epoch_has_an_end_offset(tmp_path: Path, version: int) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        await send(client, "t", 0, b"a", b"b")

        async def end_offset(current: int, epoch: int, topic: str = "t", index: int = 0) -> tuple[int, int, int]:
            topic_request = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(index, current, epoch)])
            response = await client.request(
                OffsetForLeaderEpochRequest(topics=[topic_request]), OffsetForLeaderEpochResponse, version
            )
            ((row,),) = (topic_response.partitions for topic_response in response.topics)
            assert (response.topics[0].topic, row.partition) == (topic, index)
            return row.error_code, row.leader_epoch, row.end_offset

        assert await end_offset(-1, 0) == (Error.NONE, 0, 2)
        assert await end_offset(0, 0) == (Error.NONE, 0, 2)
        assert await end_offset(-1, 1) == (Error.NONE, -1, -1)
        assert await end_offset(-1, -1) == (Error.NONE, -1, -1)
        assert await end_offset(1, 0) == (Error.UNKNOWN_LEADER_EPOCH, -1, -1)
        assert await end_offset(-1, 0, "gone") == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        assert await end_offset(-1, 0, "t", 1) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)

    with_server(tmp_path, scenario)
