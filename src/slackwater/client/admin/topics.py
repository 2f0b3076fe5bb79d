"""Topics and settings of the admin client.

Each call handles one topic or resource, and raises the broker's own message. Settings of a broker are requested from
that broker, everything else from the controller.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, TypeVar

from slackwater.client.admin.descriptions import ConfigEntry
from slackwater.client.admin.retries import ensure_connected, retry_read, retry_write
from slackwater.client.network.cluster import Cluster, TopicMetadata
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from slackwater.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from slackwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from slackwater.wire.schema import Request, Response

R = TypeVar("R", bound=Response)
BROKER_DEFAULT: Final = -1
RESOURCES: Final = {"topic": 2, "broker": 4, "group": 32}
_SET: Final = 0
_DELETE: Final = 1
# The config sources of a value that was set for the resource itself; all others are defaults.
_OWN_SOURCES: Final = {"topic": {1}, "broker": {2, 4}, "group": {8}}


async def list_topics(cluster: Cluster, *, internal: bool = False) -> list[TopicMetadata]:
    """Return all topics by name; internal topics only with `internal`."""
    await ensure_connected(cluster)
    topics = await retry_read(cluster, lambda: cluster.refresh(None))
    return [topics[name] for name in sorted(topics) if internal or not is_internal(topics[name])]


def is_internal(topic: TopicMetadata) -> bool:
    """Whether only brokers and clients themselves write to it."""
    return topic.is_internal or topic.name.startswith("__")


async def describe_topics(cluster: Cluster, names: Iterable[str]) -> list[TopicMetadata]:
    """Return these topics; raise `BrokerError` if one does not exist."""
    requested = list(names)
    await ensure_connected(cluster)
    topics = await retry_read(cluster, lambda: cluster.refresh(requested))
    for name in requested:
        error = topics[name].error if name in topics else Error.UNKNOWN_TOPIC_OR_PARTITION
        if error is Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        if error not in (Error.NONE, Error.LEADER_NOT_AVAILABLE):
            text = f"The topic {name} cannot be described: {error.name}."
            raise cluster.error(error, text, f"Describe on topic {name}")
    return [topics[name] for name in requested]


async def no_such_topic(cluster: Cluster, name: str) -> BrokerError:
    """Return the error for a missing topic, with the closest existing name."""
    known = [topic.name for topic in await list_topics(cluster, internal=True)]
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}{hint}")


async def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    *,
    validate_only: bool,
) -> None:
    """Create a topic, or only validate the request."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
        ],
        timeout_ms=cluster.config.request_timeout_ms,
        validate_only=validate_only,
    )

    async def send() -> None:
        response = await cluster.request_controller(request, CreateTopicsResponse)
        (row,) = response.topics
        _check(
            cluster,
            row.error_code,
            row.error_message,
            f"The topic {name} was not created",
            f"Create on topic {name}, or on the cluster",
        )

    await retry_write(cluster, send)


async def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic with all its records."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=cluster.config.request_timeout_ms
    )

    async def send() -> None:
        response = await cluster.request_controller(request, DeleteTopicsResponse)
        (row,) = response.responses
        if row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(
            cluster, row.error_code, row.error_message, f"The topic {name} was not deleted", f"Delete on topic {name}"
        )

    await retry_write(cluster, send)
    cluster.topics.pop(name, None)


async def add_partitions(cluster: Cluster, name: str, total: int, *, validate_only: bool) -> None:
    """Increase the number of partitions of a topic to `total`."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
        timeout_ms=cluster.config.request_timeout_ms,
        validate_only=validate_only,
    )

    async def send() -> None:
        response = await cluster.request_controller(request, CreatePartitionsResponse)
        (row,) = response.results
        if row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(
            cluster,
            row.error_code,
            row.error_message,
            f"Partitions of topic {name} were not added",
            f"Alter on topic {name}",
        )

    await retry_write(cluster, send)


async def describe_configs(cluster: Cluster, kind: str, name: str) -> dict[str, ConfigEntry]:
    """Return the effective settings of a topic, a broker or a group."""
    resource = DescribeConfigsResource(resource_type=_resource(kind), resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])

    async def send() -> dict[str, ConfigEntry]:
        response = await _request_config(cluster, kind, name, request, DescribeConfigsResponse)
        (row,) = response.results
        if kind == "topic" and row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(
            cluster,
            row.error_code,
            row.error_message,
            f"The settings of {kind} {name} cannot be read",
            f"DescribeConfigs on {_acl_resource(kind, name)}",
        )
        own = _OWN_SOURCES[kind]
        return {
            entry.name: ConfigEntry(
                entry.name, entry.value, entry.config_source not in own, entry.read_only, entry.is_sensitive
            )
            for entry in sorted(row.configs, key=lambda entry: entry.name)
        }

    return await retry_read(cluster, send)


async def alter_configs(
    cluster: Cluster, kind: str, name: str, changes: Mapping[str, str | None], *, validate_only: bool
) -> None:
    """Change settings, all or none; None resets a setting to its default."""
    resource = AlterConfigsResource(
        resource_type=_resource(kind),
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in changes.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

    async def send() -> None:
        response = await _request_config(cluster, kind, name, request, IncrementalAlterConfigsResponse)
        (row,) = response.responses
        if kind == "topic" and row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(
            cluster,
            row.error_code,
            row.error_message,
            f"The settings of {kind} {name} were not changed",
            f"AlterConfigs on {_acl_resource(kind, name)}",
        )

    await retry_write(cluster, send)


async def _request_config(cluster: Cluster, kind: str, name: str, request: Request, response: type[R]) -> R:
    if kind == "broker" and name:
        if not name.isascii() or not name.isdigit():
            raise UsageError(f"{name!r} is not a broker; use its id, a number.")
        return await cluster.request(int(name), request, response)
    return await cluster.request_controller(request, response)


def _acl_resource(kind: str, name: str) -> str:
    return "the cluster" if kind == "broker" else f"{kind} {name}"


def _resource(kind: str) -> int:
    if kind not in RESOURCES:
        raise UsageError(f"{kind!r} has no settings; use one of {', '.join(RESOURCES)}.")
    return RESOURCES[kind]


def _check(cluster: Cluster, code: int, message: str | None, what: str, required_acl: str) -> None:
    if code:
        error = Error(code)
        reason = (message or error.name).strip()
        raise cluster.error(error, f"{what}: {reason}" + ("" if reason.endswith(".") else "."), required_acl)
