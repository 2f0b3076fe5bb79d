"""DescribeConfigs: values, sources and synonyms."""

from pathlib import Path

import pytest

from slackwater.broker.config import BROKER_SETTINGS, TOPIC_SETTINGS
from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

from ..server_client import Client, with_server

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


async def describe(server: Server, kind: int, name: str, *keys: str, detailed: bool = False) -> DescribeConfigsResult:
    client = await Client.connect(server)
    resource = DescribeConfigsResource(kind, name, list(keys) if keys else None)
    request = DescribeConfigsRequest([resource], include_synonyms=detailed, include_documentation=detailed)
    response = await client.request(request, DescribeConfigsResponse)
    client.close()
    return response.results[0]


def synonyms(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


def test_topic_settings_have_types(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        result = await describe(server, TOPIC, "t")
        assert [config.name for config in result.configs] == sorted(TOPIC_SETTINGS)
        described = {config.name: (config.value, config.config_type, config.documentation) for config in result.configs}
        assert described["cleanup.policy"] == ("delete", 7, None)
        assert described["preallocate"] == ("false", 1, None)
        assert described["min.cleanable.dirty.ratio"] == ("0.5", 6, None)
        assert not any(config.synonyms or config.read_only or config.is_sensitive for config in result.configs)

    with_server(tmp_path, scenario)


def test_synonyms_list_every_layer(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1, {"retention.ms": "1"})
        server.settings.set_dynamic({"log.retention.ms": 3}, {"log.retention.ms": 2})
        (config,) = (await describe(server, TOPIC, "t", "retention.ms", detailed=True)).configs
        assert (config.value, config.config_source) == ("1", 1)
        assert config.documentation == TOPIC_SETTINGS["retention.ms"].doc
        assert synonyms(config) == [
            ("retention.ms", "1", 1),
            ("log.retention.ms", "2", 2),
            ("log.retention.ms", "3", 3),
            ("log.retention.ms", "4", 4),
            ("log.retention.hours", "168", 5),
        ]
        (config,) = (await describe(server, TOPIC, "t", "remote.storage.enable", detailed=True)).configs
        assert (config.value, config.config_source, synonyms(config)) == ("false", 5, [])

    with_server(tmp_path, scenario, log_retention_ms="4")


def test_synonyms_of_settings_with_alternative_names(tmp_path: Path) -> None:
    """As Apache Kafka 4.3.1 with the same settings."""

    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)

        async def described(kind: int, name: str, *settings: str) -> list[tuple[str | None, int, list[object]]]:
            configs = (await describe(server, kind, name, *settings, detailed=True)).configs
            return [(config.value, config.config_source, [*synonyms(config)]) for config in configs]

        scheduler = ("log.flush.scheduler.interval.ms", "9223372036854775807", 5)
        flush = [("log.flush.interval.ms", "77", 4), scheduler]
        names = ("flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms")
        assert await described(TOPIC, "t", *names) == [
            ("77", 4, flush),
            ("7200000", 5, []),
            ("0", 5, []),
            ("7000000", 4, [("log.roll.ms", "7000000", 4), ("log.roll.hours", "168", 5)]),
        ]
        assert await described(BROKER, "1", "log.flush.interval.ms", "log.retention.ms") == [
            ("77", 4, flush),
            (None, 5, []),
        ]
        server.settings.set_dynamic({"log.retention.ms": 1_800_000}, {"log.retention.ms": 3_600_000})
        layers = [
            ("log.retention.ms", "3600000", 2),
            ("log.retention.ms", "1800000", 3),
            ("log.retention.hours", "2", 4),
            ("log.retention.hours", "168", 5),
        ]
        assert await described(TOPIC, "t", "retention.ms") == [("3600000", 2, layers)]
        assert await described(BROKER, "1", "log.retention.ms") == [("3600000", 2, layers)]

    with_server(tmp_path, scenario, log_retention_hours="2", log_roll_ms="7000000", log_flush_interval_ms="77")


def test_unset_address_and_rack_are_null(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        result = await describe(server, BROKER, "1", "advertised.listeners", "broker.rack", detailed=True)
        assert [(config.value, config.config_source, config.config_type) for config in result.configs] == [
            (None, 5, 7),
            (None, 5, 2),
        ]
        assert not any(config.synonyms for config in result.configs)

    with_server(tmp_path, scenario)


def test_min_insync_replicas_is_cluster_wide(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        for kind, name, values in (
            (TOPIC, "t", [("min.insync.replicas", "1", 3), ("min.insync.replicas", "1", 5)]),
            (BROKER, "1", [("min.insync.replicas", "1", 3), ("min.insync.replicas", "1", 5)]),
            (BROKER, "", [("min.insync.replicas", "1", 3)]),
        ):
            (config,) = (await describe(server, kind, name, "min.insync.replicas", detailed=True)).configs
            assert (config.value, config.config_source, synonyms(config)) == ("1", 3, values)

    with_server(tmp_path, scenario)


def test_broker_settings_have_read_only_and_source(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        result = await describe(server, BROKER, "1")
        assert [config.name for config in result.configs] == sorted(BROKER_SETTINGS)
        described = {config.name: (config.value, config.read_only, config.config_source) for config in result.configs}
        assert described["node.id"] == ("1", True, 5)
        assert described["num.partitions"] == ("7", False, 4)

        assert [config.name for config in (await describe(server, BROKER, "")).configs] == ["min.insync.replicas"]
        server.settings.set_dynamic({"num.partitions": 9}, {})
        _, config = (await describe(server, BROKER, "")).configs
        assert (config.name, config.value, config.config_source) == ("num.partitions", "9", 3)

    with_server(tmp_path, scenario, num_partitions="7")


def test_loggers_have_their_effective_level(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        result = await describe(server, BROKER_LOGGER, "1")
        described = {config.name: config.value for config in result.configs}
        assert {"root", "slackwater.broker"} <= set(described)
        assert set(described.values()) <= {"FATAL", "ERROR", "WARN", "INFO", "DEBUG"}
        assert {config.config_source for config in result.configs} == {6}

    with_server(tmp_path, scenario)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nix", Error.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", Error.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", Error.INVALID_REQUEST),
        (BROKER, "one", Error.INVALID_REQUEST),
        (BROKER_LOGGER, "", Error.INVALID_REQUEST),
        (CLIENT_METRICS, "", Error.INVALID_REQUEST),
        (77, "x", Error.INVALID_REQUEST),
        (GROUP, "g", Error.NONE),
        (CLIENT_METRICS, "m", Error.NONE),
    ],
)
def test_resources_without_settings(tmp_path: Path, kind: int, name: str, error: Error) -> None:
    async def scenario(server: Server) -> None:
        result = await describe(server, kind, name)
        assert (result.error_code, result.resource_type, result.resource_name, result.configs) == (
            error,
            kind,
            name,
            [],
        )

    with_server(tmp_path, scenario)
