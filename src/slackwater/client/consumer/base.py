"""What a consumer is made of, and how a poll goes: the ground on which `Consumer` puts its calls.

Rules kept here
- The group member, the fetcher and the positions share one lock. A poll lets the member move on, tells the listener
  without the lock, finds where to start, and gives out what was fetched; then it waits for a change of any of them.
- Every error is raised by a call of the application's thread, once.
- A poll that waits goes on often enough to count as polling all along.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from slackwater.client.config import CONSUMER_SETTINGS, cluster_config, int_value, merge_settings, parse_settings
from slackwater.client.consumer.config import (
    STRATEGY,
    default_client_id,
    fetch_config,
    member_config,
    parse_assignors,
    warn_about_settings,
)
from slackwater.client.consumer.decoding import RecordDecoder
from slackwater.client.consumer.event_publisher import EventPublisher
from slackwater.client.consumer.fetcher import Fetcher, NoOffsetForPartitionError
from slackwater.client.consumer.log_lines import LogLines, consumer_prefix
from slackwater.client.consumer.membership import Membership
from slackwater.client.consumer.positions import PartitionState, Positions
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.errors import ClientClosedError, ClientTimeoutError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.maintenance import run_maintenance
from slackwater.client.network.thread import NetworkThread
from slackwater.clock import AnchoredClock
from slackwater.group.errors import PeerError, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.member import (
    Callback,
    MemberConfig,
    NotifyListener,
    OffsetAndMetadata,
    OperationTimedOut,
    Raise,
    Wakeup,
)
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


log = logging.getLogger("slackwater.client.consumer.consumer")
T = TypeVar("T")


class RebalanceListener(Protocol):
    """What an application may want to know of a rebalance; a class that has only some of the methods will do."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """These are new; seeks hold."""
        return

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """These go to somebody else now; a commit still lands."""
        return

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """These are somebody else's already, and a commit is refused."""
        self.on_partitions_revoked(partitions)


class ConsumerBase:
    """A consumer without its calls."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **more: object) -> None:
        settings = merge_settings(config, more)
        assignors = parse_assignors(settings.pop(STRATEGY, None))
        ignored: list[str] = []
        values = parse_settings(settings, CONSUMER_SETTINGS, ignored=ignored.append)
        group_id, instance_id = str(values["group.id"]), str(values["group.instance.id"]) or None
        self._given = settings
        self._settings = values
        self.client_id = str(values["client.id"]) or default_client_id(group_id)
        self._clock = AnchoredClock()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._user: int | None = None  # the thread that is inside a call
        self._depth = 0
        self._woken = False
        self._closed = False
        self._listening = False  # the application's listener is being told something
        self._handing_over = False  # a runner takes the records, and says itself what was consumed
        self._listener: RebalanceListener | None = None
        self._events: list[Callable[[GroupEvent], None]] = []
        self._callbacks: deque[Callable[[], None]] = deque()  # of asynchronous commits, for the thread that polls
        self._polled: dict[TopicPartition, OffsetAndMetadata] = {}  # given out, consumed from the next poll on
        self._positions = Positions()
        prefix = consumer_prefix(self.client_id, group_id, instance_id)
        brokers = replace(cluster_config(values, self.client_id), log_prefix=prefix)
        member = member_config(values, self.client_id, assignors) if group_id else None
        fetch = fetch_config(values, self._clock.now_ms)
        self._max_poll_records = int_value(values, "max.poll.records")
        self._unpacker = RecordDecoder(self._positions, check_crcs=bool(values["check.crcs"]))
        if ignored:
            log.info("%sSettings of other clients are ignored: %s.", prefix, ", ".join(sorted(ignored)))
        if member is not None:
            warn_about_settings(member)
        self._lines = LogLines(self.client_id, group_id, instance_id)
        self._network = NetworkThread(f"slackwater-{self.client_id}")
        self._cluster = self._network.run(Cluster.create(brokers))
        self._publisher = EventPublisher(self._cluster, self._network) if values["group.events.publish"] else None
        self._fetcher = Fetcher(fetch, self._cluster, self._network, self._changed, self._positions)
        self._membership = self._join(member) if member is not None else None
        if self._membership is not None:
            self._fetcher.refresh = self._membership.refresh
        self._house: Future[None] = self._network.submit(run_maintenance(self._cluster, self._refresh))

    def _join(self, member: MemberConfig) -> Membership:
        return Membership(
            member,
            self._cluster,
            self._network,
            self._changed,
            clock=self._clock,
            tell=self._tell,
            said=self._lines.said,
            create_topics=bool(self._settings["allow.auto.create.topics"]),
        )

    async def _refresh(self) -> None:
        with self._changed:
            topics = {state.partition.topic for state in self._positions}
        await self._fetcher.refresh(topics)

    # --- polling ------------------------------------------------------------------------------------------------------

    def _poll(self, timeout: float, take: Callable[[], T | None]) -> T | None:
        self._not_in_listener("poll()")
        deadline = time.monotonic() + max(timeout, 0.0)
        self._note_consumed()
        membership, again = self._membership, False
        if not len(self._positions) and not self._wants_something():
            raise UsageError("There is nothing to poll: assign partitions, or set group.id and subscribe to topics.")
        try:
            while True:
                if membership is not None:
                    self._move_on(membership, again)
                    again = True
                self._call_back()
                with self._changed:
                    self._raise_pending()
                    self._find_starts()
                    found = take()
                    self._fetcher.kick()
                    left = deadline - time.monotonic()
                    if found is not None or left <= 0:
                        return found
                    if not self._something_due(membership):
                        self._changed.wait(min(left, self._until_next_poll(membership)))
        finally:
            if membership is not None:
                membership.member.poll_returned(self._clock.now_ms())

    def _wants_something(self) -> bool:
        membership = self._membership
        return membership is not None and (
            membership.member.metadata_topics is None or bool(membership.member.subscription)
        )

    def _something_due(self, membership: Membership | None) -> bool:
        due = bool(membership.due) if membership is not None else False
        return due or self._woken or bool(self._callbacks) or self._fetcher.failed

    def _move_on(self, membership: Membership, again: bool) -> None:
        """Let the machine go as far as it can, with the listener where it wants it."""
        membership.do(lambda member, now_ms: member.poll(now_ms, again=again))
        self._do_due()
        with self._changed:
            self._follow(membership)

    def _follow(self, membership: Membership) -> None:
        """Read what the group says is ours."""
        member = membership.member
        if member.subscription or any(True for _ in self._positions) or member.owned:
            owned = member.owned
            if frozenset(state.partition for state in self._positions) != owned:
                self._positions.assign(sorted(owned))

    def _until_next_poll(self, membership: Membership | None) -> float:
        """Seconds until the machine wants to go on; often enough that a long poll counts as polling all along."""
        if membership is None:
            return 3600.0
        longest_s = membership.member.config.max_poll_interval_ms / 3000
        due_ms = membership.member.next_poll_ms()
        if due_ms is None:
            return longest_s
        return min(max((due_ms - self._clock.now_ms()) / 1000, 0.001), longest_s)

    def _do_due(self) -> None:
        """Tell the listener and raise errors, as the machine wants it."""
        membership = self._membership
        while membership is not None:
            with self._changed:
                if not membership.due:
                    return
                due = membership.due.popleft()
            if isinstance(due, Raise):
                raise due.error
            self._notify(membership, due)

    def _notify(self, membership: Membership, notify: NotifyListener) -> None:
        with self._changed:
            self._follow(membership)
        failure: BaseException | None = None
        interrupt: BaseException | None = None
        self._listening = True
        try:
            self._tell_listener(notify)
        except Exception as error:
            failure = error
        except BaseException as error:  # Ctrl-C: as a wakeup, what was told is told again
            interrupt, failure = error, Wakeup("The listener was interrupted.")
        finally:
            self._listening = False
        membership.do(lambda member, now_ms: member.on_listener_done(now_ms, failure))
        with self._changed:
            self._follow(membership)
        if interrupt is not None:
            raise interrupt
        if isinstance(failure, Wakeup):
            raise failure

    def _tell_listener(self, notify: NotifyListener) -> None:
        listener, partitions = self._listener, list(notify.partitions)
        if listener is None:
            return
        revoked = getattr(listener, "on_partitions_revoked", None)
        heard = {
            Callback.ASSIGNED: getattr(listener, "on_partitions_assigned", None),
            Callback.REVOKED: revoked,
            Callback.LOST: getattr(listener, "on_partitions_lost", revoked),
        }[notify.callback]
        if heard is not None:
            heard(partitions)

    def _raise_pending(self) -> None:
        if self._woken:
            self._woken = False
            raise Wakeup("The consumer was woken up.")
        if (error := self._fetcher.next_error()) is not None:
            raise self._explained(error)

    def _call_back(self) -> None:
        """Tell the outcome of asynchronous commits, in their order."""
        while self._callbacks:
            self._callbacks.popleft()()

    # --- where to start -----------------------------------------------------------------------------------------------

    def _find_starts(self) -> None:
        """Find a position for every partition that has none: the committed one, or auto.offset.reset's."""
        fresh = [
            state
            for state in self._positions
            if state.position is None and state.reset_to is None and not state.asked_committed and not state.stuck
        ]
        if not fresh:
            return
        for state in fresh:
            state.asked_committed = True
        if self._membership is None:
            for state in fresh:
                self._start_without_offset(state)
            return
        stamps = {state.partition: state.stamp for state in fresh}

        def heard(offsets: Mapping[TopicPartition, OffsetAndMetadata | None], error: SlackwaterError | None) -> None:
            for partition, stamp in stamps.items():
                state = self._positions.get(partition)
                if state is None or state.stamp != stamp or state.position is not None:
                    continue
                if error is not None:
                    state.asked_committed = False
                elif (committed := offsets.get(partition)) is not None:
                    self._positions.seek(state, committed.offset, committed.leader_epoch)
                else:
                    self._start_without_offset(state)
            if error is not None:
                self._fetcher.fail(error)
            self._fetcher.kick()

        self._membership.fetch_committed(stamps, heard)

    def _start_without_offset(self, state: PartitionState) -> None:
        reset_to = self._fetcher.reset_to()
        if reset_to is not None:
            self._positions.reset(state, reset_to)
            return
        state.asked_committed = False
        error = NoOffsetForPartitionError(
            f"{state.partition} has no committed offset, and auto.offset.reset is none; seek, or set "
            "auto.offset.reset to earliest or latest."
        )
        self._fetcher.fail(error, [state])

    # --- giving out ---------------------------------------------------------------------------------------------------

    def _take_records(self) -> list[ConsumerRecord] | None:
        """Up to max.poll.records of what was fetched, from one partition after the other."""
        found: list[ConsumerRecord] = []
        for state in self._giving():
            room = self._max_poll_records - len(found)
            if room <= 0:
                break
            records = self._taken(state, partial(self._unpacker.take, state, room), bool(found))
            if records:
                found += records
                self._give_out(state, len(records))
        return found or None

    def _take_table(self, room: int, headers: bool) -> "pa.Table | None":
        import pyarrow as pa

        tables: list[pa.Table] = []
        for state in self._giving():
            while room > 0:
                take = partial(self._unpacker.take_table, state, room, headers=headers)
                table = self._taken(state, take, bool(tables))
                if table is None:
                    break
                room -= len(table)
                tables.append(_located(table, state.partition))
                self._give_out(state, len(table))
        return pa.concat_tables(tables) if tables else None

    def _giving(self) -> list[PartitionState]:
        """The partitions that may be given out, in turn."""
        readable = self._readable()
        return [
            state
            for state in self._positions
            if not state.paused
            and (state.chunks or state.opened is not None)
            and (readable is None or state.partition in readable)
        ]

    def _taken(self, state: PartitionState, take: Callable[[], T], more: bool) -> T | None:
        """What there is; an error waits for the next poll if this one has something to give."""
        try:
            return take()
        except PeerError as error:
            if not more:
                raise
            self._fetcher.fail(error, [state])
            return None

    def _readable(self) -> frozenset[TopicPartition] | None:
        membership = self._membership
        return membership.member.fetchable if membership is not None and membership.member.subscription else None

    def _give_out(self, state: PartitionState, records: int) -> None:
        self._fetcher.metrics.given_out(records, self._clock.now_ms())
        self._consumed_to(state)
        self._positions.turn_over(state)

    def _consumed_to(self, state: PartitionState) -> None:
        assert state.position is not None
        if not self._handing_over:
            self._polled[state.partition] = OffsetAndMetadata(state.position, state.leader_epoch)

    def _note_consumed(self) -> None:
        if self._polled and self._membership is not None:
            with self._changed:
                self._membership.member.set_consumed(self._polled)
                self._polled.clear()

    # --- events -------------------------------------------------------------------------------------------------------

    def _tell(self, event: GroupEvent) -> None:
        publisher = self._publisher
        for hear in (self._lines.event, *([publisher.publish] if publisher is not None else []), *self._events):
            try:
                hear(event)
            except Exception:
                log.exception("A listener failed to hear %s.", event.kind)

    # --- manners ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _use(self) -> Iterator[None]:
        """One thread at a time, and not after the end."""
        if self._closed:
            raise ClientClosedError("This consumer was closed; make a new one.")
        me = threading.get_ident()
        with self._changed:
            if self._user not in (None, me):
                raise UsageError(
                    "This consumer is in use by another thread. Give each thread its own, or use wakeup() to interrupt."
                )
            self._user = me
            self._depth += 1
        try:
            yield
        finally:
            with self._changed:
                self._depth -= 1
                if not self._depth:
                    self._user = None

    def _needs_group(self, call: str) -> Membership:
        if self._membership is None:
            raise UsageError(f"{call} needs a group: set group.id.")
        return self._membership

    def _not_in_listener(self, call: str) -> None:
        if self._listening:
            raise UsageError(f"{call} cannot be called inside a rebalance listener; do it after poll() has returned.")

    def _wait_for(self, outcome: list[Any], what: str, timeout: float | None) -> None:
        """Wait until there is an outcome; a wakeup ends that."""
        deadline = time.monotonic() + self._timeout_s(timeout)
        with self._changed:
            while not outcome:
                if self._woken:
                    self._raise_pending()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._late(what)
                self._changed.wait(left)

    def _timeout_s(self, timeout: float | None) -> float:
        return int_value(self._settings, "default.api.timeout.ms") / 1000 if timeout is None else timeout

    def _explained(self, error: SlackwaterError) -> SlackwaterError:
        """An error of the machine, which knows nothing of servers."""
        return self._late(str(error)) if isinstance(error, OperationTimedOut) else error

    def _late(self, what: str) -> ClientTimeoutError:
        """The error of a call whose time is over."""
        why = self._cluster.last_failure
        reason = f" {why}" if why and why not in what else ""
        return ClientTimeoutError(f"{what.rstrip('.')}; the cluster is looked for at {self._cluster.servers}.{reason}")


def _located(table: "pa.Table", partition: TopicPartition) -> "pa.Table":
    """A table with the columns that say where its rows are from."""
    import pyarrow as pa

    count = len(table)
    topics = pa.repeat(pa.scalar(partition.topic, pa.string()), count)
    numbers = pa.repeat(pa.scalar(partition.partition, pa.int32()), count)
    return table.add_column(0, "partition", numbers).add_column(0, "topic", topics)
