"""A group member at work: the core's machine, its requests on the network, its timers, its events.

Rules kept here
- The machine is called under one lock, by the application's thread and by the network's: whoever calls carries the
  effects out, in order, before letting go of the lock.
- What belongs to the application's thread (listeners, errors) is kept in `due` until that thread takes it.
- Whoever waits is woken after every change (`changed`).
- A request that could not be sent or was not answered is `failed`; the machine decides what becomes of it. It hears of
  a lost connection to the coordinator also while nothing was asked.
- Metadata is asked for until it comes. A topic that cannot be had is an error to raise; one that does not exist, or
  not yet, is a warning, once.
- Events are told on the network's thread, in order and without the lock.
"""

import asyncio
import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from slackwater.client.errors import NetworkError, UnsupportedVersionError
from slackwater.client.network.cluster import COORDINATOR, Cluster, TopicMetadata
from slackwater.client.network.connection import BrokerConnection
from slackwater.client.network.group_apis import api_of, from_wire, to_wire, version_of
from slackwater.client.network.thread import NetworkThread
from slackwater.clock import Clock
from slackwater.group.assignors import TopicInfo
from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.events import GroupEvent
from slackwater.group.member import (
    BrokerNode,
    CommitDone,
    Disconnect,
    EmitEvent,
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

log = logging.getLogger("slackwater.client.consumer.membership")
Heard = Callable[[SlackwaterError | None], None]
_JITTER: Final = 0.2
_ABSENT: Final = frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID, Error.LEADER_NOT_AVAILABLE})
Said = Callable[[MemberRequest, MemberResponse | None], None]
Fetched = Callable[[Mapping[TopicPartition, OffsetAndMetadata | None], SlackwaterError | None], None]


class Membership:
    """One member of one group."""

    def __init__(
        self,
        config: MemberConfig,
        cluster: Cluster,
        network: NetworkThread,
        changed: threading.Condition,
        *,
        clock: Clock,
        tell: Callable[[GroupEvent], None],
        said: Said | None = None,
        create_topics: bool = False,
    ) -> None:
        self.member = GroupMember(config)
        self.changed = changed
        self.due: deque[NotifyListener | Raise] = deque()
        self._cluster = cluster
        self._network = network
        self._clock = clock
        self._tell = tell
        self._said = said
        self._create_topics = create_topics
        self._absent: frozenset[str] = frozenset()
        self._wishes = 0  # refreshes that were asked for: the last one counts
        self._ids = 0
        self._commits: dict[int, Heard] = {}
        self._fetches: dict[int, Fetched] = {}
        self._watched: BrokerConnection | None = None  # the coordinator's
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms: int | None = None

    # --- called by the application's thread ---------------------------------------------------------------------------

    def do(self, call: Callable[[GroupMember, int], list[MemberEffect]]) -> None:
        """Call the machine, and carry out what it wants."""
        with self.changed:
            self._carry_out(call(self.member, self._clock.now_ms()))

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], heard: Heard, *, sync: bool = False) -> None:
        """Commit; `heard` is told the outcome, on the network's thread or this one."""
        with self.changed:
            self._ids += 1
            self._commits[self._ids] = heard
            self._carry_out(self.member.commit(offsets, self._clock.now_ms(), commit_id=self._ids, sync=sync))

    def fetch_committed(self, partitions: Iterable[TopicPartition], heard: Fetched) -> None:
        """Ask for committed offsets."""
        with self.changed:
            self._ids += 1
            self._fetches[self._ids] = heard
            self._carry_out(self.member.fetch_committed(partitions, self._clock.now_ms(), fetch_id=self._ids))

    # --- effects ------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._network.call_soon(self._send, effect, self.member.coordinator)
                case NotifyListener() | Raise():
                    self.due.append(effect)
                case EmitEvent():
                    self._network.call_soon(self._tell, effect.event)
                case RefreshMetadata():
                    self._wishes += 1
                    self._network.call_soon(self._refresh_now, effect.topics, self._wishes)
                case Disconnect():
                    self._network.call_soon(self._cluster.disconnect, effect.node.host, effect.node.port, COORDINATOR)
                case CommitDone():
                    if (heard := self._commits.pop(effect.commit_id, None)) is not None:
                        heard(effect.error)
                case OffsetsFetched():
                    if (fetched := self._fetches.pop(effect.fetch_id, None)) is not None:
                        fetched(effect.offsets, effect.error)
        due_ms = self.member.next_due_ms()
        if due_ms is not None and (self._armed_ms is None or due_ms < self._armed_ms):
            self._armed_ms = due_ms
            self._network.call_soon(self._arm, due_ms)
        self.changed.notify_all()

    # --- on the network's thread --------------------------------------------------------------------------------------

    def _send(self, send: Send, coordinator: BrokerNode | None) -> None:
        self._say(send.request, None)
        self._network.create_task(self._ask(send, coordinator))

    def _say(self, request: MemberRequest, answer: MemberResponse | None) -> None:
        if self._said is not None:
            try:
                self._said(request, answer)
            except Exception:  # what is said about a request must never keep it from being sent
                log.exception("%s could not be told.", type(request).__name__)

    async def _ask(self, send: Send, coordinator: BrokerNode | None) -> None:
        request = send.request
        try:
            if not send.to_coordinator:
                connection = await self._cluster.any_connection()
            elif coordinator is None:
                raise NetworkError("The coordinator is not known.")
            else:
                connection = await self._cluster.connection_at(coordinator.host, coordinator.port, COORDINATOR)
                self._watch(connection, coordinator)
            version = version_of(request, connection.version_of(api_of(request)))
            response = await connection.send(
                to_wire(request, version), timeout_s=send.timeout_ms / 1000, version=version
            )
            answer = from_wire(response, request, version)
        except Exception as error:
            if isinstance(error, SlackwaterError):
                log.debug("%s got no answer: %s", type(request).__name__, error)
            else:  # a fault of ours must not leave the machine waiting for ever
                log.exception("%s could not be asked.", type(request).__name__)
            if isinstance(error, UnsupportedVersionError):
                self._raise(error)
            self.do(lambda member, now_ms: member.on_request_failed(send.request_id, now_ms))
        else:
            self._say(request, answer)
            self.do(lambda member, now_ms: member.on_response(send.request_id, answer, now_ms))

    def _watch(self, connection: BrokerConnection, coordinator: BrokerNode) -> None:
        """Hear when the coordinator's connection is lost, also while nothing is asked on it."""
        if connection is not self._watched:
            self._watched = connection
            connection.lost.add_done_callback(
                lambda _: self.do(lambda member, now_ms: member.on_disconnected(coordinator, now_ms))
            )

    def _raise(self, error: SlackwaterError) -> None:
        with self.changed:
            if not any(isinstance(due, Raise) and str(due.error) == str(error) for due in self.due):
                self.due.append(Raise(error))
            self.changed.notify_all()

    # Metadata

    def _refresh_now(self, topics: tuple[str, ...] | None, wish: int) -> None:
        self._network.create_task(self._refresh(topics, wish))

    async def _refresh(self, topics: Iterable[str] | None, wish: int) -> None:
        """Ask until the answer comes, or something else is wanted."""
        config = self._cluster.config
        pause_ms = config.retry_backoff_ms
        while wish == self._wishes and not self.member.is_closed:
            try:
                await self._came(topics)
                return
            except SlackwaterError as error:
                log.debug("Metadata could not be had: %s", error)
            await asyncio.sleep(pause_ms / 1000 * random.uniform(1 - _JITTER, 1 + _JITTER))
            pause_ms = min(pause_ms * 2, config.retry_backoff_max_ms)

    async def refresh(self, also: Iterable[str] = ()) -> None:
        """Ask once for what the member wants to know, and for these topics."""
        with self.changed:
            topics = self.member.metadata_topics
        if topics is None or topics:
            await self._came(None if topics is None else topics | set(also))
        elif also := set(also):
            await self._cluster.refresh(also, create=self._create_topics)

    async def _came(self, topics: Iterable[str] | None) -> None:
        wanted = None if topics is None else frozenset(topics)
        found = await self._cluster.refresh(wanted, create=self._create_topics and wanted is not None)
        self._complain(found, wanted)
        racks = {broker.node_id: broker.rack for broker in self._cluster.brokers.values()}
        with self.changed:
            needed = self.member.metadata_topics
            if wanted is not None and (needed is None or not needed <= wanted):
                return  # more is wanted by now, and was asked for
            infos = {
                name: _info(topic, racks)
                for name, topic in found.items()
                if topic.partitions and (needed is None or name in needed)
            }
            self.do(lambda member, now_ms: member.on_metadata(infos, now_ms))

    def _complain(self, found: Mapping[str, TopicMetadata], wanted: frozenset[str] | None) -> None:
        """Say which topics cannot be had."""
        if wanted is None:
            return
        absent = frozenset(name for name, topic in found.items() if topic.error in _ABSENT)
        if new := absent - self._absent:
            words = ", ".join(f"{name}={found[name].error.name}" for name in sorted(new))
            prefix = self._cluster.config.log_prefix
            log.warning("%sThe metadata response from the cluster reported a recoverable issue: {%s}", prefix, words)
        self._absent = absent
        for name, topic in found.items():
            if topic.error is not Error.NONE and topic.error not in _ABSENT and not topic.error.retriable:
                error = topic.error
                self._raise(BrokerError(error, f"The topic {name} cannot be read: {error.name}."))

    def _arm(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(due_ms - self._clock.now_ms(), 0) / 1000
        self._timer = self._network.loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        with self.changed:
            self._timer = self._armed_ms = None
            self._carry_out(self.member.tick(self._clock.now_ms()))


def _info(topic: TopicMetadata, racks: Mapping[int, str | None]) -> TopicInfo:
    """What an assignor is told of a topic."""
    if not any(racks.values()):
        return TopicInfo(len(topic.partitions), None)
    by_partition = tuple(
        frozenset(rack for node in partition.replicas if (rack := racks.get(node))) for partition in topic.partitions
    )
    return TopicInfo(len(topic.partitions), by_partition)
