"""Runs a group member: sends its requests, sets its timers, publishes its events.

Invariants:
- The state machine (group.member) is called with one lock held, by the application thread and by the network thread.
  The caller executes the effects, in order, before it releases the lock.
- Listener calls and errors belong to the application thread. They wait in `application_effects`.
- `lock` is notified after every change.
- A request that was not sent or got no response is reported as failed; the state machine decides what to do. It also
  learns of a lost coordinator connection while no request is in flight.
- Metadata requests are retried until they succeed. A missing topic is logged once; another topic error is raised.
- After a failed authentication no metadata is requested until the application has seen the error.
- Events are published on the network thread, in order and without the lock.
"""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from slackwater.client.errors import NetworkError, ResponseTooLargeError, UnsupportedVersionError
from slackwater.client.network.cluster import COORDINATOR, Cluster, TopicMetadata
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.group_apis import api_of, from_wire, to_wire, version_of
from slackwater.client.network.thread import NetworkThread
from slackwater.clock import Clock
from slackwater.escaping import get_logger
from slackwater.group.assignors import TopicInfo
from slackwater.group.errors import AuthorizationError, Error, SlackwaterError
from slackwater.group.events import GroupEvent, PublishEvent
from slackwater.group.member import (
    CommitDone,
    CoordinatorNode,
    Disconnect,
    GroupMember,
    MemberConfig,
    MemberEffect,
    NotifyListener,
    OffsetAndMetadata,
    OffsetsFetched,
    Raise,
    RefreshMetadata,
    Send,
)
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.topic_partition import TopicPartition
from slackwater.security.errors import AuthenticationError

log = get_logger("slackwater.client.consumer.membership")
OnCommit = Callable[[SlackwaterError | None], None]
_JITTER: Final = 0.2
_MISSING: Final = frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID, Error.LEADER_NOT_AVAILABLE})
OnRequest = Callable[[MemberRequest, MemberResponse | None], None]
OnCommitted = Callable[[Mapping[TopicPartition, OffsetAndMetadata | None], SlackwaterError | None], None]


class Membership:
    """The group member of one consumer or Spark query."""

    def __init__(
        self,
        config: MemberConfig,
        cluster: Cluster,
        network: NetworkThread,
        lock: threading.Condition,
        *,
        clock: Clock,
        on_event: Callable[[GroupEvent], None],
        on_request: OnRequest | None = None,
        create_topics: bool = False,
    ) -> None:
        self.member = GroupMember(config)
        self.lock = lock
        self.application_effects: deque[NotifyListener | Raise] = deque()
        self._cluster = cluster
        self._network = network
        self._clock = clock
        self._on_event = on_event
        self._on_request = on_request
        self._create_topics = create_topics
        self._missing_topics: frozenset[str] = frozenset()
        self._last_refresh = 0  # only the last requested refresh is retried
        self._last_id = 0
        self._commits: dict[int, OnCommit] = {}
        self._fetches: dict[int, OnCommitted] = {}
        self._coordinator_connection: BrokerConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None

    # --- called by the application thread ---------------------------------------------------------------------------

    def call_member(self, call: Callable[[GroupMember, int], list[MemberEffect]]) -> None:
        """Call the state machine and execute its effects."""
        with self.lock:
            self._execute(call(self.member, self._clock.now_ms()))

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_commit: OnCommit, *, sync: bool = False
    ) -> None:
        """Commit offsets; `on_commit` receives the outcome, on the network thread or on this one."""
        with self.lock:
            self._last_id += 1
            self._commits[self._last_id] = on_commit
            self._execute(self.member.commit(offsets, self._clock.now_ms(), commit_id=self._last_id, sync=sync))

    def fetch_committed(self, partitions: Iterable[TopicPartition], on_committed: OnCommitted) -> None:
        """Fetch committed offsets; `on_committed` receives the outcome."""
        with self.lock:
            self._last_id += 1
            self._fetches[self._last_id] = on_committed
            self._execute(self.member.fetch_committed(partitions, self._clock.now_ms(), fetch_id=self._last_id))

    def take_access_error(self) -> SlackwaterError | None:
        """Remove and return an error of authentication or authorization that the application has not seen."""
        for effect in self.application_effects:
            if isinstance(effect, Raise) and isinstance(effect.error, AuthenticationError | AuthorizationError):
                self.application_effects.remove(effect)
                return effect.error
        error = self.member.take_authorization_error()
        return self._with_required_acl(error) if error is not None else None

    # --- effects ------------------------------------------------------------------------------------------------------

    def _execute(self, effects: list[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._network.call_soon(self._send, effect, self.member.coordinator)
                case NotifyListener():
                    self.application_effects.append(effect)
                case Raise():
                    self.application_effects.append(Raise(self._with_required_acl(effect.error)))
                case PublishEvent():
                    self._network.call_soon(self._on_event, effect.event)
                case RefreshMetadata():
                    self._last_refresh += 1
                    self._network.call_soon(self._start_refresh, effect.topics, self._last_refresh)
                case Disconnect():
                    self._network.call_soon(self._cluster.disconnect, effect.node.host, effect.node.port, COORDINATOR)
                case CommitDone():
                    if (on_commit := self._commits.pop(effect.commit_id, None)) is not None:
                        on_commit(self._with_required_acl(effect.error) if effect.error is not None else None)
                case OffsetsFetched():
                    if (on_committed := self._fetches.pop(effect.fetch_id, None)) is not None:
                        error = effect.error
                        on_committed(effect.offsets, self._with_required_acl(error) if error is not None else None)
        due_ms = self.member.next_due_ms()
        if due_ms is not None and (self._timer_due_ms is None or due_ms < self._timer_due_ms):
            self._timer_due_ms = due_ms
            self._network.call_soon(self._set_timer, due_ms)
        self.lock.notify_all()

    def _with_required_acl(self, error: SlackwaterError) -> SlackwaterError:
        """Add the principal and the ACL that it needs to an error of the state machine, which does not know them."""
        if not isinstance(error, AuthorizationError):
            return error
        is_topic = error.error is Error.TOPIC_AUTHORIZATION_FAILED
        required_acl = "Read on these topics" if is_topic else f"Read on group {self.member.config.group_id}"
        return self._cluster.error(error.error, str(error), required_acl)

    # --- on the network thread --------------------------------------------------------------------------------------

    def _send(self, send: Send, coordinator: CoordinatorNode | None) -> None:
        self._notify_request(send.request, None)
        self._network.create_task(self._request(send, coordinator))

    def _notify_request(self, request: MemberRequest, response: MemberResponse | None) -> None:
        if self._on_request is not None:
            try:
                self._on_request(request, response)
            except Exception:  # a failed callback must not prevent the request
                log.exception("The callback for %s failed.", type(request).__name__)

    async def _request(self, send: Send, coordinator: CoordinatorNode | None) -> None:
        request = send.request
        try:
            if not send.to_coordinator:
                connection = await self._cluster.any_connection()
            elif coordinator is None:
                raise NetworkError("The coordinator is unknown.")
            else:
                connection = await self._cluster.connection_at(coordinator.host, coordinator.port, COORDINATOR)
                self._watch_coordinator(connection, coordinator)
            version = version_of(request, connection.version_of(api_of(request)))
            wire_response = await connection.send(
                to_wire(request, version), timeout_s=send.timeout_ms / 1000, version=version
            )
            response = from_wire(wire_response, request, version)
        except Exception as error:
            if isinstance(error, SlackwaterError):
                log.debug("%s failed: %s", type(request).__name__, error)
            else:  # after a bug, the state machine must not wait forever
                log.exception("%s failed.", type(request).__name__)
            if isinstance(error, UnsupportedVersionError | ResponseTooLargeError | AuthenticationError):
                self._raise(error)
            self.call_member(lambda member, now_ms: member.on_request_failed(send.request_id, now_ms))
        else:
            self._notify_request(request, response)
            self.call_member(lambda member, now_ms: member.on_response(send.request_id, response, now_ms))

    def _watch_coordinator(self, connection: BrokerConnection, coordinator: CoordinatorNode) -> None:
        """Report a lost connection to the coordinator, also while no request is in flight."""
        if connection is not self._coordinator_connection:
            self._coordinator_connection = connection
            connection.lost.add_done_callback(
                lambda _: self.call_member(lambda member, now_ms: member.on_disconnected(coordinator, now_ms))
            )

    def _raise(self, error: SlackwaterError) -> None:
        with self.lock:
            if not any(
                isinstance(effect, Raise) and str(effect.error) == str(error) for effect in self.application_effects
            ):
                self.application_effects.append(Raise(error))
            self.lock.notify_all()

    # Metadata

    def _start_refresh(self, topics: tuple[str, ...] | None, number: int) -> None:
        self._network.create_task(self._refresh(topics, number))

    async def _refresh(self, topics: Iterable[str] | None, number: int) -> None:
        """Request metadata until it arrives, or until a newer refresh replaces this one."""
        config = self._cluster.config
        backoff_ms = config.retry_backoff_ms
        while number == self._last_refresh and not self.member.is_closed:
            try:
                await self._update_metadata(topics)
                return
            except SlackwaterError as error:
                log.debug("A metadata request failed: %s", error)
                if isinstance(error, ResponseTooLargeError | AuthenticationError):
                    self._raise(error)
            await asyncio.sleep(backoff_ms / 1000 * random.uniform(1 - _JITTER, 1 + _JITTER))
            backoff_ms = min(backoff_ms * 2, config.retry_backoff_max_ms)
            while self._has_unseen_failure():
                await asyncio.sleep(config.retry_backoff_ms / 1000)

    def _has_unseen_failure(self) -> bool:
        """Whether the application has not seen yet that the authentication failed."""
        with self.lock:
            return not self.member.is_closed and any(
                isinstance(effect, Raise) and isinstance(effect.error, AuthenticationError)
                for effect in self.application_effects
            )

    async def refresh(self, also: Iterable[str] = ()) -> None:
        """Request the metadata of the member's topics and of these topics once."""
        with self.lock:
            topics = self.member.metadata_topics
        if topics is None or topics:
            await self._update_metadata(None if topics is None else topics | set(also))
        elif also := set(also):
            await self._cluster.refresh(also, create=self._create_topics)

    async def _update_metadata(self, topics: Iterable[str] | None) -> None:
        requested = None if topics is None else frozenset(topics)
        received = await self._cluster.refresh(requested, create=self._create_topics and requested is not None)
        if requested is not None:
            self._report_topic_errors(received)
        racks = {broker.node_id: broker.rack for broker in self._cluster.brokers.values()}
        with self.lock:
            needed = self.member.metadata_topics
            if requested is not None and (needed is None or not needed <= requested):
                return  # a newer request covers the topics needed now
            infos = {
                name: _topic_info(topic, racks)
                for name, topic in received.items()
                if topic.partitions and (needed is None or name in needed)
            }
            self.call_member(lambda member, now_ms: member.on_metadata(infos, now_ms))

    def _report_topic_errors(self, topics: Mapping[str, TopicMetadata]) -> None:
        """Warn once about a topic that does not exist, and raise an error that no retry resolves."""
        missing = frozenset(name for name, topic in topics.items() if topic.error in _MISSING)
        if new := missing - self._missing_topics:
            errors = ", ".join(f"{name}={topics[name].error.name}" for name in sorted(new))
            prefix = self._cluster.config.log_prefix
            log.warning("%sThe metadata response from the cluster reported a recoverable issue: {%s}", prefix, errors)
        self._missing_topics = missing
        for name, topic in topics.items():
            if topic.error is not Error.NONE and topic.error not in _MISSING and not topic.error.retriable:
                error = topic.error
                text = f"The topic {name} cannot be read: {error.name}."
                self._raise(self._cluster.error(error, text, f"Describe on topic {name}"))

    def _set_timer(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(due_ms - self._clock.now_ms(), 0) / 1000
        self._timer = self._network.loop.call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        with self.lock:
            self._timer = self._timer_due_ms = None
            self._execute(self.member.tick(self._clock.now_ms()))


def _topic_info(topic: TopicMetadata, racks: Mapping[int, str | None]) -> TopicInfo:
    """Return the part of a topic's metadata that assignors use."""
    if not any(racks.values()):
        return TopicInfo(len(topic.partitions), None)
    by_partition = tuple(
        frozenset(rack for node in partition.replicas if (rack := racks.get(node))) for partition in topic.partitions
    )
    return TopicInfo(len(topic.partitions), by_partition)
