"""The administrator's face: every call is done when it returns.

Rules kept here
- Any thread may call.
- What cannot be done is raised with one sentence: the broker's `BrokerError`, or the caller's `UsageError`.
- A cluster that was never reached is not waited for; one that was gets `default.api.timeout.ms`.
"""

import itertools
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from slackwater.client.admin import group_offsets, groups, topics
from slackwater.client.admin.descriptions import (
    ConfigEntry,
    GroupDescription,
    GroupListing,
    GroupOffset,
    OffsetChange,
    RemovedMember,
)
from slackwater.client.admin.group_log import GroupLogEntries, GroupLogFollower
from slackwater.client.admin.reset import ResetTo
from slackwater.client.admin.retries import ensure_connected
from slackwater.client.config import ADMIN_SETTINGS, cluster_config, parse_settings
from slackwater.client.network.cluster import BrokerNode, Cluster, TopicMetadata
from slackwater.client.network.offsets import OffsetAndTimestamp, list_offsets
from slackwater.client.network.thread import NetworkThread
from slackwater.group.errors import Error, SlackwaterError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

log = logging.getLogger("slackwater.client.admin")
T = TypeVar("T")
_numbers = itertools.count(1)


class Admin:
    """An administrator; `Admin({"bootstrap.servers": "localhost:9092"})`."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **more: object) -> None:
        settings = dict(config or {}) | {name.replace("_", "."): value for name, value in more.items()}
        ignored: list[str] = []
        values = parse_settings(settings, ADMIN_SETTINGS, ignored=ignored.append)
        if ignored:
            log.info("Settings of other clients are ignored: %s.", ", ".join(sorted(ignored)))
        self.client_id = str(values["client.id"]) or f"adminclient-{next(_numbers)}"
        brokers = cluster_config(values, self.client_id)
        self._network = NetworkThread(f"slackwater-{self.client_id}")
        self._cluster = self._network.run(Cluster.create(brokers))
        self._closed = False

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything."""
        if self._closed:
            return
        self._closed = True
        self._network.run(self._cluster.close())
        self._network.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._network.run(work)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerNode]:
        """The brokers, by id."""
        self._run(ensure_connected(self._cluster))
        self._run(self._cluster.refresh())
        return sorted(self._cluster.brokers.values(), key=lambda broker: broker.node_id)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id."""
        self._run(ensure_connected(self._cluster))
        return self._cluster.cluster_id

    # --- topics -------------------------------------------------------------------------------------------------------

    def list_topics(self, *, internal: bool = False) -> list[TopicMetadata]:
        """All topics by name; Kafka's own only if they are asked for."""
        return self._run(topics.list_topics(self._cluster, internal=internal))

    def describe_topics(self, names: Iterable[str]) -> list[TopicMetadata]:
        """These topics; one that is not there is an error."""
        return self._run(topics.describe_topics(self._cluster, names))

    def create_topic(
        self,
        name: str,
        partitions: int = topics.BROKERS_CHOICE,
        replication_factor: int = topics.BROKERS_CHOICE,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Make a topic; -1 leaves a number to the broker. With `validate_only` it is only asked whether it could be."""
        self._run(
            topics.create_topic(
                self._cluster, name, partitions, replication_factor, configs or {}, validate_only=validate_only
            )
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        self._run(topics.delete_topic(self._cluster, name))

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Give a topic more partitions; `total` is how many it has afterwards."""
        self._run(topics.add_partitions(self._cluster, name, total, validate_only=validate_only))

    def describe_configs(self, kind: str, name: str) -> dict[str, ConfigEntry]:
        """The settings in force for a "topic", a "broker" (by its id) or a "group"."""
        return self._run(topics.describe_configs(self._cluster, kind, name))

    def alter_configs(
        self, kind: str, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set settings; None takes one back to its default. All of them, or none."""
        self._run(topics.alter_configs(self._cluster, kind, name, changes, validate_only=validate_only))

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The offset for each timestamp; -1 is the end, -2 the beginning. None where no record is as new."""
        self._run(ensure_connected(self._cluster))
        return self._run(list_offsets(self._cluster, wanted))

    # --- groups -------------------------------------------------------------------------------------------------------

    def list_groups(
        self,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        *,
        on_failure: Callable[[BrokerNode, SlackwaterError], None] | None = None,
    ) -> list[GroupListing]:
        """The groups of all brokers, by name; all states and types, or these.

        With `on_failure`, a broker that does not answer is told there, and its groups are missing.
        """
        return self._run(groups.list_groups(self._cluster, states, types, on_failure))

    def describe_groups(self, group_ids: Iterable[str], *, find_generation: bool = True) -> list[GroupDescription]:
        """State, members, assignor, generation, coordinator, whom a rebalance waits for.

        Generation and waiting are not in the coordinator's answer: they are looked for in what it has written down,
        unless `find_generation` is False.
        """
        return self._run(groups.describe_groups(self._cluster, group_ids, find_generation=find_generation))

    def group_offsets(self, described: Iterable[GroupDescription]) -> dict[str, list[GroupOffset]]:
        """How far these groups have come, and their lag, by partition."""
        self._run(ensure_connected(self._cluster))
        return self._run(group_offsets.group_offsets(self._cluster, list(described)))

    def follow_groups(self, follower: GroupLogFollower, group_ids: Iterable[str]) -> GroupLogEntries:
        """What the cluster has written down about groups since the follower last looked."""
        return self._run(follower.read(self._cluster, set(group_ids)))

    def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """All offsets that a group has committed."""
        return self._run(group_offsets.committed(self._cluster, group_id))

    def remove_members(
        self,
        group_id: str,
        *,
        members: Iterable[str] = (),
        instances: Iterable[str] = (),
        everybody: bool = False,
        reason: str = "",
    ) -> list[RemovedMember]:
        """Take members out of a group, and with them their partitions; what came of each.

        A member whose process lives comes back by itself, under a new member id.
        """
        return self._run(groups.remove(self._cluster, group_id, members, instances, everybody, reason))

    def delete_group(self, group_id: str) -> None:
        """Delete an empty group and its offsets."""
        self._run(groups.delete_group(self._cluster, group_id))

    def reset_offsets(
        self,
        group_id: str,
        to: ResetTo,
        *,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] = (),
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Move the offsets of a group that has no members; which changes were made, or with `dry_run` would be.

        Without topics and partitions, all that the group has committed are moved.
        """
        found = self._run(group_offsets.plan_reset(self._cluster, group_id, to, topics, list(partitions)))
        if not dry_run:
            self.alter_offsets(group_id, {change.partition: change.new for change in found})
        return found

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Set offsets of a group that has no members."""
        wanted = {
            TopicPartition(*partition): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
            for partition, at in offsets.items()
        }
        self._run(group_offsets.commit(self._cluster, group_id, wanted))

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Error]:
        """Forget offsets; what came of each. Those of topics that a member reads cannot be forgotten."""
        return self._run(group_offsets.delete_offsets(self._cluster, group_id, list(partitions)))
