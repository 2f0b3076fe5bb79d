"""IncrementalAlterConfigs: set, delete, append and subtract for topics, the broker and its loggers."""

import logging
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error, UsageError
from slackwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from ..server_client import Client, with_server

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def alter(
    server: Server, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[int, str | None]:
    client = await Client.connect(server)
    resource = AlterConfigsResource(kind, name, [AlterableConfig(*change) for change in changes])
    response = await client.request(
        IncrementalAlterConfigsRequest([resource], validate_only), IncrementalAlterConfigsResponse
    )
    client.close()
    return response.responses[0].error_code, response.responses[0].error_message


def test_topic_settings_change_individually(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1, {"retention.ms": "5"})

        def policy() -> object:
            return topic.overrides.get("cleanup.policy")

        assert await alter(server, TOPIC, "t", ("segment.ms", SET, "7"), ("retention.ms", DELETE, None)) == (0, None)
        assert topic.overrides == {"segment.ms": 7}
        await alter(server, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))  # appends to the default
        assert policy() == ("delete", "compact")
        await alter(server, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
        assert policy() == ("delete", "compact")
        assert topic.partitions[0].log.config.compacts
        await alter(server, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
        assert policy() == ("compact",)
        await alter(server, TOPIC, "t", ("cleanup.policy", DELETE, None), validate_only=True)
        assert policy() == ("compact",)

    with_server(tmp_path, scenario)


def test_cleaner_backoff_can_be_altered(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        assert await alter(server, BROKER, "1", ("log.cleaner.backoff.ms", SET, "20000")) == (0, None)
        assert server.settings.number("log.cleaner.backoff.ms") == 20_000

    with_server(tmp_path, scenario)


def test_min_insync_replicas_changes_only_for_the_cluster(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        name = "min.insync.replicas"
        assert (await alter(server, BROKER, "", (name, SET, "1")))[0] == Error.NONE
        assert (await alter(server, BROKER, "", (name, DELETE, None)))[0] == Error.INVALID_CONFIG
        assert (await alter(server, BROKER, "1", (name, SET, "1")))[0] == Error.INVALID_CONFIG

    with_server(tmp_path, scenario)


def test_broker_settings_apply_and_survive_a_restart(tmp_path: Path) -> None:
    async def change(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        assert await alter(server, BROKER, "", ("log.retention.ms", SET, "11"), ("num.partitions", SET, "4")) == (
            0,
            None,
        )
        assert await alter(server, BROKER, "1", ("log.segment.bytes", SET, "2000")) == (0, None)
        config = topic.partitions[0].log.config
        assert (config.retention_ms, config.segment_bytes) == (11, 2000)

    async def check_after_restart(server: Server) -> None:
        topic = server.broker.topics.get("t")
        assert topic is not None
        config = topic.partitions[0].log.config
        assert (config.retention_ms, config.segment_bytes) == (11, 2000)
        assert (server.settings.cluster, server.settings.dynamic) == (
            {"log.retention.ms": 11, "num.partitions": 4},
            {"log.segment.bytes": 2000},
        )
        assert await alter(server, BROKER, "1", ("log.segment.bytes", DELETE, None)) == (0, None)
        assert server.settings.number("log.segment.bytes") == 1 << 30

    with_server(tmp_path, change)
    with_server(tmp_path, check_after_restart)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(UsageError, match=r"Cannot parse the settings in .*settings\.json"):
        with_server(tmp_path, check_after_restart)


def test_unused_kafka_settings_are_ignored(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        change = ("leader.replication.throttled.rate", SET, "1000")
        assert await alter(server, BROKER, "1", change) == (0, None)
        assert not server.settings.dynamic

    with_server(tmp_path, scenario)


def test_logger_level_is_set_and_deleted(tmp_path: Path) -> None:
    name = "slackwater.broker.maintenance"

    async def scenario(server: Server) -> None:
        assert await alter(server, BROKER_LOGGER, "1", (name, SET, "TRACE")) == (0, None)
        assert logging.getLogger(name).level == logging.DEBUG
        assert await alter(server, BROKER_LOGGER, "1", (name, DELETE, None)) == (0, None)
        assert logging.getLogger(name).level == logging.NOTSET
        for change in ((name, SET, "LOUD"), ("unknown", SET, "INFO"), ("root", DELETE, None), (name, APPEND, "INFO")):
            code, message = await alter(server, BROKER_LOGGER, "1", change)
            assert code in (Error.INVALID_CONFIG, Error.INVALID_REQUEST)
            assert message

    try:
        with_server(tmp_path, scenario)
    finally:
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("kind", "name", "change", "error", "message"),
    [
        (TOPIC, "nix", ("retention.ms", SET, "1"), Error.UNKNOWN_TOPIC_OR_PARTITION, "'nix' does not exist"),
        (TOPIC, "t", ("retention.ms", SET, None), Error.INVALID_REQUEST, "Null value not supported"),
        (TOPIC, "t", ("retention.ms", APPEND, "1"), Error.INVALID_CONFIG, "its type is not LIST"),
        (TOPIC, "t", ("retention.ms", 9, "1"), Error.INVALID_REQUEST, "9 is not an operation"),
        (TOPIC, "t", ("retenton.ms", SET, "1"), Error.INVALID_CONFIG, "did you mean retention.ms?"),
        (TOPIC, "t", ("min.compaction.lag.ms", SET, "6"), Error.INVALID_CONFIG, "is above max.compaction.lag.ms"),
        (
            BROKER,
            "1",
            ("node.id", SET, "4"),
            Error.INVALID_REQUEST,
            "Cannot update these configs dynamically: [node.id]",
        ),
        (BROKER, "1", ("log.retention.ms", SET, "x"), Error.INVALID_REQUEST, "is not a whole number"),
        (BROKER, "", ("group.max.session.timeout.ms", SET, "1"), Error.INVALID_REQUEST, "group.min.session.timeout.ms"),
        (
            BROKER,
            "",
            ("log.cleaner.min.compaction.lag.ms", SET, "6"),
            Error.INVALID_REQUEST,
            "max.compaction.lag.ms = 5",
        ),
        (BROKER, "", ("nix", SET, "1"), Error.INVALID_REQUEST, "nix is not a broker setting"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), Error.INVALID_CONFIG, "Groups have no settings"),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "1"), Error.INVALID_REQUEST, "does not collect client metrics"),
        (1, "x", ("a", SET, "1"), Error.INVALID_REQUEST, "Unknown resource type 1"),
    ],
)
def test_invalid_changes_are_rejected(
    tmp_path: Path, kind: int, name: str, change: tuple[str, int, str | None], error: Error, message: str
) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1, {"max.compaction.lag.ms": "5"})
        code, text = await alter(server, kind, name, change)
        assert (code, message in (text or "")) == (error, True), text
        assert topic.overrides == {"max.compaction.lag.ms": 5}
        assert not server.settings.dynamic
        assert not server.settings.cluster

    with_server(tmp_path, scenario)


def test_duplicate_settings_and_resources_are_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1)
        duplicates = [("segment.ms", SET, "1"), ("segment.ms", SET, "2")]
        code, message = await alter(server, TOPIC, "t", *duplicates)
        assert (code, message) == (Error.INVALID_REQUEST, "Error due to duplicate config keys")
        resource = AlterConfigsResource(TOPIC, "t", [AlterableConfig("segment.ms", SET, "3")])
        client = await Client.connect(server)
        response = await client.request(
            IncrementalAlterConfigsRequest([resource, resource]), IncrementalAlterConfigsResponse
        )
        assert [result.error_code for result in response.responses] == [Error.INVALID_REQUEST] * 2
        assert topic.overrides == {}
        client.close()

    with_server(tmp_path, scenario)
