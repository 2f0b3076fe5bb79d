"""AlterConfigs: settings that are not in the request return to their defaults."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)

from ..server_client import Client, with_server

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


async def alter(
    server: Server, kind: int, name: str, validate_only: bool = False, **settings: str | None
) -> tuple[int, str | None]:
    client = await Client.connect(server)
    configs = [AlterableConfig(name.replace("_", "."), value) for name, value in settings.items()]
    request = AlterConfigsRequest([AlterConfigsResource(kind, name, configs)], validate_only)
    response = await client.request(request, AlterConfigsResponse)
    client.close()
    return response.responses[0].error_code, response.responses[0].error_message


def test_topic_settings_are_replaced(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 2, {"retention.ms": "5"})
        assert await alter(server, TOPIC, "t", validate_only=True, segment_ms="7") == (0, None)
        assert topic.overrides == {"retention.ms": 5}
        assert await alter(server, TOPIC, "t", segment_ms="7") == (0, None)
        assert topic.overrides == {"segment.ms": 7}
        assert [partition.log.config.segment_ms for partition in topic.partitions] == [7, 7]
        assert await alter(server, TOPIC, "t") == (0, None)
        assert topic.overrides == {}

    with_server(tmp_path, scenario)


def test_broker_settings_are_replaced_by_layer(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        settings = server.settings
        await alter(server, BROKER, "", log_retention_ms="5", num_partitions="6")
        await alter(server, BROKER, "1", num_partitions="7")
        assert (settings.number("log.retention.ms"), settings.number("num.partitions")) == (5, 7)
        await alter(server, BROKER, "1")
        assert (settings.number("log.retention.ms"), settings.number("num.partitions")) == (5, 6)

    with_server(tmp_path, scenario)


def test_invalid_changes_are_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        topic = server.broker.topics.create("t", 1, {"retention.ms": "5"})
        for kind, name, settings, error in (
            (TOPIC, "nix", {"segment_ms": "1"}, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "t", {"segment_ms": None}, Error.INVALID_REQUEST),
            (TOPIC, "t", {"segment_ms": "long"}, Error.INVALID_CONFIG),
            (TOPIC, "t", {"segment": "1"}, Error.INVALID_CONFIG),
            (BROKER, "1", {"node_id": "3"}, Error.INVALID_REQUEST),
            (BROKER, "2", {"num_partitions": "3"}, Error.INVALID_REQUEST),
            (BROKER_LOGGER, "1", {"root": "INFO"}, Error.INVALID_REQUEST),
        ):
            code, message = await alter(server, kind, name, **settings)
            assert (code, bool(message)) == (error, True)
        assert topic.overrides == {"retention.ms": 5}
        assert not server.settings.dynamic

    with_server(tmp_path, scenario)
