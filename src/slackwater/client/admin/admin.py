"""The public admin API. Every call returns when it is done.

Invariants:
- Any thread may call.
- Errors are a `BrokerError` of the broker or a `UsageError` of the caller.
- A cluster that was never reached is not retried; a cluster that was gets `default.api.timeout.ms`.
"""

import itertools
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
from slackwater.client.admin.group_records import GroupRecords, GroupRecordsFollower
from slackwater.client.admin.reset import ResetTo
from slackwater.client.admin.retries import ensure_connected
from slackwater.client.config import ADMIN_SETTINGS, cluster_config, parse_settings
from slackwater.client.network.cluster import BrokerNode, Cluster, TopicMetadata
from slackwater.client.network.offsets import OffsetAndTimestamp, list_offsets
from slackwater.client.network.thread import NetworkThread
from slackwater.escaping import get_logger
from slackwater.group.errors import Error, SlackwaterError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

log = get_logger("slackwater.client.admin")
T = TypeVar("T")
_numbers = itertools.count(1)


class Admin:
    """A Kafka admin client: `Admin({"bootstrap.servers": "localhost:9092"})`."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **more: object) -> None:
        settings = dict(config or {}) | {name.replace("_", "."): value for name, value in more.items()}
        ignored: list[str] = []
        values = parse_settings(settings, ADMIN_SETTINGS, ignored=ignored.append)
        if ignored:
            log.info("Settings of other clients are ignored: %s.", ", ".join(sorted(ignored)))
        self.client_id = str(values["client.id"]) or f"adminclient-{next(_numbers)}"
        brokers = cluster_config(values, self.client_id, settings)
        self._network = NetworkThread(f"slackwater-{self.client_id}")
        self._cluster = self._network.run(Cluster.create(brokers))
        self._closed = False

    def __repr__(self) -> str:
        return f"<Admin {self.client_id!r} of {self._cluster.bootstrap_servers}{', closed' if self._closed else ''}>"

    # --- open and close ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections.

        >>> admin = Admin({"bootstrap.servers": broker.bootstrap_servers})
        >>> admin.close()
        """
        if self._closed:
            return
        self._closed = True
        self._network.run(self._cluster.close())
        self._network.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._network.run(work)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerNode]:
        """Return the brokers, by id.

        >>> [node.node_id for node in admin.brokers()]
        [1]
        """
        self._run(ensure_connected(self._cluster))
        self._run(self._cluster.refresh())
        return sorted(self._cluster.brokers.values(), key=lambda broker: broker.node_id)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id.

        >>> len(admin.cluster_id)
        22
        """
        self._run(ensure_connected(self._cluster))
        return self._cluster.cluster_id

    @property
    def principal(self) -> str:
        """The principal of this client in words, for an error about a missing ACL.

        >>> admin.principal
        'User:ANONYMOUS'
        """
        return self._cluster.principal

    # --- topics -------------------------------------------------------------------------------------------------------

    def list_topics(self, *, internal: bool = False) -> list[TopicMetadata]:
        """Return all topics by name; internal topics only with `internal`.

        >>> [topic.name for topic in admin.list_topics()]
        ['orders']
        """
        return self._run(topics.list_topics(self._cluster, internal=internal))

    def describe_topics(self, names: Iterable[str]) -> list[TopicMetadata]:
        """Return these topics; raise `BrokerError` if one does not exist.

        >>> (topic,) = admin.describe_topics(["orders"])
        >>> len(topic.partitions)
        1
        """
        return self._run(topics.describe_topics(self._cluster, names))

    def create_topic(
        self,
        name: str,
        partitions: int = topics.BROKER_DEFAULT,
        replication_factor: int = topics.BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Create a topic, or with `validate_only` only check the request; -1 means the broker's default.

        >>> admin.create_topic("payments", partitions=3, configs={"retention.ms": "60000"})
        """
        self._run(
            topics.create_topic(
                self._cluster, name, partitions, replication_factor, configs or {}, validate_only=validate_only
            )
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records.

        >>> admin.delete_topic("orders")
        """
        self._run(topics.delete_topic(self._cluster, name))

    def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Increase the number of partitions of a topic to `total`.

        >>> admin.add_partitions("orders", total=4)
        """
        self._run(topics.add_partitions(self._cluster, name, total, validate_only=validate_only))

    def describe_configs(self, kind: str, name: str) -> dict[str, ConfigEntry]:
        """Return the effective settings of a "topic", a "broker" (by its id) or a "group".

        >>> admin.describe_configs("topic", "orders")["cleanup.policy"].value
        'delete'
        """
        return self._run(topics.describe_configs(self._cluster, kind, name))

    def alter_configs(
        self, kind: str, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Change settings, all or none; None resets a setting to its default.

        >>> admin.alter_configs("topic", "orders", {"retention.ms": "60000", "segment.ms": None})
        """
        self._run(topics.alter_configs(self._cluster, kind, name, changes, validate_only=validate_only))

    def list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset for each timestamp; -1 is the end, -2 the beginning. None where no record is as new.

        >>> partition = TopicPartition("orders", 0)
        >>> admin.list_offsets({partition: -1})[partition].offset
        2
        """
        self._run(ensure_connected(self._cluster))
        return self._run(list_offsets(self._cluster, timestamps))

    # --- groups -------------------------------------------------------------------------------------------------------

    def list_groups(
        self,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        *,
        on_failure: Callable[[BrokerNode, SlackwaterError], None] | None = None,
    ) -> list[GroupListing]:
        """Return the groups of all brokers, by name; optionally only these states and types.

        With `on_failure`, the error of a broker goes there, and its groups are missing.

        >>> [listing.group_id for listing in admin.list_groups(states=["Stable"])] == [group]
        True
        """
        return self._run(groups.list_groups(self._cluster, states, types, on_failure))

    def describe_groups(self, group_ids: Iterable[str], *, find_generation: bool = True) -> list[GroupDescription]:
        """Return state, members, assignor, generation, coordinator, and the members a rebalance waits for.

        The coordinator's response does not contain the generation and the waiting members. They are read from the
        internal topics, unless `find_generation` is False.

        >>> (description,) = admin.describe_groups([group])
        >>> description.state, description.generation, len(description.members)
        ('Stable', 1, 1)
        """
        return self._run(groups.describe_groups(self._cluster, group_ids, find_generation=find_generation))

    def group_offsets(self, described: Iterable[GroupDescription]) -> dict[str, list[GroupOffset]]:
        """Return the committed offsets and the lag of these groups, by partition.

        >>> consumer.commit({TopicPartition("orders", 0): 1})
        >>> [offset.lag for offset in admin.group_offsets(admin.describe_groups([group]))[group]]
        [1]
        """
        self._run(ensure_connected(self._cluster))
        return self._run(group_offsets.group_offsets(self._cluster, list(described)))

    def follow_groups(self, follower: GroupRecordsFollower, group_ids: Iterable[str]) -> GroupRecords:
        """Return the log entries of groups since the previous call with this follower.

        >>> from slackwater.client.admin.group_records import GroupRecordsFollower
        >>> follower = GroupRecordsFollower(since_ms=0)
        >>> records = admin.follow_groups(follower, [group])
        """
        return self._run(follower.read(self._cluster, set(group_ids)))

    def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return all committed offsets of a group.

        >>> consumer.commit({TopicPartition("orders", 0): 1})
        >>> admin.committed(group)[TopicPartition("orders", 0)].offset
        1
        """
        return self._run(group_offsets.committed(self._cluster, group_id))

    def remove_members(
        self,
        group_id: str,
        *,
        members: Iterable[str] = (),
        instances: Iterable[str] = (),
        all_members: bool = False,
        reason: str = "",
    ) -> list[RemovedMember]:
        """Remove members from a group; return the outcome of each.

        A member whose process still runs rejoins with a new member id.

        >>> [removed.error.name for removed in admin.remove_members(group, all_members=True)]
        ['NONE']
        """
        return self._run(groups.remove(self._cluster, group_id, members, instances, all_members, reason))

    def delete_group(self, group_id: str) -> None:
        """Delete an empty group and its offsets.

        >>> consumer.close()
        >>> admin.delete_group(group)
        """
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
        """Move the offsets of a group without members; return the changes. With `dry_run` nothing is changed.

        Without topics and partitions, all committed offsets are moved; `ResetTo.offsets` names its partitions itself.

        >>> consumer.close()
        >>> changes = admin.reset_offsets(group, ResetTo.latest(), topics=["orders"])
        >>> [(str(change.partition), change.new) for change in changes]
        [('orders-0', 2)]
        """
        changes = self._run(group_offsets.plan_reset(self._cluster, group_id, to, topics, list(partitions)))
        if not dry_run:
            self.alter_offsets(group_id, {change.partition: change.new for change in changes})
        return changes

    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Set offsets of a group without members.

        >>> consumer.close()
        >>> admin.alter_offsets(group, {TopicPartition("orders", 0): 1})
        """
        committed = {
            TopicPartition(*partition): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
            for partition, offset in offsets.items()
        }
        self._run(group_offsets.commit(self._cluster, group_id, committed))

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Error]:
        """Delete offsets; return the error of each. Offsets of subscribed topics cannot be deleted.

        >>> consumer.close()
        >>> admin.alter_offsets(group, {TopicPartition("orders", 0): 1})
        >>> [error.name for error in admin.delete_offsets(group, [TopicPartition("orders", 0)]).values()]
        ['NONE']
        """
        return self._run(group_offsets.delete_offsets(self._cluster, group_id, list(partitions)))
