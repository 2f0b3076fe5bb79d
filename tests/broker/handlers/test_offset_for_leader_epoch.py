"""OffsetForLeaderEpoch: there is one epoch, and it ends where the log ends."""

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
def test_the_end_of_the_only_epoch_and_nothing_of_others(tmp_path: Path, version: int) -> None:
    async def story(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        await send(client, "t", 0, b"a", b"b")

        async def ask(current: int, epoch: int, topic: str = "t", index: int = 0) -> tuple[int, int, int]:
            asked = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(index, current, epoch)])
            response = await client.ask(
                OffsetForLeaderEpochRequest(topics=[asked]), OffsetForLeaderEpochResponse, version
            )
            ((row,),) = (one.partitions for one in response.topics)
            assert (response.topics[0].topic, row.partition) == (topic, index)
            return row.error_code, row.leader_epoch, row.end_offset

        assert await ask(-1, 0) == (Error.NONE, 0, 2)
        assert await ask(0, 0) == (Error.NONE, 0, 2)
        assert await ask(-1, 1) == (Error.NONE, -1, -1)
        assert await ask(-1, -1) == (Error.NONE, -1, -1)
        assert await ask(1, 0) == (Error.UNKNOWN_LEADER_EPOCH, -1, -1)
        assert await ask(-1, 0, "gone") == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        assert await ask(-1, 0, "t", 1) == (Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)

    with_server(tmp_path, story)
