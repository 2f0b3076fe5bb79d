"""The state of a broker: topics, logs, groups, fetch sessions and metrics, as the handlers use them.

Invariants:
- Nothing here listens or blocks: `server` owns the sockets, the timer of the coordinators and the disk thread. Waiting
  fetches, the event stream and the maintenance set their own timers on the event loop.
- There are two clocks: `clock` is wall time, for records and logs. `group_clock` is monotonic, for the timers of
  groups and transactions. Offsets and group events have the wall time of `group_wall_clock`: it is `clock`, or the
  group clock if a test advances that by hand.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from slackwater.broker.authentication.scram_credentials import ScramCredentials
from slackwater.broker.authorization import create_authorizer
from slackwater.broker.config import Settings, dynamic_config
from slackwater.broker.connection import Connection
from slackwater.broker.fetching.delayed_fetches import DelayedFetches
from slackwater.broker.fetching.sessions import FetchSessions
from slackwater.broker.groups.coordinator_shell import CoordinatorShell
from slackwater.broker.groups.events import EVENTS_TOPIC_SETTINGS, GroupEventStream
from slackwater.broker.groups.group_metrics import GroupMetrics
from slackwater.broker.groups.offsets_store import OffsetsTopicStore
from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.broker.metrics import Metrics
from slackwater.broker.request_context import RequestContext
from slackwater.broker.slices import RunInThread, Slices
from slackwater.broker.storage.appends import AppendQueue
from slackwater.broker.storage.directory import DataDirectory
from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.producer_ids import ProducerIds
from slackwater.broker.storage.topics import KEEP_RECORDS, Topic, Topics, remove_directories
from slackwater.broker.transactions.hanging import describe_hanging
from slackwater.broker.transactions.markers import PartitionMarkerWriter
from slackwater.broker.transactions.transaction_shell import TransactionShell
from slackwater.broker.transactions.transactions_store import TransactionsTopicStore
from slackwater.clock import Clock
from slackwater.escaping import get_logger
from slackwater.group.coordinator import CoordinatorConfig
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions import TransactionConfig
from slackwater.security.acls import CLUSTER_NAME, OPERATIONS, AclOperation, AclResourceType
from slackwater.wire.schema import Response

log = get_logger("slackwater.broker")
_MINUTE_MS: Final = 60_000
MAX_DELETED_TOPICS: Final = 1_000
MAX_REASON_CHARACTERS: Final = 300


class BrokerState:
    """The state of one broker."""

    def __init__(
        self,
        settings: Settings,
        directory: DataDirectory,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        group_clock: Clock,
        group_wall_clock: Clock,
        in_thread: RunInThread,
        schedule_end_of_iteration: Callable[[], None],
        wake_coordinators_at: Callable[[int], None],
    ) -> None:
        self.settings = settings
        self.directory = directory
        self.loop = loop
        self.clock = clock
        self.in_thread = in_thread
        self.slices = Slices(loop, in_thread)
        self.node_id = directory.node_id
        self.cluster_id = directory.cluster_id
        self.advertised: dict[str, tuple[str, int]] = {}  # addresses for clients, by the name of the listener
        self.apis = SUPPORTED_APIS
        self.credentials = ScramCredentials(directory.path)
        self.metrics = Metrics()
        self.authorizer = create_authorizer(directory.path, settings)
        self.topics = Topics(
            directory.path,
            settings,
            wall_ms=clock.now_ms,
            new_id=partial(secrets.token_bytes, 16),
            remove=lambda paths: in_thread(partial(remove_directories, paths), lambda: None),
            lost_settings=self._lost_settings,
        )
        self.durability = Durability(
            always=settings.text("flush") == "always", in_thread=in_thread, call_later=loop.call_later
        )
        self.appends = AppendQueue(
            self.durability, wall_ms=clock.now_ms, schedule_end_of_iteration=schedule_end_of_iteration
        )
        self.producer_ids = ProducerIds(directory.path)
        self.fetch_sessions = FetchSessions(
            settings.number("max.incremental.fetch.session.cache.slots"), wall_ms=clock.now_ms
        )
        self.delayed_fetches = DelayedFetches(loop)
        self.fetch_max_bytes = settings.number("fetch.max.bytes")
        self.events = GroupEventStream(
            self.topics,
            node_id=self.node_id,
            offsets_partition_of=lambda group_id: self.group_coordinator.coordinator.offsets_partition_of(group_id),
            write_to_topic=settings.flag("group.events.enable"),
            call_later=loop.call_later,
        )
        self.group_coordinator = CoordinatorShell(
            coordinator_config(settings, directory.cluster_id),
            OffsetsTopicStore(self.topics, self.durability, create=self.create_offsets_topic, wall_ms=clock.now_ms),
            now_ms=group_clock.now_ms,
            wall_ms=group_wall_clock.now_ms,
            wake_at=wake_coordinators_at,
            emit=self.events.publish,
            schedule_end_of_iteration=schedule_end_of_iteration,
            write_timeout_ms=settings.number("offsets.commit.timeout.ms"),
        )
        self.markers = PartitionMarkerWriter(
            self.topics,
            self.durability,
            complete_transaction=self.group_coordinator.complete_transaction,
            wall_ms=clock.now_ms,
            schedule_end_of_iteration=schedule_end_of_iteration,
            call_later=loop.call_later,
        )
        self.transaction_coordinator = TransactionShell(
            transaction_config(settings),
            TransactionsTopicStore(self.topics, self.durability, wall_ms=clock.now_ms),
            self.markers,
            allocate_producer_id=self.producer_ids.allocate,
            now_ms=group_clock.now_ms,
            wall_ms=group_wall_clock.now_ms,
            wake_at=wake_coordinators_at,
            schedule_end_of_iteration=schedule_end_of_iteration,
            call_later=loop.call_later,
        )
        self.group_metrics = GroupMetrics(
            self.group_coordinator.coordinator.groups, now_ms=group_clock.now_ms, end_offset=self._end_offset
        )
        self.events.subscribe(self.metrics.count_event)
        self.events.subscribe(self.group_metrics.apply_event)
        self._deleted_topics: dict[str, None] = {}

    def load(self) -> None:
        """Open the topics and groups of the data directory."""
        try:
            self._load()
        except BaseException:
            self.topics.close(clean=False)
            raise

    def _load(self) -> None:
        dynamic_config.load(self.directory.path, self.settings)
        self._configure_groups()
        self.settings.watch(self.topics.configure)
        self.topics.load(clean_shutdown=self.directory.clean_shutdown)
        for topic in self.topics:
            self.group_coordinator.coordinator.on_topic(topic.name, len(topic.partitions), created_ms=0)
        self.topics.on_partitions_created = self._partitions_created
        if (offsets := self.topics.get(OFFSETS_TOPIC)) is not None:  # it keeps the partitions it was made with
            partition_count = len(offsets.partitions)
            self.group_coordinator.reconfigure(
                replace(self.group_coordinator.config, offsets_topic_num_partitions=partition_count)
            )
        self.group_coordinator.load()
        self.transaction_coordinator.load()
        for sentence in describe_hanging(self.topics, self.transaction_coordinator.coordinator.transactions.values()):
            log.warning("%s", sentence)
        self.settings.watch(self._configure_groups)

    def write_pending(self) -> None:
        """Write the pending appends of this iteration, and those that follow from them."""
        self._write_once()
        # A transactional batch is appended after the transaction coordinator has written its partition.
        writers = self.appends, self.group_coordinator, self.markers, self.transaction_coordinator
        while any(writer.has_pending for writer in writers):
            self._write_once()

    def _write_once(self) -> None:
        self.appends.write_pending()
        self.group_coordinator.write_pending()
        self.transaction_coordinator.write_pending()
        self.markers.write_pending()
        self.events.write_or_defer()
        self.durability.flush_pending()

    def next_due_ms(self) -> int | None:
        """Return when `tick` must be called next, or None."""
        due_ms = self.group_coordinator.next_due_ms(), self.transaction_coordinator.next_due_ms()
        return min([each for each in due_ms if each is not None], default=None)

    def tick(self) -> None:
        """Fire the timers of groups and transactions that are due."""
        self.group_coordinator.tick()
        self.transaction_coordinator.tick()

    def address(self, context: RequestContext) -> tuple[str, int]:
        """Return the advertised address of the client's listener, or else the address that it connected to."""
        return self.advertised.get(context.listener_name) or context.connection.local_address

    def allows(self, context: RequestContext, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether the client may perform an operation; without an authorizer it may perform all."""
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows(context.principal, context.host, operation, resource, name)

    def allows_cluster(self, context: RequestContext, operation: AclOperation) -> bool:
        """Whether the client may perform an operation on the cluster."""
        return self.authorizer is None or self.allows(context, operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def allows_idempotent_writes(self, context: RequestContext) -> bool:
        """Whether the client may write to any topic: since KIP-679 that is enough for a producer id."""
        return self.allows_cluster(context, AclOperation.IDEMPOTENT_WRITE) or (
            self.authorizer is not None
            and self.authorizer.allows_any(context.principal, context.host, AclOperation.WRITE, AclResourceType.TOPIC)
        )

    def authorized_operations(self, context: RequestContext, resource: AclResourceType, name: str) -> int:
        """Return the client's operations on a resource as Kafka sends them: bit n is the operation with number n."""
        return sum(
            1 << operation for operation in OPERATIONS[resource] if self.allows(context, operation, resource, name)
        )

    def authorized_cluster_operations(self, context: RequestContext) -> int:
        """Return the client's operations on the cluster; 0 if it may not describe the cluster, as in Kafka."""
        if not self.allows_cluster(context, AclOperation.DESCRIBE):
            return 0
        return self.authorized_operations(context, AclResourceType.CLUSTER, CLUSTER_NAME)

    def create_offsets_topic(self, own: Mapping[str, str] | None = None) -> Topic:
        """Create `__consumer_offsets`; `own` overrides its default settings."""
        partitions = self.settings.number("offsets.topic.num.partitions")
        return self.topics.create(OFFSETS_TOPIC, partitions, self._offsets_topic_settings() | dict(own or {}))

    def _offsets_topic_settings(self) -> dict[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self.settings.number("offsets.topic.segment.bytes")),
        }

    def create_transactions_topic(self, own: Mapping[str, str] | None = None) -> Topic:
        """Create `__transaction_state`; `own` overrides its default settings."""
        partitions = self.settings.number("transaction.state.log.num.partitions")
        return self.topics.create(TRANSACTIONS_TOPIC, partitions, self._transactions_topic_settings() | dict(own or {}))

    def _transactions_topic_settings(self) -> dict[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(self.settings.number("transaction.state.log.segment.bytes")),
        }

    def _partitions_created(self, topic: str, partition_count: int) -> None:
        self.group_coordinator.topic_changed(topic, partition_count)
        if topic == TRANSACTIONS_TOPIC:
            self.transaction_coordinator.load()

    def _lost_settings(self, name: str) -> Mapping[str, str]:
        """Return the settings of a topic that `topics.json` has lost."""
        if name == OFFSETS_TOPIC:
            return self._offsets_topic_settings()
        if name == TRANSACTIONS_TOPIC:
            return self._transactions_topic_settings()
        return EVENTS_TOPIC_SETTINGS if name == EVENTS_TOPIC else KEEP_RECORDS

    def auto_create(self, name: str) -> Topic:
        """Create a topic that a client has requested."""
        if name == OFFSETS_TOPIC:
            return self.create_offsets_topic()
        if name == TRANSACTIONS_TOPIC:
            return self.create_transactions_topic()
        if name == EVENTS_TOPIC:
            return self.topics.create(name, 1, EVENTS_TOPIC_SETTINGS)
        return self.topics.create(name, self.settings.number("num.partitions"), {})

    def topics_deleted(self, names: list[str]) -> None:
        """Delete the offsets of deleted topics, and remember the names for `was_deleted`."""
        self.group_coordinator.topics_deleted(names)
        self._deleted_topics |= dict.fromkeys(names)
        for name in list(self._deleted_topics)[:-MAX_DELETED_TOPICS]:
            del self._deleted_topics[name]

    def was_deleted(self, name: str) -> bool:
        """Whether a topic with this name was deleted and this is the first question since."""
        if name not in self._deleted_topics:
            return False
        del self._deleted_topics[name]
        return True

    def connection_closed(self, connection: Connection) -> None:
        """Drop the waiting fetch of a closed connection."""
        self.delayed_fetches.drop(connection)

    def authentication_failed(self, host: str, reason: str) -> None:
        """Count and log a failed authentication."""
        self.metrics.failed_authentications += 1
        if len(reason) > MAX_REASON_CHARACTERS:  # anybody can send a mechanism of 32 kB
            reason = f"{reason[:MAX_REASON_CHARACTERS]}..."
        log.info("Failed authentication with %s (%s)", host, reason)

    def fail_authentication(
        self, context: RequestContext, response: Response | None, reason: str, delay_s: float
    ) -> None:
        """Send the response to a failed re-authentication, if there is one, after a delay; close the connection."""
        self.authentication_failed(context.host, reason)

        def send() -> None:
            if response is not None:
                context.respond(response)
            context.connection.close()

        self.loop.call_later(delay_s, send)

    def close(self, *, clean: bool) -> None:
        """Close the logs and the directory; `clean=False` leaves the state that a killed process leaves."""
        clean = clean and not self.directory.is_taken
        if clean:
            self.events.write()
        is_clean = self.topics.close(clean=clean)
        self.directory.close(clean=is_clean)

    def _end_offset(self, partition: TopicPartition) -> int | None:
        stored = self.topics.partition(partition.topic, partition.partition)
        return None if stored is None else stored.log.high_watermark

    def _configure_groups(self) -> None:
        """Apply changed settings; the number of partitions does not change."""
        partition_count = self.group_coordinator.config.offsets_topic_num_partitions
        config = coordinator_config(self.settings, self.cluster_id)
        self.group_coordinator.reconfigure(replace(config, offsets_topic_num_partitions=partition_count))


def transaction_config(settings: Settings) -> TransactionConfig:
    """Build the transaction coordinator's configuration from the broker settings."""
    return TransactionConfig(
        transaction_state_log_num_partitions=settings.number("transaction.state.log.num.partitions"),
        transaction_max_timeout_ms=settings.number("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=settings.number("transactional.id.expiration.ms"),
        transaction_abort_timed_out_transaction_cleanup_interval_ms=settings.number(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=settings.number(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
    )


def coordinator_config(settings: Settings, cluster_id: str) -> CoordinatorConfig:
    """Build the coordinator's configuration from the broker settings."""
    return CoordinatorConfig(
        group_min_session_timeout_ms=settings.number("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=settings.number("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=settings.number("group.initial.rebalance.delay.ms"),
        group_max_size=settings.number("group.max.size"),
        offsets_topic_num_partitions=settings.number("offsets.topic.num.partitions"),
        offsets_retention_ms=settings.number("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=settings.number("offsets.retention.check.interval.ms"),
        offset_metadata_max_bytes=settings.number("offset.metadata.max.bytes"),
        cluster=cluster_id,
    )
