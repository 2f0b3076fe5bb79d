"""CreateTopics: what is made, and what is refused in Kafka's words."""

from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.storage.topics import OFFSETS_TOPIC
from slackwater.group.errors import Error
from slackwater.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.schema import NO_UUID

from ..server_client import Client, with_server


def placed(*partitions: tuple[int, list[int]]) -> CreatableTopic:
    return CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(*one) for one in partitions])


def configured(**settings: str | None) -> CreatableTopic:
    pairs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
    return CreatableTopic("t", 1, 1, [], pairs)


def test_a_topic_is_made_with_its_settings_and_survives_a_restart(tmp_path: Path) -> None:
    made = []

    async def create(server: Server) -> None:
        client = await Client.connect(server)
        answer = await client.ask(CreateTopicsRequest([configured(retention_ms="5")]), CreateTopicsResponse)
        (topic,) = answer.topics
        assert (topic.error_code, topic.error_message, topic.num_partitions, topic.replication_factor) == (
            0,
            None,
            1,
            1,
        )
        settings = {one.name: (one.value, one.config_source) for one in topic.configs or ()}
        assert settings["retention.ms"] == ("5", 1)
        assert settings["segment.bytes"] == ("1073741824", 5)
        assert len(settings) == 33
        made.append(topic.topic_id)
        client.close()

    async def look(server: Server) -> None:
        topic = server.broker.topics.get("t")
        assert topic is not None
        assert (topic.topic_id, topic.overrides) == (made[0], {"retention.ms": 5})

    with_server(tmp_path, create)
    with_server(tmp_path, look)


def test_defaults_are_the_brokers(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        answer = await client.ask(CreateTopicsRequest([CreatableTopic("t", -1, -1)]), CreateTopicsResponse)
        assert answer.topics[0].num_partitions == 6
        client.close()

    with_server(tmp_path, story, num_partitions="6")


def test_validate_only_makes_nothing(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        asked = CreateTopicsRequest([CreatableTopic("t", 3, 1)], validate_only=True)
        answer = await client.ask(asked, CreateTopicsResponse)
        assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 3)
        assert answer.topics[0].topic_id == NO_UUID
        assert not len(server.broker.topics)
        client.close()

    with_server(tmp_path, story)


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (CreatableTopic("old", 1, 1), Error.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
        (CreatableTopic("o.d", 1, 1), Error.INVALID_TOPIC_EXCEPTION, "Topic 'o.d' collides with existing topic: o_d"),
        (CreatableTopic("a b", 1, 1), Error.INVALID_TOPIC_EXCEPTION, "'a b' is illegal"),
        (CreatableTopic("t", 0, 1), Error.INVALID_PARTITIONS, "non-positive"),
        (CreatableTopic("t", 20_000, 1), Error.POLICY_VIOLATION, "Excessively large number of partitions"),
        (CreatableTopic("t", 1, 0), Error.INVALID_REPLICATION_FACTOR, "must be larger than 0, or -1"),
        (CreatableTopic("t", 1, 3), Error.INVALID_REPLICATION_FACTOR, "only 1 broker(s) are registered"),
        (CreatableTopic(OFFSETS_TOPIC, 9, 1), Error.INVALID_PARTITIONS, "offsets.topic.num.partitions = 3"),
        (placed((0, [2])), Error.INVALID_REPLICA_ASSIGNMENT, "includes broker 2, but no such broker"),
        (placed((0, [1, 1])), Error.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
        (placed((0, [])), Error.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        (placed((0, [1]), (0, [1])), Error.INVALID_REPLICA_ASSIGNMENT, "multiple manual partition assignments"),
        (placed((1, [1])), Error.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        (
            CreatableTopic("t", 1, -1, [CreatableReplicaAssignment(0, [1])]),
            Error.INVALID_REQUEST,
            "numPartitions was not set to -1",
        ),
        (
            CreatableTopic("t", -1, 1, [CreatableReplicaAssignment(0, [1])]),
            Error.INVALID_REQUEST,
            "replication factor was not set to -1",
        ),
        (configured(retention_ms="soon"), Error.INVALID_CONFIG, "retention.ms = 'soon' is not a whole number."),
        (configured(retention_ms=None), Error.INVALID_CONFIG, "Null value not supported for topic configs"),
        (configured(retention="1"), Error.INVALID_CONFIG, "retention is not a topic setting"),
        (
            configured(min_compaction_lag_ms="5", max_compaction_lag_ms="2"),
            Error.INVALID_CONFIG,
            "min.compaction.lag.ms = 5 is above max.compaction.lag.ms = 2",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Error) else "",
)
def test_what_cannot_be_is_refused(tmp_path: Path, topic: CreatableTopic, error: Error, message: str) -> None:
    async def story(server: Server) -> None:
        server.broker.topics.create("old", 1)
        server.broker.topics.create("o_d", 1)
        client = await Client.connect(server)
        answer = await client.ask(CreateTopicsRequest([topic]), CreateTopicsResponse)
        (refused,) = answer.topics
        assert refused.error_code == error
        assert message in (refused.error_message or "")
        assert len(server.broker.topics) == 2
        client.close()

    with_server(tmp_path, story)


def test_a_topic_that_is_named_twice_is_not_made_and_the_others_are(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        asked = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in ("a", "b", "a")])
        answer = await client.ask(asked, CreateTopicsResponse)
        assert {one.name: one.error_code for one in answer.topics} == {"a": Error.INVALID_REQUEST, "b": Error.NONE}
        assert [topic.name for topic in server.broker.topics] == ["b"]
        client.close()

    with_server(tmp_path, story)


def test_an_assignment_to_this_broker_says_how_many_partitions_there_are(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        answer = await client.ask(CreateTopicsRequest([placed((1, [1]), (0, [1]))]), CreateTopicsResponse)
        assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 2)
        client.close()

    with_server(tmp_path, story)


def test_the_offsets_topic_keeps_the_settings_it_needs(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        wanted = CreatableTopic(OFFSETS_TOPIC, -1, -1, [], [CreatableTopicConfig("min.insync.replicas", "1")])
        await client.ask(CreateTopicsRequest([wanted]), CreateTopicsResponse)
        topic = server.broker.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert (len(topic.partitions), topic.overrides["cleanup.policy"]) == (3, ("compact",))
        client.close()

    with_server(tmp_path, story)
