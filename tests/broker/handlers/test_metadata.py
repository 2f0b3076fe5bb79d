"""Metadata: what a client learns of topics, and which topics that makes."""

import re
from pathlib import Path

from slackwater.broker.server import Server
from slackwater.broker.storage.topics import EVENTS_TOPIC, OFFSETS_TOPIC
from slackwater.group.errors import Error
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from ..server_client import Client, with_server


def named(*names: str, **more: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **more)


def test_brokers_topics_and_partitions_are_told(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("orders", 2)
        client = await Client.connect(server)
        answer = await client.ask(named("orders"), MetadataResponse)

        (broker,) = answer.brokers
        assert (broker.node_id, broker.host, broker.port, broker.rack) == (7, "127.0.0.1", server.port, "r1")
        assert re.fullmatch(r"[A-Za-z0-9_-]{22}", answer.cluster_id or "")
        assert (answer.controller_id, answer.error_code) == (7, Error.NONE)
        (found,) = answer.topics
        assert (found.name, found.topic_id, found.is_internal) == ("orders", topic.topic_id, False)
        assert [
            (one.partition_index, one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes)
            for one in found.partitions
        ] == [(0, 7, 0, [7], [7]), (1, 7, 0, [7], [7])]
        client.close()

    with_server(tmp_path, story, node_id="7", broker_rack="r1")


def test_none_null_and_empty_mean_what_the_version_says(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for version, asked, expected in ((0, [], ["t"]), (1, [], []), (1, None, ["t"]), (13, None, ["t"])):
            answer = await client.ask(MetadataRequest(topics=asked), MetadataResponse, version)
            assert [topic.name for topic in answer.topics] == expected
        client.close()

    with_server(tmp_path, story)


def test_an_unknown_topic_is_made_if_both_sides_want_it(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        answer = await client.ask(named("a", allow_auto_topic_creation=False), MetadataResponse)
        assert answer.topics[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        answer = await client.ask(named("b"), MetadataResponse, 1)  # before v4 nobody could say no
        assert (answer.topics[0].error_code, len(answer.topics[0].partitions)) == (Error.NONE, 4)

        server.settings.alter({"auto.create.topics.enable": False})
        answer = await client.ask(named("c"), MetadataResponse)
        assert answer.topics[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert [topic.name for topic in server.broker.topics] == ["b"]
        client.close()

    with_server(tmp_path, story, num_partitions="4")


def test_internal_topics_are_made_as_they_must_be(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        answer = await client.ask(named(OFFSETS_TOPIC, EVENTS_TOPIC, "__transaction_state"), MetadataResponse)
        assert [(one.error_code, one.is_internal, len(one.partitions)) for one in answer.topics] == [
            (Error.NONE, True, 3),
            (Error.NONE, True, 1),
            (Error.UNKNOWN_TOPIC_OR_PARTITION, True, 0),
        ]
        offsets = server.broker.topics.get(OFFSETS_TOPIC)
        assert offsets is not None
        assert offsets.overrides["cleanup.policy"] == ("compact",)
        client.close()

    with_server(tmp_path, story, num_partitions="9")


def test_names_that_cannot_be_are_refused_and_each_topic_is_answered_once(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        answer = await client.ask(named("a b", "", ".", "a.b", "a_b", "a.b"), MetadataResponse)
        assert [(one.name, one.error_code) for one in answer.topics] == [
            ("a b", Error.INVALID_TOPIC_EXCEPTION),
            ("", Error.INVALID_TOPIC_EXCEPTION),
            (".", Error.INVALID_TOPIC_EXCEPTION),
            ("a.b", Error.NONE),
            ("a_b", Error.INVALID_TOPIC_EXCEPTION),
        ]
        client.close()

    with_server(tmp_path, story)


def test_topics_are_found_by_id(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        by_id = [MetadataRequestTopic(topic.topic_id, None), MetadataRequestTopic(b"\1" * 16, None)]
        answer = await client.ask(MetadataRequest(topics=by_id), MetadataResponse, 12)
        assert [(one.name, one.topic_id, one.error_code) for one in answer.topics] == [
            ("t", topic.topic_id, Error.NONE),
            (None, b"\1" * 16, Error.UNKNOWN_TOPIC_ID),
        ]
        answer = await client.ask(MetadataRequest(topics=by_id), MetadataResponse, 11)
        assert [one.error_code for one in answer.topics] == [Error.INVALID_REQUEST] * 2
        client.close()

    with_server(tmp_path, story)


def test_authorized_operations_are_told_to_who_asks(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        asked = named("t", include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
        answer = await client.ask(asked, MetadataResponse, 8)
        assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (3576, 8096)
        answer = await client.ask(named("t"), MetadataResponse)
        assert answer.topics[0].topic_authorized_operations == -(2**31)
        client.close()

    with_server(tmp_path, story)


def test_a_full_disk_makes_no_topic_and_leaves_nothing(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        (tmp_path / "t-0").write_text("in the way")  # where the partition's directory should be
        client = await Client.connect(server)
        answer = await client.ask(named("t"), MetadataResponse)
        assert answer.topics[0].error_code == Error.KAFKA_STORAGE_ERROR
        assert server.broker.topics.get("t") is None
        (tmp_path / "t-0").unlink()
        answer = await client.ask(named("t"), MetadataResponse)
        assert answer.topics[0].error_code == Error.NONE
        client.close()

    with_server(tmp_path, story)
