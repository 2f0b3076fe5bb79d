"""Metadata: brokers, topics and partitions, and automatic topic creation."""

import re
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC
from slackwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from ..server_client import Client, with_server


def topics_request(*names: str, **options: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


def test_brokers_topics_and_partitions(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("orders", 2)
        client = await Client.connect(server)
        response = await client.request(topics_request("orders"), MetadataResponse)

        (broker,) = response.brokers
        assert (broker.node_id, broker.host, broker.port, broker.rack) == (7, "127.0.0.1", server.port, "r1")
        assert re.fullmatch(r"[A-Za-z0-9_-]{22}", response.cluster_id or "")
        assert (response.controller_id, response.error_code) == (7, Error.NONE)
        (topic_metadata,) = response.topics
        assert (topic_metadata.name, topic_metadata.topic_id, topic_metadata.is_internal) == (
            "orders",
            topic.topic_id,
            False,
        )
        assert [
            (
                partition.partition_index,
                partition.leader_id,
                partition.leader_epoch,
                partition.replica_nodes,
                partition.isr_nodes,
            )
            for partition in topic_metadata.partitions
        ] == [(0, 7, 0, [7], [7]), (1, 7, 0, [7], [7])]
        client.close()

    with_server(tmp_path, scenario, node_id="7", broker_rack="r1")


def test_null_and_empty_topics_by_version(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for version, topics, expected in ((0, [], ["t"]), (1, [], []), (1, None, ["t"]), (13, None, ["t"])):
            response = await client.request(MetadataRequest(topics=topics), MetadataResponse, version)
            assert [topic.name for topic in response.topics] == expected
        client.close()

    with_server(tmp_path, scenario)


def test_auto_creation_needs_client_and_broker(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        response = await client.request(topics_request("a", allow_auto_topic_creation=False), MetadataResponse)
        assert response.topics[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        response = await client.request(
            topics_request("b"), MetadataResponse, 1
        )  # before v4 the client cannot forbid it
        assert (response.topics[0].error_code, len(response.topics[0].partitions)) == (Error.NONE, 4)

        server.settings.alter({"auto.create.topics.enable": False})
        response = await client.request(topics_request("c"), MetadataResponse)
        assert response.topics[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert [topic.name for topic in server.broker.topics] == ["b"]
        client.close()

    with_server(tmp_path, scenario, num_partitions="4")


def test_internal_topics_are_created_with_their_settings(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        response = await client.request(
            topics_request(OFFSETS_TOPIC, EVENTS_TOPIC, "__transaction_state"), MetadataResponse
        )
        assert [
            (topic_metadata.error_code, topic_metadata.is_internal, len(topic_metadata.partitions))
            for topic_metadata in response.topics
        ] == [
            (Error.NONE, True, 3),
            (Error.NONE, True, 1),
            (Error.NONE, True, 5),
        ]
        offsets = server.broker.topics.get(OFFSETS_TOPIC)
        assert offsets is not None
        assert offsets.overrides["cleanup.policy"] == ("compact",)
        client.close()

    with_server(tmp_path, scenario, num_partitions="9", transaction_state_log_num_partitions="5")


def test_invalid_names_and_duplicates(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        response = await client.request(topics_request("a b", "", ".", "a.b", "a_b", "a.b"), MetadataResponse)
        assert [(topic_metadata.name, topic_metadata.error_code) for topic_metadata in response.topics] == [
            ("a b", Error.INVALID_TOPIC_EXCEPTION),
            ("", Error.INVALID_TOPIC_EXCEPTION),
            (".", Error.INVALID_TOPIC_EXCEPTION),
            ("a.b", Error.NONE),
            ("a_b", Error.INVALID_TOPIC_EXCEPTION),
        ]
        client.close()

    with_server(tmp_path, scenario)


def test_topics_by_id(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        by_id = [MetadataRequestTopic(topic.topic_id, None), MetadataRequestTopic(b"\1" * 16, None)]
        response = await client.request(MetadataRequest(topics=by_id), MetadataResponse, 12)
        assert [
            (topic_metadata.name, topic_metadata.topic_id, topic_metadata.error_code)
            for topic_metadata in response.topics
        ] == [
            ("t", topic.topic_id, Error.NONE),
            (None, b"\1" * 16, Error.UNKNOWN_TOPIC_ID),
        ]
        response = await client.request(MetadataRequest(topics=by_id), MetadataResponse, 11)
        assert [topic_metadata.error_code for topic_metadata in response.topics] == [Error.INVALID_REQUEST] * 2
        client.close()

    with_server(tmp_path, scenario)


def test_authorized_operations_on_request(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        request = topics_request(
            "t", include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        )
        response = await client.request(request, MetadataResponse, 8)
        assert (response.topics[0].topic_authorized_operations, response.cluster_authorized_operations) == (3576, 8096)
        response = await client.request(topics_request("t"), MetadataResponse)
        assert response.topics[0].topic_authorized_operations == -(2**31)
        client.close()

    with_server(tmp_path, scenario)


def test_failed_creation_leaves_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: Server) -> None:
        (tmp_path / "t-0").write_text("in the way")  # blocks the partition directory
        client = await Client.connect(server)
        for _ in range(3):
            response = await client.request(topics_request("t"), MetadataResponse)
            assert response.topics[0].error_code == Error.INVALID_TOPIC_EXCEPTION
        assert server.broker.topics.get("t") is None
        (tmp_path / "t-0").unlink()
        response = await client.request(topics_request("t"), MetadataResponse)
        assert response.topics[0].error_code == Error.NONE
        client.close()

    with_server(tmp_path, scenario)
    assert caplog.text.count("Partitions of topic t were not created: The data directory contains 't-0'") == 1


def test_deleted_topic_is_gone_for_the_next_request(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState("t")])
        client.send(deletion)
        client.send(topics_request("t", "new"))
        await client.next_response()
        gone = await client.next_response()
        assert isinstance(gone, MetadataResponse)
        assert [topic.error_code for topic in gone.topics] == [Error.UNKNOWN_TOPIC_OR_PARTITION, Error.NONE]
        assert [topic.name for topic in server.broker.topics] == ["new"]
        response = await client.request(topics_request("t"), MetadataResponse)
        assert response.topics[0].error_code == Error.NONE

        await client.request(deletion, DeleteTopicsResponse)
        server.broker.topics.create("t", 1)
        response = await client.request(topics_request("t"), MetadataResponse)
        assert response.topics[0].error_code == Error.NONE
        client.close()

    with_server(tmp_path, scenario)
