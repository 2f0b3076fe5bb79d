"""CreatePartitions: topics grow and never shrink."""

from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)

from ..server_client import Client, with_server


def grow_to(count: int, *brokers: list[int], name: str = "t") -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name, count, [CreatePartitionsAssignment(replicas) for replicas in brokers] or None)


def test_new_partitions_keep_the_existing_ones(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2)
        before = list(topic.partitions)
        client = await Client.connect(server)
        response = await client.request(
            CreatePartitionsRequest([grow_to(5)], validate_only=True), CreatePartitionsResponse
        )
        assert (response.results[0].error_code, len(topic.partitions)) == (0, 2)
        await client.request(CreatePartitionsRequest([grow_to(3)]), CreatePartitionsResponse)
        await client.request(CreatePartitionsRequest([grow_to(5, [1], [1])]), CreatePartitionsResponse)
        assert [partition.index for partition in topic.partitions] == [0, 1, 2, 3, 4]
        assert topic.partitions[:2] == before
        client.close()

    async def check_after_restart(server: Server) -> None:
        topic = server.broker.topics.get("t")
        assert topic is not None
        assert len(topic.partitions) == 5

    with_server(tmp_path, scenario)
    with_server(tmp_path, check_after_restart)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (grow_to(2), Error.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (grow_to(1), Error.INVALID_PARTITIONS, "currently has 2 partition(s); 1 would not be an increase."),
        (grow_to(20_000), Error.INVALID_PARTITIONS, "use 10000 or less"),
        (grow_to(3, name="nix"), Error.UNKNOWN_TOPIC_OR_PARTITION, "'nix'"),
        (grow_to(9, name=OFFSETS_TOPIC), Error.INVALID_PARTITIONS, "cannot grow"),
        (grow_to(4, [1]), Error.INVALID_REPLICA_ASSIGNMENT, "add 2 additional partition(s), but only 1 assignment(s)"),
        (grow_to(3, [1], [1]), Error.INVALID_REPLICA_ASSIGNMENT, "add 1 additional partition(s), but 2 assignment(s)"),
        (grow_to(3, [9]), Error.INVALID_REPLICA_ASSIGNMENT, "includes broker 9"),
    ],
)
def test_invalid_changes_are_rejected(
    tmp_path: Path, change: CreatePartitionsTopic, error: Error, message: str
) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 2)
        server.broker.create_offsets_topic()
        client = await Client.connect(server)
        response = await client.request(CreatePartitionsRequest([change]), CreatePartitionsResponse)
        assert response.results[0].error_code == error
        assert message in (response.results[0].error_message or "")
        client.close()

    with_server(tmp_path, scenario)


def test_duplicate_topic_is_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        response = await client.request(CreatePartitionsRequest([grow_to(2), grow_to(3)]), CreatePartitionsResponse)
        assert [result.error_code for result in response.results] == [Error.INVALID_REQUEST]
        assert len(topic.partitions) == 1
        client.close()

    with_server(tmp_path, scenario)
