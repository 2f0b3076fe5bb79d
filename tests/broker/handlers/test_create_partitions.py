"""CreatePartitions: topics grow, and never shrink."""

from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.storage.topics import OFFSETS_TOPIC
from slackwater.group.errors import Error
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)

from ..server_client import Client, with_server


def to(count: int, *brokers: list[int], name: str = "t") -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name, count, [CreatePartitionsAssignment(one) for one in brokers] or None)


def test_a_topic_grows_and_keeps_what_it_has(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        before = list(topic.partitions)
        client = await Client.connect(server)
        answer = await client.ask(CreatePartitionsRequest([to(5)], validate_only=True), CreatePartitionsResponse)
        assert (answer.results[0].error_code, len(topic.partitions)) == (0, 2)
        await client.ask(CreatePartitionsRequest([to(3)]), CreatePartitionsResponse)
        await client.ask(CreatePartitionsRequest([to(5, [1], [1])]), CreatePartitionsResponse)
        assert [one.index for one in topic.partitions] == [0, 1, 2, 3, 4]
        assert topic.partitions[:2] == before
        client.close()

    async def look(server: Server) -> None:
        topic = server.broker.topics.get("t")
        assert topic is not None
        assert len(topic.partitions) == 5

    with_server(tmp_path, story)
    with_server(tmp_path, look)


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (to(2), Error.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (to(1), Error.INVALID_PARTITIONS, "currently has 2 partition(s); 1 would not be an increase."),
        (to(20_000), Error.INVALID_PARTITIONS, "use 10000 or less"),
        (to(3, name="nix"), Error.UNKNOWN_TOPIC_OR_PARTITION, "'nix'"),
        (to(9, name=OFFSETS_TOPIC), Error.INVALID_PARTITIONS, "cannot grow"),
        (to(4, [1]), Error.INVALID_REPLICA_ASSIGNMENT, "add 2 additional partition(s), but only 1 assignment(s)"),
        (to(3, [1], [1]), Error.INVALID_REPLICA_ASSIGNMENT, "add 1 additional partition(s), but 2 assignment(s)"),
        (to(3, [9]), Error.INVALID_REPLICA_ASSIGNMENT, "includes broker 9"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, wanted: CreatePartitionsTopic, error: Error, message: str) -> None:
    async def story(server: Server) -> None:
        server.broker.topics.create("t", 2)
        server.broker.create_offsets_topic()
        client = await Client.connect(server)
        answer = await client.ask(CreatePartitionsRequest([wanted]), CreatePartitionsResponse)
        assert answer.results[0].error_code == error
        assert message in (answer.results[0].error_message or "")
        client.close()

    with_server(tmp_path, story)


def test_a_topic_that_is_named_twice_does_not_grow(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        answer = await client.ask(CreatePartitionsRequest([to(2), to(3)]), CreatePartitionsResponse)
        assert [one.error_code for one in answer.results] == [Error.INVALID_REQUEST]
        assert len(topic.partitions) == 1
        client.close()

    with_server(tmp_path, story)
