"""DescribeTopicPartitions: pages of topics, sorted by name."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)

from ..server_client import Client, with_server

Page = list[tuple[str | None, int, list[int]]]


async def page(
    client: Client, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[Page, tuple[str, int] | None]:
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], limit, None if cursor is None else RequestCursor(*cursor)
    )
    response = await client.request(request, DescribeTopicPartitionsResponse)
    topics = [
        (topic.name, topic.error_code, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]
    next_cursor = response.next_cursor
    return topics, None if next_cursor is None else (next_cursor.topic_name, next_cursor.partition_index)


def test_pages_cover_all_topics(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
            server.broker.topics.create(name, partitions)
        client = await Client.connect(server)
        assert await page(client) == ([("a", 0, [0, 1]), ("b", 0, [0, 1, 2]), ("c", 0, [0])], None)
        listed: Page = []
        cursor: tuple[str, int] | None = None
        for _ in range(10):
            topics, cursor = await page(client, limit=2, cursor=cursor)
            assert sum(len(indexes) for _, _, indexes in topics) <= 2
            listed += topics
            if cursor is None:
                break
        assert listed == [("a", 0, [0, 1]), ("b", 0, [0, 1]), ("b", 0, [2]), ("c", 0, [0])]
        assert await page(client, limit=0) == ([("a", 0, [0])], ("a", 1))
        client.close()

    with_server(tmp_path, scenario)


def test_unknown_topics_are_listed_in_order(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("m", 1)
        client = await Client.connect(server)
        assert await page(client, "z", "m", "a b", "m") == (
            [("a b", Error.INVALID_TOPIC_EXCEPTION, []), ("m", 0, [0]), ("z", Error.UNKNOWN_TOPIC_OR_PARTITION, [])],
            None,
        )
        client.close()

    with_server(tmp_path, scenario)


def test_invalid_cursor_is_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("m", 2)
        client = await Client.connect(server)
        for cursor in (("x", 0), ("m", -1)):
            assert await page(client, "m", cursor=cursor) == ([("m", Error.INVALID_REQUEST, [])], None)
        assert await page(client, "m", cursor=("m", 9)) == ([("m", 0, [])], None)
        assert await page(client, cursor=("gone", 3)) == ([("m", 0, [0, 1])], None)
        client.close()

    with_server(tmp_path, scenario)
