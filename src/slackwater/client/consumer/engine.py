"""The poll loop of a consumer: group membership, positions, fetches and commits behind one lock.

`Consumer` is the public API on top of this module: it checks arguments and allows one thread at a time.

Invariants:
- The group member, the fetcher and the positions share one lock. A poll advances the member, calls the listener without
  the lock, finds start positions, returns fetched records, or waits for a change.
- Decoding runs without the lock.
- Every error is raised once, in a call of the application.
- A long poll counts as polling all the time.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from slackwater.client.config import CONSUMER_SETTINGS, cluster_config, int_value, parse_settings
from slackwater.client.config.functions import take_function
from slackwater.client.consumer.collector import RecordCollector
from slackwater.client.consumer.config import (
    STRATEGY,
    default_client_id,
    fetcher_config,
    member_config,
    parse_assignors,
    warn_about_settings,
)
from slackwater.client.consumer.deserialization import DeserializationError, make_deserialize
from slackwater.client.consumer.event_publisher import EventPublisher
from slackwater.client.consumer.fetcher import Fetcher, NoOffsetForPartitionError
from slackwater.client.consumer.log_lines import LogLines, consumer_prefix
from slackwater.client.consumer.membership import Membership
from slackwater.client.consumer.metrics import FETCH_GROUP, MetricName
from slackwater.client.consumer.positions import PartitionState, Positions
from slackwater.client.consumer.rebalance_listener import AnyListener, call_listener
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.errors import ClientTimeoutError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.maintenance import run_maintenance
from slackwater.client.network.thread import NetworkThread
from slackwater.clock import AnchoredClock
from slackwater.escaping import get_logger
from slackwater.group.errors import PeerError, SlackwaterError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.member import (
    METRIC_GROUPS,
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

# The lines of a consumer have one logger, whichever module writes them.
log = get_logger("slackwater.client.consumer.consumer")
T = TypeVar("T")
_MAX_WAIT_S: Final = 3600.0
_EVENTS_TIMEOUT_S: Final = 1.0
_MAX_UNPOLLED_S: Final = 0.1  # how long an iteration returns decoded records without a poll


class ConsumerEngine:
    """The parts of one consumer and its poll loop."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.user_settings = settings
        assignors = parse_assignors(settings.pop(STRATEGY, None))
        self.deserialize = make_deserialize(
            take_function(settings, "key.deserializer"), take_function(settings, "value.deserializer")
        )
        ignored: list[str] = []
        values = parse_settings(settings, CONSUMER_SETTINGS, ignored=ignored.append)
        group_id, instance_id = str(values["group.id"]), str(values["group.instance.id"]) or None
        self.settings = values
        self.client_id = str(values["client.id"]) or default_client_id(group_id)
        self.clock = AnchoredClock()
        self.mutex = threading.RLock()
        self.lock = threading.Condition(self.mutex)
        self.listener: AnyListener | None = None
        self.is_in_listener = False
        self.tracks_consumed = True  # False while Consumer.run decides what was consumed
        self.event_handlers: list[Callable[[GroupEvent], None]] = []
        self.callbacks: deque[Callable[[], None]] = deque()  # of asynchronous commits, for the polling thread
        self.positions = Positions()
        self._woken = False
        self._returned: dict[TopicPartition, OffsetAndMetadata] = {}  # counts as consumed from the next poll on
        self._processed: dict[TopicPartition, OffsetAndMetadata] = {}  # consumed, and not passed to the member yet
        self._max_poll_records = int_value(values, "max.poll.records")
        self._poll_again_at = 0.0  # until then an iteration returns decoded records without a poll
        prefix = consumer_prefix(self.client_id, group_id, instance_id)
        brokers = replace(cluster_config(values, self.client_id, settings), log_prefix=prefix)
        member = member_config(values, self.client_id, assignors) if group_id else None
        fetcher = fetcher_config(values, self.clock.now_ms)
        if ignored:
            log.info("%sSettings of other clients are ignored: %s.", prefix, ", ".join(sorted(ignored)))
        if member is not None:
            warn_about_settings(member)
        self.log_lines = LogLines(self.client_id, group_id, instance_id)
        self.log_lines.log_start(values | {"client.id": self.client_id}, [assignor.name for assignor in assignors])
        self.network = NetworkThread(f"slackwater-{self.client_id}")
        self.cluster = self.network.run(Cluster.create(brokers))
        self.publisher = EventPublisher(self.cluster, self.network) if values["group.events.publish"] else None
        self.fetcher = Fetcher(fetcher, self.cluster, self.network, self.lock, self.positions)
        self.membership = self._create_membership(member) if member is not None else None
        if self.membership is not None:
            self.fetcher.refresh_metadata = self.membership.refresh
        self._collector = RecordCollector(
            self.positions,
            self.lock,
            check_crcs=bool(values["check.crcs"]),
            readable=self._readable_partitions,
            on_records=self._on_records,
            on_error=self._on_decode_error,
        )
        self._maintenance: Future[None] = self.network.submit(run_maintenance(self.cluster, self._refresh))

    def _create_membership(self, member: MemberConfig) -> Membership:
        return Membership(
            member,
            self.cluster,
            self.network,
            self.lock,
            clock=self.clock,
            on_event=self._on_event,
            on_request=self.log_lines.log_request,
            create_topics=bool(self.settings["allow.auto.create.topics"]),
        )

    async def _refresh(self) -> None:
        with self.lock:
            topics = {state.partition.topic for state in self.positions}
        await self.fetcher.refresh_metadata(topics)

    def close(self) -> None:
        """Publish the last events, close all connections, and run the last callbacks."""
        if self.publisher is not None:
            self.network.run(self.publisher.finish(_EVENTS_TIMEOUT_S))
        self.close_connections()
        self.run_callbacks()

    def close_connections(self) -> None:
        """Stop the network thread. May be called from any thread."""
        with self.lock:
            self.fetcher.close()
            self.lock.notify_all()
        self._maintenance.cancel()
        self.network.run(self.cluster.close())
        self.network.close()

    def leave_group(self, timeout: float, leave_group: bool | None, *, has_failed: bool) -> None:
        """Commit consumed offsets, call the listener, and leave the group if the member should.

        With `has_failed`, the records that the application received last do not count as consumed.
        """
        membership = self.membership
        if membership is None:
            return
        if has_failed:
            self._returned.clear()
        self.mark_returned_as_consumed()
        member, deadline = membership.member, time.monotonic() + timeout
        timeout_ms = int(timeout * 1000)
        membership.call_member(
            lambda machine, now_ms: machine.close(now_ms, timeout_ms=timeout_ms, leave_group=leave_group)
        )
        error: BaseException | None = None
        while not member.is_closed:
            try:
                self.process_application_effects()
            except SlackwaterError as raised:
                error = error or raised
            with self.lock:
                if not membership.application_effects and not member.is_closed:
                    self.lock.wait(max(min(deadline - time.monotonic(), 0.1), 0.001))
        self.run_callbacks()
        if error is not None:
            raise error

    # --- polling ------------------------------------------------------------------------------------------------------

    def poll_records(self, timeout: float) -> list[ConsumerRecord] | None:
        """Poll for up to max.poll.records deserialized records."""
        return self._deserialize_all(self.poll_bytes(timeout))

    def poll_bytes(self, timeout: float) -> list[ConsumerRecord] | None:
        """Poll for up to max.poll.records records, and do not deserialize them."""
        return self._poll(timeout, partial(self._collector.collect_records, self._max_poll_records))

    def poll_record(self, timeout: float, decoded: ConsumerRecord | None = None) -> ConsumerRecord | None:
        """Return the deserialized `decoded` record, or poll for one; the records after it stay unread."""
        records = [decoded] if decoded is not None else None
        if records is None:
            records = self._poll(timeout, partial(self._collector.collect_records, 1))
            self._poll_again_at = time.monotonic() + _MAX_UNPOLLED_S
        records = self._deserialize_all(records)
        return records[0] if records else None

    def next_decoded(self) -> ConsumerRecord | None:
        """Return the next record without a poll, which takes ten times as long; None if a poll is due.

        Called with the lock held.
        """
        if self.is_in_listener or self._has_work(self.membership) or time.monotonic() >= self._poll_again_at:
            return None
        self._processed.update(self._returned)
        self._returned.clear()
        return self._collector.take_decoded()

    def poll_table(self, timeout: float, max_rows: int, headers: bool) -> "pa.Table | None":
        """Poll for an Arrow table."""
        return self._poll(timeout, partial(self._collector.collect_table, max_rows, headers))

    def poll_without_records(self, timeout: float) -> None:
        """Poll to stay in the group, and return no records."""
        self._poll(timeout, lambda: None, has_records=lambda: False)

    def _poll(
        self, timeout: float, collect: Callable[[], T | None], has_records: Callable[[], bool] | None = None
    ) -> T | None:
        self.not_in_listener("poll()")
        has_records = has_records or self._collector.has_records
        deadline = time.monotonic() + max(timeout, 0.0)
        self.mark_returned_as_consumed()
        membership, is_repeated = self.membership, False
        if not len(self.positions) and not self._is_subscribed():
            raise UsageError("There is nothing to poll: assign partitions, or set group.id and subscribe to topics.")
        try:
            while True:
                if membership is not None:
                    self._advance_member(membership, is_repeated)
                    is_repeated = True
                self.run_callbacks()
                with self.lock:
                    self.raise_pending()
                    self.find_start_positions()
                records = collect()
                with self.lock:
                    self.fetcher.schedule()
                    left = deadline - time.monotonic()
                    if records is not None or left <= 0:
                        return records
                    if not self._has_work(membership) and not has_records():
                        self.lock.wait(min(left, self._next_poll_in(membership)))
        finally:
            if membership is not None:
                membership.member.poll_returned(self.clock.now_ms())

    def _is_subscribed(self) -> bool:
        membership = self.membership
        return membership is not None and (
            membership.member.metadata_topics is None or bool(membership.member.subscription)
        )

    def _has_work(self, membership: Membership | None) -> bool:
        has_effects = bool(membership.application_effects) if membership is not None else False
        return has_effects or self._woken or bool(self.callbacks) or bool(self.fetcher.pending_errors)

    def _advance_member(self, membership: Membership, is_repeated: bool) -> None:
        """Advance the group member, and call the listener where a rebalance requires it."""
        membership.call_member(lambda member, now_ms: member.poll(now_ms, is_repeated=is_repeated))
        self.process_application_effects()
        with self.lock:
            self._update_assignment(membership)

    def _update_assignment(self, membership: Membership) -> None:
        """Read the partitions that the group assigned."""
        member = membership.member
        if (member.subscription or len(self.positions) or member.owned) and self.positions.partitions != member.owned:
            self.positions.assign(sorted(member.owned))

    def _next_poll_in(self, membership: Membership | None) -> float:
        """Return the seconds until the member must advance; at most a third of max.poll.interval.ms."""
        if membership is None:
            return _MAX_WAIT_S
        longest_s = membership.member.config.max_poll_interval_ms / 3000
        due_ms = membership.member.next_poll_ms()
        if due_ms is None:
            return longest_s
        return min(max((due_ms - self.clock.now_ms()) / 1000, 0.001), longest_s)

    def process_application_effects(self) -> None:
        """Call the listener and raise errors, in the order in which the member produced them."""
        membership = self.membership
        while membership is not None:
            with self.lock:
                if not membership.application_effects:
                    return
                effect = membership.application_effects.popleft()
            if isinstance(effect, Raise):
                raise effect.error
            self._notify(membership, effect)

    def _notify(self, membership: Membership, notify: NotifyListener) -> None:
        with self.lock:
            self._update_assignment(membership)
        failure: BaseException | None = None
        interrupt: BaseException | None = None
        self.is_in_listener = True
        try:
            call_listener(self.listener, notify)
        except Exception as error:
            failure = error
        except BaseException as error:  # after Ctrl-C, as after a wakeup, the listener is called again
            interrupt, failure = error, Wakeup("The listener was interrupted.")
        finally:
            self.is_in_listener = False
        membership.call_member(lambda member, now_ms: member.on_listener_done(now_ms, failure))
        with self.lock:
            self._update_assignment(membership)
        if interrupt is not None:
            raise interrupt
        if isinstance(failure, Wakeup):
            raise failure

    def wakeup(self) -> None:
        """Raise `Wakeup` in the current or the next blocking call."""
        with self.lock:
            self._woken = True
            self.lock.notify_all()

    def raise_pending(self) -> None:
        """Raise a wakeup or the next error of the fetcher. Called with the lock held."""
        if self._woken:
            self._woken = False
            raise Wakeup("The consumer was woken up.")
        if (error := self.fetcher.next_error()) is not None:
            raise self.explain(error)

    def run_callbacks(self) -> None:
        """Run the callbacks of completed asynchronous commits, in order."""
        while self.callbacks:
            self.callbacks.popleft()()

    def _deserialize_all(self, records: list[ConsumerRecord] | None) -> list[ConsumerRecord] | None:
        """Deserialize records; a partition with an error ends before it, and this or the next poll raises the error."""
        if records is None or self.deserialize is None:
            return records
        deserialized: list[ConsumerRecord] = []
        errors: dict[TopicPartition, DeserializationError] = {}
        for record in records:
            if errors and record.topic_partition in errors:
                continue
            try:
                deserialized.append(self.deserialize(record))
            except DeserializationError as error:
                errors[record.topic_partition] = error
        if errors:
            self._on_deserialization_errors(deserialized, list(errors.values()))
        return deserialized

    def _on_deserialization_errors(self, returned: list[ConsumerRecord], errors: list[DeserializationError]) -> None:
        """Set positions to the records with errors, and raise the first error if no records are returned."""
        with self.lock:
            for error in errors:
                record = error.record
                partition = record.topic_partition
                self.forget_returned(partition)
                state = self.positions.get(partition)
                if state is None:
                    continue
                self.positions.seek(state, record.offset, record.leader_epoch)
                if any(earlier.topic_partition == partition for earlier in returned):
                    self.set_returned(state)
                if returned or error is not errors[0]:
                    self.fetcher.fail(error, [state])
            self.fetcher.schedule()
        if not returned:
            raise errors[0]

    # --- start positions ----------------------------------------------------------------------------------------------

    def find_start_positions(self) -> None:
        """Start finding a position for every partition without one: the committed offset, or auto.offset.reset."""
        states = [
            state
            for state in self.positions
            if state.position is None
            and state.reset_timestamp is None
            and not state.committed_requested
            and not state.has_error
        ]
        if not states:
            return
        for state in states:
            state.committed_requested = True
        if self.membership is None:
            for state in states:
                self._start_without_commit(state)
            return
        versions = {state.partition: state.version for state in states}

        def on_committed(
            offsets: Mapping[TopicPartition, OffsetAndMetadata | None], error: SlackwaterError | None
        ) -> None:
            for partition, version in versions.items():
                state = self.positions.get(partition)
                if state is None or state.version != version or state.position is not None:
                    continue
                if error is not None:
                    state.committed_requested = False
                elif (committed := offsets.get(partition)) is not None:
                    self.positions.seek(state, committed.offset, committed.leader_epoch)
                else:
                    self._start_without_commit(state)
            if error is not None:
                self.fetcher.fail(error)
            self.fetcher.schedule()

        self.membership.fetch_committed(versions, on_committed)

    def _start_without_commit(self, state: PartitionState) -> None:
        timestamp = self.fetcher.reset_timestamp()
        if timestamp is not None:
            self.positions.reset(state, timestamp)
            return
        state.committed_requested = False
        error = NoOffsetForPartitionError(
            f"{state.partition} has no committed offset, and auto.offset.reset is none; seek, or set "
            "auto.offset.reset to earliest or latest."
        )
        self.fetcher.fail(error, [state])

    # --- returned records ---------------------------------------------------------------------------------------------

    def _readable_partitions(self) -> frozenset[TopicPartition] | None:
        membership = self.membership
        return membership.member.fetchable if membership is not None and membership.member.subscription else None

    def _on_records(self, state: PartitionState, count: int) -> None:
        self.fetcher.metrics.on_records(count, self.clock.now_ms())
        self.set_returned(state)
        self.positions.move_to_end(state)

    def _on_decode_error(self, error: PeerError, state: PartitionState) -> None:
        self.fetcher.fail(error, [state])

    def set_returned(self, state: PartitionState) -> None:
        """Note the position as returned to the application."""
        assert state.position is not None
        if self.tracks_consumed:
            self._returned[state.partition] = OffsetAndMetadata(state.position, state.leader_epoch)

    def forget_returned(self, partition: TopicPartition) -> None:
        """Auto-commit nothing more for this partition until it returns records again."""
        self._returned.pop(partition, None)

    def mark_returned_as_consumed(self) -> None:
        """Let auto-commit commit the records that the previous poll returned."""
        if (self._returned or self._processed) and self.membership is not None:
            with self.lock:
                self.membership.member.set_consumed(self._processed | self._returned)
                self._processed.clear()
                self._returned.clear()

    # --- events and metrics -------------------------------------------------------------------------------------------

    def _on_event(self, event: GroupEvent) -> None:
        publish = [self.publisher.publish] if self.publisher is not None else []
        for handler in (self.log_lines.log_event, *publish, *self.event_handlers):
            try:
                handler(event)
            except Exception:
                log.exception("The event handler failed for %s.", event.kind)

    def metrics(self) -> dict[MetricName, float]:
        """Return every metric of the fetcher and the group member."""
        now_ms = self.clock.now_ms()
        with self.lock:
            lags = [lag for state in self.positions if (lag := state.lag) is not None]
            values = {
                MetricName(name, FETCH_GROUP, self.client_id): value
                for name, value in self.fetcher.metrics.read(now_ms, lags).items()
            }
            if self.membership is not None:
                for name, value in self.membership.member.metrics(now_ms).items():
                    values[MetricName(name, METRIC_GROUPS[name], self.client_id)] = value
        return values

    # --- calls --------------------------------------------------------------------------------------------------------

    def require_group(self, call: str) -> Membership:
        """Return the membership; raise `UsageError` without a group.id."""
        if self.membership is None:
            raise UsageError(f"{call} needs a group: set group.id.")
        return self.membership

    def not_in_listener(self, call: str) -> None:
        """Raise `UsageError` inside a rebalance listener."""
        if self.is_in_listener:
            raise UsageError(f"{call} cannot be called inside a rebalance listener; do it after poll() has returned.")

    def wait_for(self, outcome: list[Any], what: str, timeout: float | None) -> None:
        """Wait until `outcome` has an item; raise `Wakeup` or `ClientTimeoutError` otherwise."""
        deadline = time.monotonic() + self.timeout_s(timeout)
        with self.lock:
            while not outcome:
                if self._woken:
                    self.raise_pending()
                if self.membership is not None and (error := self.membership.take_access_error()) is not None:
                    raise error
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self.timeout_error(what)
                self.lock.wait(left)

    def timeout_s(self, timeout: float | None) -> float:
        """Return a timeout in seconds; default.api.timeout.ms for None."""
        return int_value(self.settings, "default.api.timeout.ms") / 1000 if timeout is None else timeout

    def explain(self, error: SlackwaterError) -> SlackwaterError:
        """Add the bootstrap servers to a timeout of the group member, which has no network."""
        return self.timeout_error(str(error)) if isinstance(error, OperationTimedOut) else error

    def timeout_error(self, what: str) -> ClientTimeoutError:
        """Return the error of a call that timed out."""
        reason = self.cluster.last_failure
        because = f" {reason}" if reason and reason not in what else ""
        return ClientTimeoutError(
            f"{what.rstrip('.')}; bootstrap.servers is {self.cluster.bootstrap_servers}.{because}"
        )
