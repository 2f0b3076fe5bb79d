"""DeleteTopics: by name and by id, with files and committed offsets."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.group.messages import (
    GroupToFetch,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
)
from slackwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from slackwater.wire.messages.metadata import MetadataRequest, MetadataResponse

from ..server_client import Client, with_server


async def delete(server: Server, *requested: DeleteTopicState, version: int = 6) -> list[tuple[str | None, int]]:
    names = [topic.name for topic in requested if topic.name is not None]
    client = await Client.connect(server)
    request = DeleteTopicsRequest(
        topics=list(requested) if version >= 6 else [], topic_names=names if version < 6 else []
    )
    response = await client.request(request, DeleteTopicsResponse, version)
    client.close()
    return [(result.name, result.error_code) for result in response.responses]


def test_topics_are_deleted_by_name_and_by_id(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        by_id = server.broker.topics.create("by-id", 2)
        server.broker.topics.create("by-name", 2)
        server.broker.topics.create("kept", 1)

        assert await delete(server, DeleteTopicState("by-name")) == [("by-name", 0)]
        assert await delete(server, DeleteTopicState(None, by_id.topic_id)) == [("by-id", 0)]
        assert await delete(server, DeleteTopicState("by-name"), version=1) == [("by-name", 3)]
        assert [topic.name for topic in server.broker.topics] == ["kept"]

    with_server(tmp_path, scenario)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"kept-0"}


def test_recreated_topic_has_a_new_id_and_is_empty(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        old = server.broker.topics.create("t", 1)
        await delete(server, DeleteTopicState("t"))
        new = server.broker.topics.create("t", 1)
        assert new.topic_id != old.topic_id
        assert server.broker.topics.by_id(old.topic_id) is None
        assert new.partitions[0].log.log_end_offset == 0

    with_server(tmp_path, scenario)


def test_offsets_of_a_deleted_topic_are_deleted(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        for name in ("gone", "kept"):
            server.broker.topics.create(name, 1)
        committed: list[OffsetCommitResponse] = []
        offsets = tuple(OffsetToCommit(name, 0, 5) for name in ("gone", "kept"))
        server.broker.group_coordinator.submit(OffsetCommit("g", "", None, -1, offsets), committed.append)
        client = await Client.connect(server)
        await client.request(MetadataRequest(), MetadataResponse)  # the commit is written before this response
        assert [partition.error for partition in committed[0].partitions] == [Error.NONE, Error.NONE]

        await delete(server, DeleteTopicState("gone"))

        fetched: list[OffsetFetchResponse] = []
        server.broker.group_coordinator.submit(OffsetFetch((GroupToFetch("g", None),)), fetched.append)
        assert [(offset.topic, offset.offset) for offset in fetched[0].groups[0].offsets] == [("kept", 5)]
        client.close()

    with_server(tmp_path, scenario)


def test_contradictory_requests_delete_nothing(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        by_name, by_id = DeleteTopicState("t"), DeleteTopicState(None, topic.topic_id)
        for requested in (
            [by_name, by_name],
            [by_id, by_id],
            [by_name, by_id],
            [DeleteTopicState("t", topic.topic_id)],
        ):
            assert [error for _, error in await delete(server, *requested)] == [Error.INVALID_REQUEST]
        assert await delete(server, DeleteTopicState()) == [(None, Error.INVALID_REQUEST)]
        assert await delete(server, DeleteTopicState(None, b"\1" * 16)) == [(None, Error.UNKNOWN_TOPIC_ID)]
        assert server.broker.topics.get("t") is topic

    with_server(tmp_path, scenario)


def test_offsets_topic_cannot_be_deleted(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.create_offsets_topic()
        assert await delete(server, DeleteTopicState(OFFSETS_TOPIC)) == [(OFFSETS_TOPIC, Error.INVALID_TOPIC_EXCEPTION)]

    with_server(tmp_path, scenario)


def test_deletion_can_be_disabled(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        assert await delete(server, DeleteTopicState("t")) == [("t", Error.TOPIC_DELETION_DISABLED)]
        assert await delete(server, DeleteTopicState("t"), version=2) == [("t", Error.INVALID_REQUEST)]

    with_server(tmp_path, scenario, delete_topic_enable="false")
