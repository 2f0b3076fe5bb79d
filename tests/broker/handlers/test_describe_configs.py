"""DescribeConfigs: values, where they come from, and what they would fall back to."""

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
    answer = await client.ask(request, DescribeConfigsResponse)
    client.close()
    return answer.results[0]


def synonyms(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, one.source) for one in config.synonyms]


def test_every_setting_of_a_topic_is_shown_with_its_type(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        server.broker.topics.create("t", 1)
        found = await describe(server, TOPIC, "t")
        assert [one.name for one in found.configs] == sorted(TOPIC_SETTINGS)
        shown = {one.name: (one.value, one.config_type, one.documentation) for one in found.configs}
        assert shown["cleanup.policy"] == ("delete", 7, None)
        assert shown["preallocate"] == ("false", 1, None)
        assert shown["min.cleanable.dirty.ratio"] == ("0.5", 6, None)
        assert not any(one.synonyms or one.read_only or one.is_sensitive for one in found.configs)

    with_server(tmp_path, story)


def test_a_topics_setting_names_every_layer_under_it(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
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
            ("log.retention.ms", "604800000", 5),
        ]
        (config,) = (await describe(server, TOPIC, "t", "remote.storage.enable", detailed=True)).configs
        assert (config.value, config.config_source, synonyms(config)) == ("false", 5, [])

    with_server(tmp_path, story, log_retention_ms="4")


def test_the_brokers_settings_say_which_can_be_changed(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        found = await describe(server, BROKER, "1")
        assert [one.name for one in found.configs] == sorted(BROKER_SETTINGS)
        shown = {one.name: (one.value, one.read_only, one.config_source) for one in found.configs}
        assert shown["node.id"] == ("1", True, 5)
        assert shown["num.partitions"] == ("7", False, 4)

        assert (await describe(server, BROKER, "")).configs == []
        server.settings.set_dynamic({"num.partitions": 9}, {})
        (config,) = (await describe(server, BROKER, "")).configs
        assert (config.name, config.value, config.config_source) == ("num.partitions", "9", 3)

    with_server(tmp_path, story, num_partitions="7")


def test_loggers_are_shown_with_the_level_in_force(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        found = await describe(server, BROKER_LOGGER, "1")
        shown = {one.name: one.value for one in found.configs}
        assert {"root", "slackwater.broker"} <= set(shown)
        assert set(shown.values()) <= {"FATAL", "ERROR", "WARN", "INFO", "DEBUG"}
        assert {one.config_source for one in found.configs} == {6}

    with_server(tmp_path, story)


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
def test_what_has_no_settings_is_told_apart(tmp_path: Path, kind: int, name: str, error: Error) -> None:
    async def story(server: Server) -> None:
        found = await describe(server, kind, name)
        assert (found.error_code, found.resource_type, found.resource_name, found.configs) == (error, kind, name, [])

    with_server(tmp_path, story)
