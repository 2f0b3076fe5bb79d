"""CreateTopics: created topics, and Kafka's error messages."""

from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.slices import run_to_completion
from slackwater.group.errors import Error
from slackwater.group.internal_topics import OFFSETS_TOPIC
from slackwater.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from slackwater.wire.schema import NO_UUID
from tests.broker.quiet_broker import QuietBroker

from ..server_client import Client, with_server


def assigned_topic(*partitions: tuple[int, list[int]]) -> CreatableTopic:
    return CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(*assignment) for assignment in partitions])


def configured_topic(**settings: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
    return CreatableTopic("t", 1, 1, [], configs)


def test_created_topic_survives_a_restart(tmp_path: Path) -> None:
    topic_ids = []

    async def create(server: Server) -> None:
        client = await Client.connect(server)
        response = await client.request(CreateTopicsRequest([configured_topic(retention_ms="5")]), CreateTopicsResponse)
        (topic,) = response.topics
        assert (topic.error_code, topic.error_message, topic.num_partitions, topic.replication_factor) == (
            0,
            None,
            1,
            1,
        )
        settings = {config.name: (config.value, config.config_source) for config in topic.configs or ()}
        assert settings["retention.ms"] == ("5", 1)
        assert settings["segment.bytes"] == ("1073741824", 5)
        assert len(settings) == 33
        topic_ids.append(topic.topic_id)
        client.close()

    async def check_after_restart(server: Server) -> None:
        topic = server.broker.topics.get("t")
        assert topic is not None
        assert (topic.topic_id, topic.overrides) == (topic_ids[0], {"retention.ms": 5})

    with_server(tmp_path, create)
    with_server(tmp_path, check_after_restart)


def test_default_partitions_come_from_the_broker(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        response = await client.request(CreateTopicsRequest([CreatableTopic("t", -1, -1)]), CreateTopicsResponse)
        assert response.topics[0].num_partitions == 6
        client.close()

    with_server(tmp_path, scenario, num_partitions="6")


def test_validate_only_creates_nothing(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        request = CreateTopicsRequest([CreatableTopic("t", 3, 1)], validate_only=True)
        response = await client.request(request, CreateTopicsResponse)
        assert (response.topics[0].error_code, response.topics[0].num_partitions) == (0, 3)
        assert response.topics[0].topic_id == NO_UUID
        assert not len(server.broker.topics)
        client.close()

    with_server(tmp_path, scenario)


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
        (assigned_topic((0, [2])), Error.INVALID_REPLICA_ASSIGNMENT, "includes broker 2, but no such broker"),
        (assigned_topic((0, [1, 1])), Error.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
        (assigned_topic((0, [])), Error.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        (assigned_topic((0, [1]), (0, [1])), Error.INVALID_REPLICA_ASSIGNMENT, "multiple manual partition assignments"),
        (assigned_topic((1, [1])), Error.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
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
        (configured_topic(retention_ms="soon"), Error.INVALID_CONFIG, "retention.ms = 'soon' is not a whole number."),
        (configured_topic(retention_ms=None), Error.INVALID_CONFIG, "Null value not supported for topic configs"),
        (configured_topic(retention="1"), Error.INVALID_CONFIG, "retention is not a topic setting"),
        (
            configured_topic(min_compaction_lag_ms="5", max_compaction_lag_ms="2"),
            Error.INVALID_CONFIG,
            "min.compaction.lag.ms = 5 is above max.compaction.lag.ms = 2",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Error) else "",
)
def test_invalid_topics_are_rejected(tmp_path: Path, topic: CreatableTopic, error: Error, message: str) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("old", 1)
        server.broker.topics.create("o_d", 1)
        client = await Client.connect(server)
        response = await client.request(CreateTopicsRequest([topic]), CreateTopicsResponse)
        (rejected,) = response.topics
        assert rejected.error_code == error
        assert message in (rejected.error_message or "")
        assert len(server.broker.topics) == 2
        client.close()

    with_server(tmp_path, scenario)


def test_duplicate_topic_is_rejected_alone(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in ("a", "b", "a")])
        response = await client.request(request, CreateTopicsResponse)
        assert {topic.name: topic.error_code for topic in response.topics} == {
            "a": Error.INVALID_REQUEST,
            "b": Error.NONE,
        }
        assert [topic.name for topic in server.broker.topics] == ["b"]
        client.close()

    with_server(tmp_path, scenario)


def test_assignment_sets_the_number_of_partitions(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        response = await client.request(CreateTopicsRequest([assigned_topic((1, [1]), (0, [1]))]), CreateTopicsResponse)
        assert (response.topics[0].error_code, response.topics[0].num_partitions) == (0, 2)
        client.close()

    with_server(tmp_path, scenario)


def test_offsets_topic_has_its_required_settings(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        topic_request = CreatableTopic(OFFSETS_TOPIC, -1, -1, [], [CreatableTopicConfig("min.insync.replicas", "1")])
        await client.request(CreateTopicsRequest([topic_request]), CreateTopicsResponse)
        topic = server.broker.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert (len(topic.partitions), topic.overrides["cleanup.policy"]) == (3, ("compact",))
        client.close()

    with_server(tmp_path, scenario)


def test_many_partitions_are_created_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.broker.slices.SLICE_S", 0.0)  # a fast disk needs less than one slice
    with QuietBroker(tmp_path) as broker:
        creator, other = broker.connect(), broker.connect()
        response = creator.send(CreateTopicsRequest([CreatableTopic("big", 500, 1)]), CreateTopicsResponse, 5)
        heartbeats = 0
        while (created := response()) is None:
            heartbeat = other.request(HeartbeatRequest("g", 1, "m"), HeartbeatResponse, 4)
            assert heartbeat.error_code == Error.UNKNOWN_MEMBER_ID
            heartbeats += 1
        assert heartbeats
        assert (created.topics[0].error_code, created.topics[0].num_partitions) == (Error.NONE, 500)
        topic = broker.broker.topics.get("big")
        assert topic is not None
        assert len(topic.partitions) == 500


def test_topic_appears_when_it_is_complete(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        creation = broker.broker.topics.create_in_slices("big", 1_000)
        next(creation)  # as after the first slice of a request
        again = client.request(CreateTopicsRequest([CreatableTopic("big", 1, 1)]), CreateTopicsResponse, 5)
        assert again.topics[0].error_code == Error.TOPIC_ALREADY_EXISTS
        metadata = client.request(MetadataRequest([MetadataRequestTopic(name="big")]), MetadataResponse, 9)
        assert metadata.topics[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        run_to_completion(creation)
        metadata = client.request(MetadataRequest([MetadataRequestTopic(name="big")]), MetadataResponse, 9)
        assert metadata.topics[0].error_code == Error.NONE
        assert len(metadata.topics[0].partitions) == 1_000
