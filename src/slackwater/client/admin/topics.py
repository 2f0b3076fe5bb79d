"""Topics and settings.

Rules kept here
- One topic at a time: what goes wrong is raised with the broker's own words.
- A broker's own settings are asked of that broker, everything else of the controller.
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
BROKERS_CHOICE: Final = -1
RESOURCES: Final = {"topic": 2, "broker": 4, "group": 32}
_SET: Final = 0
_DELETE: Final = 1
# Where a value comes from: what is set for the resource itself. All else is a default of some kind.
_OWN_SOURCES: Final = {"topic": {1}, "broker": {2, 4}, "group": {8}}


async def list_topics(cluster: Cluster, *, internal: bool = False) -> list[TopicMetadata]:
    """All topics by name; Kafka's own only if they are asked for."""
    await ensure_connected(cluster)
    found = await retry_read(cluster, lambda: cluster.refresh(None))
    return [found[name] for name in sorted(found) if internal or not is_internal(found[name])]


def is_internal(topic: TopicMetadata) -> bool:
    """Whether nobody writes to it but brokers and clients for themselves."""
    return topic.is_internal or topic.name.startswith("__")


async def describe_topics(cluster: Cluster, names: Iterable[str]) -> list[TopicMetadata]:
    """These topics; one that is not there is an error."""
    wanted = list(names)
    await ensure_connected(cluster)
    found = await retry_read(cluster, lambda: cluster.refresh(wanted))
    for name in wanted:
        error = found[name].error if name in found else Error.UNKNOWN_TOPIC_OR_PARTITION
        if error is Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        if error not in (Error.NONE, Error.LEADER_NOT_AVAILABLE):
            raise BrokerError(error, f"The topic {name} cannot be described: {error.name}.")
    return [found[name] for name in wanted]


async def no_such_topic(cluster: Cluster, name: str) -> BrokerError:
    """What to say of a topic that is not there: perhaps another was meant."""
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
    """Make a topic, or only ask whether it could be made."""
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

    async def ask() -> None:
        answer = await cluster.request_controller(request, CreateTopicsResponse)
        (row,) = answer.topics
        _check(row.error_code, row.error_message, f"The topic {name} was not created")

    await retry_write(cluster, ask)


async def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic with all its records."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=cluster.config.request_timeout_ms
    )

    async def ask() -> None:
        answer = await cluster.request_controller(request, DeleteTopicsResponse)
        (row,) = answer.responses
        if row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(row.error_code, row.error_message, f"The topic {name} was not deleted")

    await retry_write(cluster, ask)
    cluster.topics.pop(name, None)


async def add_partitions(cluster: Cluster, name: str, total: int, *, validate_only: bool) -> None:
    """Give a topic more partitions; `total` is how many it has afterwards."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
        timeout_ms=cluster.config.request_timeout_ms,
        validate_only=validate_only,
    )

    async def ask() -> None:
        answer = await cluster.request_controller(request, CreatePartitionsResponse)
        (row,) = answer.results
        if row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(row.error_code, row.error_message, f"The topic {name} got no more partitions")

    await retry_write(cluster, ask)


async def describe_configs(cluster: Cluster, kind: str, name: str) -> dict[str, ConfigEntry]:
    """The settings in force for a topic, a broker or a group."""
    resource = DescribeConfigsResource(resource_type=_resource(kind), resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])

    async def ask() -> dict[str, ConfigEntry]:
        answer = await _ask_for(cluster, kind, name, request, DescribeConfigsResponse)
        (row,) = answer.results
        if kind == "topic" and row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(row.error_code, row.error_message, f"The settings of {kind} {name} cannot be had")
        own = _OWN_SOURCES[kind]
        return {
            one.name: ConfigEntry(one.name, one.value, one.config_source not in own, one.read_only, one.is_sensitive)
            for one in sorted(row.configs, key=lambda one: one.name)
        }

    return await retry_read(cluster, ask)


async def alter_configs(
    cluster: Cluster, kind: str, name: str, changes: Mapping[str, str | None], *, validate_only: bool
) -> None:
    """Set settings; None takes one back to its default. All of them, or none."""
    resource = AlterConfigsResource(
        resource_type=_resource(kind),
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in changes.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

    async def ask() -> None:
        answer = await _ask_for(cluster, kind, name, request, IncrementalAlterConfigsResponse)
        (row,) = answer.responses
        if kind == "topic" and row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise await no_such_topic(cluster, name)
        _check(row.error_code, row.error_message, f"The settings of {kind} {name} were not changed")

    await retry_write(cluster, ask)


async def _ask_for(cluster: Cluster, kind: str, name: str, request: Request, answer: type[R]) -> R:
    if kind == "broker" and name:
        if not name.isascii() or not name.isdigit():
            raise UsageError(f"{name!r} is no broker; use its id, a number.")
        return await cluster.request(int(name), request, answer)
    return await cluster.request_controller(request, answer)


def _resource(kind: str) -> int:
    if kind not in RESOURCES:
        raise UsageError(f"{kind!r} has no settings; use one of {', '.join(RESOURCES)}.")
    return RESOURCES[kind]


def _check(code: int, message: str | None, what: str) -> None:
    if code:
        error = Error(code)
        said = (message or error.name).strip()
        raise BrokerError(error, f"{what}: {said}" + ("" if said.endswith(".") else "."))
