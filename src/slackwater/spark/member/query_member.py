"""A streaming query as a member of its consumer group, in the process that Spark runs for the source.

Invariants:
- Two state machines share one lock: the group member (`client.consumer.membership`) and the query's batches
  (`group.batches`). A thread passes the group's notifications to the batches at once, whatever Spark does meanwhile.
- Effects of the batches are executed in order, one at a time, also when executing one produces more.
- A permanent error is raised in Spark's next call (`failure`).
- The process timer (`max.poll.interval.ms`) runs while a batch runs and the control connection is up. Every call from
  Spark and every finished task resets it. When it expires, the member leaves the group, logs the reason, and rejoins on
  Spark's next call.
"""

import os
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from typing import Any, Final

from slackwater.client.config import cluster_config
from slackwater.client.consumer.config import (
    STRATEGY,
    default_client_id,
    member_config,
    parse_assignors,
    warn_about_settings,
)
from slackwater.client.consumer.event_publisher import EventPublisher
from slackwater.client.consumer.log_lines import LogLines, consumer_prefix
from slackwater.client.consumer.membership import Membership
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.maintenance import run_maintenance
from slackwater.client.network.thread import NetworkThread
from slackwater.clock import Clock
from slackwater.escaping import get_logger
from slackwater.group.batches.effects import (
    BatchEffect,
    BatchEvent,
    BatchEventKind,
    CommitBatchOffsets,
    FetchCommitted,
    HoldPartitions,
    ReleasePartitions,
)
from slackwater.group.batches.machine import BatchPlanner
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.member import (
    Callback,
    FencedInstanceId,
    MemberConfig,
    NotifyListener,
    OffsetAndMetadata,
    Raise,
    RebalanceDriver,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import Value
from slackwater.spark.clients.settings import parse_kafka
from slackwater.spark.member.control_client import ControlClient
from slackwater.spark.member.control_server import ControlAddress
from slackwater.spark.source.options import SourceOptions

log = get_logger("slackwater.spark.member.query_member")
REBALANCE_METRICS: Final = (
    "rebalance-latency-avg",
    "rebalance-latency-max",
    "rebalance-total",
    "rebalance-rate-per-hour",
    "failed-rebalance-total",
    "last-rebalance-seconds-ago",
)
"""The metrics that the progress of a query contains."""
CLIENT_SOFTWARE: Final = "slackwater-spark"
COOPERATIVE: Final = "cooperative-sticky"
STATIC_SESSION_MS: Final = 120_000
SESSION_TIMEOUT_SETTING: Final = "session.timeout.ms"
CLOSE_TIMEOUT_S: Final = 5.0
LAST_BATCH_WAIT_S: Final = 2.0


class QueryClient:
    """The Kafka client of one query run: settings, cluster and network thread."""

    def __init__(self, options: SourceOptions) -> None:
        settings = dict(options.kafka)
        self.strategy = settings.pop(STRATEGY, COOPERATIVE)
        if options.group_instance_id is not None:
            settings.setdefault(SESSION_TIMEOUT_SETTING, str(STATIC_SESSION_MS))
        self.values: Mapping[str, Value] = parse_kafka(settings)
        group_id = options.group_id or ""
        self.client_id = str(self.values["client.id"]) or default_client_id(group_id)
        if options.application:
            self.client_id = (
                f"{options.application}-{os.getpid()}"  # each query has its own process, and its own metrics
            )
        self.prefix = consumer_prefix(self.client_id, group_id, options.group_instance_id)
        brokers = replace(
            cluster_config(self.values, self.client_id), log_prefix=self.prefix, client_software=CLIENT_SOFTWARE
        )
        self.network = NetworkThread(f"slackwater-{self.client_id}")
        self.cluster: Cluster = self.network.run(Cluster.create(brokers))

    def member_config(self) -> MemberConfig:
        """Return the configuration of the group member."""
        config = member_config(self.values, self.client_id, parse_assignors(self.strategy))
        return replace(config, driver=RebalanceDriver.BACKGROUND, enable_auto_commit=False)

    def close(self) -> None:
        """Close the connections and stop the thread."""
        self.network.run(self.cluster.close(), CLOSE_TIMEOUT_S)
        self.network.close()


class QueryMember:
    """The group membership of one query run."""

    def __init__(
        self,
        client: QueryClient,
        options: SourceOptions,
        batches: BatchPlanner,
        changed: threading.Condition,
        clock: Clock,
        control: ControlAddress | None,
    ) -> None:
        config = client.member_config()
        self.batches = batches
        self.changed = changed
        self.failure: SlackwaterError | None = None
        self.joined = False
        self._client = client
        self._options = options
        self._clock = clock
        self._log_lines = LogLines(client.client_id, config.group_id, config.group_instance_id)
        publish = bool(client.values["group.events.publish"])
        self._publisher = EventPublisher(client.cluster, client.network) if publish else None
        self._membership = Membership(
            config,
            client.cluster,
            client.network,
            changed,
            clock=clock,
            on_event=self._publish,
            on_request=self._log_lines.log_request,
        )
        self._pending_effects: deque[BatchEffect] = deque()
        self._is_executing = False
        self.last_progress_ms = clock.now_ms()
        self._has_left = False  # max.poll.interval.ms exceeded
        self._is_stopped = False
        self._has_no_partitions = False
        self.is_stateful = False
        self._stateful_reported = False
        self._control_client: ControlClient | None = None
        self._control_address = control
        self._last_batch_reported = threading.Event()
        self._log_lines.log_start(
            {**client.values, "client.id": client.client_id},
            [assignor.name for assignor in config.assignors],
            "source for Spark",
        )
        warn_about_settings(config)
        if (notice := self._membership.member.eager_background_warning) is not None:
            log.warning("%s%s", client.prefix, notice)

    @property
    def config(self) -> MemberConfig:
        """The configuration of the member."""
        return self._membership.member.config

    @property
    def generation_id(self) -> int:
        """The generation id, or -1."""
        return self._membership.member.generation_id

    @property
    def member_id(self) -> str:
        """The member id from the coordinator."""
        return self._membership.member.member_id

    @property
    def protocol_name(self) -> str | None:
        """The assignor that the group uses."""
        return self._membership.member.protocol_name

    def rebalance_metrics(self, now_ms: int) -> dict[str, float | None]:
        """Return the member's rebalance metrics under Kafka's names; None if there is no value yet."""
        values = self._membership.member.metrics(now_ms)
        return {name: None if isnan(values[name]) else values[name] for name in REBALANCE_METRICS}

    @property
    def is_stable(self) -> bool:
        """Whether the member has joined and no rebalance is pending."""
        return self.joined and not self._membership.member.needs_rejoin

    def start(self) -> None:
        """Connect to the control server and join the group."""
        self._connect_control()
        self._subscribe()
        threading.Thread(
            target=self._pass_notifications, name=f"slackwater-member-{self._client.client_id}", daemon=True
        ).start()
        self._client.network.submit(run_maintenance(self._client.cluster, self._membership.refresh))

    def _subscribe(self) -> None:
        pattern, topics = self._options.subscribe_pattern, self._options.subscribe or ()
        if pattern is not None:
            self._log_lines.log_pattern_subscription(pattern)
            self._membership.call_member(lambda member, now_ms: member.subscribe_pattern(pattern, now_ms))
        else:
            self._log_lines.log_subscription(topics)
            self._membership.call_member(lambda member, now_ms: member.subscribe(topics, now_ms))

    # --- calls from Spark -------------------------------------------------------------------------------------------

    def reset_process_timer(self) -> None:
        """Reset the process timer; rejoin if it had expired."""
        with self.changed:
            self.last_progress_ms = self._clock.now_ms()
            member = self._membership.member
            if self._has_left and not member.is_notifying_listener and not member.owned:
                self._has_left = False
                log.info("%sThe query makes progress again; rejoining the group.", self._client.prefix)
                self._subscribe()

    def on_batch_finished(self, seq: int) -> None:
        """Record that all batches up to this one are finished."""
        with self.changed:
            self.execute(self.batches.on_finished(seq, self._clock.now_ms()))

    def abandon(self) -> None:
        """Stop without leaving the group, as a crash does."""
        with self.changed:
            self._is_stopped = True
            self.changed.notify_all()

    def stop(self) -> None:
        """Commit finished batches and leave the group. A static member stays for its next run."""
        if self.batches.is_running and self._control_client is not None and self._control_client.is_connected:
            # Spark does not report how the last batch ended; the control server may.
            self._last_batch_reported.wait(LAST_BATCH_WAIT_S)
        with self.changed:
            self.execute(self.batches.stop(self._clock.now_ms()))
            self.changed.wait_for(
                lambda: not self.batches.has_pending_commits or self.failure is not None, CLOSE_TIMEOUT_S
            )
            self._membership.call_member(
                lambda member, now_ms: member.close(now_ms, timeout_ms=int(CLOSE_TIMEOUT_S * 1000))
            )
            self.changed.wait_for(lambda: self._membership.member.is_closed, CLOSE_TIMEOUT_S)
            self._is_stopped = True
            self.changed.notify_all()
        if self._control_client is not None:
            self._control_client.close()
        if self._publisher is not None:
            self._client.network.run(self._publisher.finish(1.0), CLOSE_TIMEOUT_S)

    # --- effects ------------------------------------------------------------------------------------------------------

    def execute(self, effects: list[BatchEffect]) -> None:
        """Execute effects of the batches. The caller holds the lock."""
        self._pending_effects.extend(effects)
        if self._is_executing:
            return
        self._is_executing = True
        try:
            while self._pending_effects:
                self._execute_one(self._pending_effects.popleft())
        finally:
            self._is_executing = False
        self.changed.notify_all()

    def _execute_one(self, effect: BatchEffect) -> None:
        match effect:
            case HoldPartitions():
                self._membership.member.hold(effect.partitions)
            case ReleasePartitions():
                released = effect.partitions
                self._membership.call_member(lambda member, now_ms: member.release(released, now_ms))
            case CommitBatchOffsets():
                self._commit(effect)
            case FetchCommitted():
                self._fetch(effect)
            case BatchEvent():
                _log_event(effect, self._client.prefix)

    def _commit(self, commit: CommitBatchOffsets) -> None:
        def on_response(error: SlackwaterError | None) -> None:
            if error is not None:
                log.debug("%sOffset commit failed: %s", self._client.prefix, error)
            self.execute(self.batches.on_commit_done(commit.commit_id, error, self._clock.now_ms()))

        try:
            self._membership.commit(commit.offsets, on_response, sync=True)
        except UsageError as error:  # the member is closing
            on_response(error)

    def _fetch(self, fetch: FetchCommitted) -> None:
        def on_response(
            offsets: Mapping[TopicPartition, OffsetAndMetadata | None], error: SlackwaterError | None
        ) -> None:
            if isinstance(error, BrokerError) and not error.retriable:
                self._fail(error)
            failed = error is not None
            self.execute(
                self.batches.on_committed_fetched(fetch.fetch_id, offsets, self._clock.now_ms(), failed=failed)
            )

        try:
            self._membership.fetch_committed(fetch.partitions, on_response)
        except UsageError:  # the member is closing
            return

    # --- notifications of the group -----------------------------------------------------------------------------------

    def _pass_notifications(self) -> None:
        """Pass the group's notifications and due timers to the batches until the query stops."""
        with self.changed:
            while not self._is_stopped:
                while self._membership.application_effects:
                    effect = self._membership.application_effects.popleft()
                    if isinstance(effect, Raise):
                        self._fail(effect.error)
                    else:
                        self._notify(effect)
                now_ms = self._clock.now_ms()
                leaving = self._membership.member.pending_revocation
                if leaving != self.batches.leaving:
                    self.execute(self.batches.set_leaving(leaving, now_ms))
                due_ms = self.batches.next_due_ms()
                if due_ms is not None and due_ms <= now_ms:
                    self.execute(self.batches.tick(now_ms))
                    due_ms = self.batches.next_due_ms()
                self._check_process_timer(now_ms)
                if not self._membership.application_effects:
                    wait_s = 1.0 if due_ms is None else min(max((due_ms - now_ms) / 1000, 0.001), 1.0)
                    self.changed.wait(wait_s)

    def _notify(self, notify: NotifyListener) -> None:
        now_ms = self._clock.now_ms()
        partitions = notify.partitions
        match notify.callback:
            case Callback.ASSIGNED:
                self.joined = True
                self.execute(self.batches.on_assigned(partitions, now_ms))
                self._log_without_partitions()
                self._check_stateful()
            case Callback.REVOKED:
                self.execute(self.batches.on_revoked(partitions, now_ms))
            case Callback.LOST:
                self.execute(self.batches.on_lost(partitions, now_ms))
        self._membership.call_member(lambda member, now_ms: member.on_listener_done(now_ms))

    def _log_without_partitions(self) -> None:
        is_without = not self.batches.owned
        if is_without and not self._has_no_partitions:
            log.info(
                "%sThis query has no partitions; it waits for the next rebalance.",
                self._client.prefix,
            )
        self._has_no_partitions = is_without

    def _publish(self, event: GroupEvent) -> None:
        self._log_lines.log_event(event)
        if self._publisher is not None:
            self._publisher.publish(event)

    def _fail(self, error: SlackwaterError) -> None:
        if self.failure is None:
            self.failure = _translate_error(error, self.config)
            log.error("%s%s", self._client.prefix, self.failure)
        self.changed.notify_all()

    def _check_process_timer(self, now_ms: int) -> None:
        limit_ms = self.config.max_poll_interval_ms
        if (
            not self.batches.is_running
            or self._control_client is None
            or not self._control_client.is_connected
            or self._has_left
        ):
            return
        if now_ms - self.last_progress_ms < limit_ms:
            return
        self._has_left = True
        log.warning(
            "%sNo task of the running batch has ended within %d ms (kafka.max.poll.interval.ms exceeded): the query "
            "leaves the group and rejoins when it makes progress. Other members may read the batch again.",
            self._client.prefix,
            limit_ms,
        )
        overrun_ms = now_ms - self.last_progress_ms - limit_ms
        self._membership.call_member(lambda member, now_ms: member.leave_on_poll_timeout(overrun_ms, now_ms))

    # --- control connection -------------------------------------------------------------------------------------------

    def _connect_control(self) -> None:
        config = self.config
        if self._control_address is not None:
            hello = {
                "checkpoint_id": self.batches.checkpoint_id,
                "group": config.group_id,
                "instance": config.group_instance_id,
            }
            self._control_client = ControlClient(
                self._control_address, hello, self._on_control_message, self._on_control_disconnected
            )
        if self._control_client is None or not self._control_client.is_connected:
            log.info(
                "%sThis query has no listener. It learns the end of a batch when Spark plans the next one, and does "
                "not check kafka.max.poll.interval.ms. Call slackwater.spark.register(spark) to start a listener.",
                self._client.prefix,
            )

    def _on_control_message(self, message: dict[str, Any]) -> None:
        match message:
            case {"prepare": {"id": int(number), "seq": int(seq)}}:
                answer = self._inputs(seq)
                if self._control_client is not None:
                    self._control_client.send({"prepared": {"id": number, **answer}})
                return
        with self.changed:
            match message:
                case {"finished": {"token": str(checkpoint_id), "seq": int(seq)}} if (
                    checkpoint_id == self.batches.checkpoint_id
                ):
                    self.reset_process_timer()
                    self.on_batch_finished(seq)
                    if not self.batches.is_running:
                        self._last_batch_reported.set()
                case {"task_ended": {"checkpoint_id": str(checkpoint_id)}} if (
                    checkpoint_id == self.batches.checkpoint_id
                ):
                    self.reset_process_timer()
                case {"query": {"stateful": bool(stateful)}}:
                    self.is_stateful = stateful
                    self._check_stateful()
                case {"refused": str(reason)}:
                    self._fail(UsageError(reason))

    def _on_control_disconnected(self) -> None:
        with self.changed:
            self._last_batch_reported.set()
            if not self._is_stopped:
                log.info("%sThe control connection is closed.", self._client.prefix)

    def _inputs(self, seq: int) -> dict[str, object]:
        """Return the offsets that the sink commits with the output of a batch, or why it must not."""
        with self.changed:
            if self.config.group_id and self._options.handover == "handoff":
                return {"refused": "handover=handoff commits offsets before the output; use handover=wait."}
            offsets, lost = self.batches.input_offsets(seq)
            if lost:
                names = ", ".join(map(str, sorted(lost)[:5]))
                return {
                    "refused": f"this query does not own {names} any more, and the new owner writes the output of "
                    "these records. Restart the query: it runs the rest of the batch again."
                }
            return {
                "inputs": {
                    "group": self.config.group_id,
                    "generation": self.generation_id,
                    "member": self.member_id,
                    "instance": self.config.group_instance_id,
                    "offsets": [
                        [*partition, to_commit.offset, to_commit.metadata]
                        for partition, to_commit in sorted(offsets.items())
                    ],
                }
            }

    def _check_stateful(self) -> None:
        """Warn or fail if a stateful query shares its topics: state does not move with a partition."""
        policy = self._options.stateful_handover
        if not self.is_stateful or self._stateful_reported or policy == "allow" or not self._shares_topics():
            return
        self._stateful_reported = True
        text = (
            "This query is stateful and shares its topics with other members of the group, but state does not move "
            "with a partition. Use a stateless query in the group that writes to a topic by key, and a separate "
            "stateful query that reads it; or set statefulHandover to allow."
        )
        if policy == "refuse":
            self._fail(UsageError(text))
        else:
            log.warning("%s%s", self._client.prefix, text)

    def _shares_topics(self) -> bool:
        if not self.joined:
            return False
        topics = self._client.cluster.topics
        subscription = self._membership.member.subscription
        total = sum(len(topics[name].partitions) for name in subscription if name in topics)
        return len(self.batches.owned) < total


def _translate_error(error: SlackwaterError, config: MemberConfig) -> SlackwaterError:
    """Translate an error of the member into terms of the source's options."""
    if isinstance(error, FencedInstanceId):
        return UsageError(
            f"Another process has joined group {config.group_id} with kafka.group.instance.id="
            f"{config.group_instance_id} and fenced this query. Use a different instance id for each query."
        )
    if isinstance(error, BrokerError) and error.error is Error.INCONSISTENT_GROUP_PROTOCOL:
        return UsageError(
            f"This query cannot join group {config.group_id}: it is not a consumer group, or it uses none of the "
            "assignors in kafka.partition.assignment.strategy = "
            f"{', '.join(assignor.name for assignor in config.assignors)}. Use another kafka.group.id or assignor."
        )
    return error


def _log_event(event: BatchEvent, prefix: str) -> None:
    partition, offset = event.partition, event.offset
    match event.kind:
        case BatchEventKind.STARTED:
            log.info("%s%s starts at offset %d.", prefix, partition, offset)
        case BatchEventKind.HANDED_OVER:
            log.info("%s%s was handed over after %d ms.", prefix, partition, event.duration_ms)
        case BatchEventKind.HANDOVER_TIMED_OUT:
            log.warning(
                "%s%s was revoked %d ms ago and the batch still runs (handoverTimeout exceeded): the partition is "
                "released, and its new owner reads the batch again.",
                prefix,
                partition,
                event.duration_ms,
            )
        case BatchEventKind.RESET_FOLLOWED:
            log.warning(
                "%s%s starts at offset %d: the committed offset was reset; the position of this query was %d.",
                prefix,
                partition,
                offset,
                event.previous_offset,
            )
        case BatchEventKind.REPLAYED:
            log.info(
                "%s%s: reading the unfinished batch again from offset %d to %d.",
                prefix,
                partition,
                offset,
                event.previous_offset,
            )
        case BatchEventKind.SKIPPED:
            log.info("%s%s: skipping the unfinished batch; the partition has another owner.", prefix, partition)
