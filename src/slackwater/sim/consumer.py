"""A simulated consumer process: the production member, an application, and their faults.

Invariants:
- There are two threads, as in the client: the application's, which polls, processes and runs listeners, and the
  heartbeat thread. Long processing blocks only the first; a stall blocks both.
- Positions start at the group's committed offsets. A position is committed only after its record was processed.
- A stalled process does nothing; messages wait for it. A crashed process ends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from slackwater.group.assignors import RebalanceProtocol, TopicInfo
from slackwater.group.member import (
    Callback,
    CommitDone,
    GroupMember,
    MemberConfig,
    MemberState,
    NotifyListener,
    OffsetAndMetadata,
    OffsetsFetched,
    Raise,
    RebalanceDriver,
    RefreshMetadata,
    Send,
)
from slackwater.group.member.effects import MemberEffect
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.broker import SimBroker
from slackwater.sim.checkers import Checker
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.network import NetworkLink
from slackwater.sim.seeded_random import SeededRandom


@dataclass(slots=True, kw_only=True)
class ApplicationBehavior:
    """The polling, processing and committing behavior of the application."""

    poll_every_ms: int = 1_000
    records_per_poll: int = 5
    work_ms: int = 20
    commit_after_batch: bool = True
    commit_on_revoke: bool = True


class SimConsumer:
    """One consumer process."""

    def __init__(
        self,
        name: str,
        config: MemberConfig,
        behavior: ApplicationBehavior,
        topics: Sequence[str],
        queue: EventQueue,
        random: SeededRandom,
        broker: SimBroker,
        checkers: Sequence[Checker],
    ) -> None:
        self.name = name
        self.config = config
        self.behavior = behavior
        self.topics = tuple(topics)
        self.queue = queue
        self.random = random
        self.broker = broker
        self.checkers = checkers
        self.link = NetworkLink(queue, random, broker, f"/{name}")
        self.member = GroupMember(config)
        self.alive = True
        self.is_running = True
        self.stopping = False
        self.fatal: Exception | None = None
        self.positions: dict[TopicPartition, int] = {}
        self.in_listener = False
        self.owned: frozenset[TopicPartition] = frozenset()
        self._stalled_until_ms = 0
        self._deferred: list[Callable[[], None]] = []
        self._extra_work_ms = 0
        self._due_ms: int | None = None
        self._next_commit_id = 0
        self._commit_callbacks: dict[int, Callable[[], None]] = {}
        self._fetching: frozenset[TopicPartition] = frozenset()
        self._execute(self.member.subscribe(self.topics, queue.now_ms))
        self._schedule_poll(random.between(0, 200))
        self._schedule_refresh()

    # --- faults -----------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """End without leaving the group."""
        self.alive = self.is_running = False

    def stall(self, duration_ms: int) -> None:
        """Stop both threads for `duration_ms`."""
        self._stalled_until_ms = max(self._stalled_until_ms, self.queue.now_ms + duration_ms)
        self.queue.at(self._stalled_until_ms, self._wake)

    def overrun(self, duration_ms: int) -> None:
        """Process the next batch for `duration_ms`."""
        self._extra_work_ms = duration_ms

    def stop(self) -> None:
        """Leave the group and end; a stalled process does so when it continues."""
        self.is_running = False
        self._run(self._close)

    def resubscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to other topics."""
        self.topics = tuple(topics)
        self._run(self._subscribe)

    def enforce_rebalance(self) -> None:
        """Request a rebalance from the application."""
        self._run(self._enforce)

    def _enforce(self) -> None:
        if not self.stopping:
            self._execute(self.member.enforce_rebalance("rebalance enforced by user", self.queue.now_ms))

    def _subscribe(self) -> None:
        if not self.stopping:
            self._execute(self.member.subscribe(self.topics, self.queue.now_ms))

    def _run(self, action: Callable[[], None]) -> None:
        """Run an action in this process: now, after a stall, or never if it has crashed."""
        if not self.alive:
            return
        if self.queue.now_ms < self._stalled_until_ms:
            self._deferred.append(action)
        else:
            action()

    def _wake(self) -> None:
        if self.alive and self.queue.now_ms >= self._stalled_until_ms:
            deferred, self._deferred = self._deferred, []
            for action in deferred:
                self._run(action)

    # --- the member's effects ---------------------------------------------------------------------------------------

    def _execute(self, effects: Iterable[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case NotifyListener():
                    self._run_listener(effect)
                case CommitDone():
                    if (callback := self._commit_callbacks.pop(effect.commit_id, None)) is not None:
                        callback()
                case OffsetsFetched():
                    self._start_reading(effect)
                case RefreshMetadata():
                    self.queue.after(self.random.between(0, self.link.max_delay_ms), lambda: self._run(self._refresh))
                case Raise():
                    self.fatal = effect.error
                    self._drop_partitions(self.owned)
                    self.crash()
                case _:
                    pass
        if self.alive:
            self._schedule_tick()

    def _send(self, send: Send) -> None:
        request_id = send.request_id
        self.link.send(
            send.request,
            send.timeout_ms,
            lambda response: self._run(
                lambda: self._execute(self.member.on_response(request_id, response, self.queue.now_ms))
            ),
            lambda: self._run(lambda: self._execute(self.member.on_request_failed(request_id, self.queue.now_ms))),
        )

    def _refresh(self) -> None:
        counts: dict[str, int] = {}
        for topic, _ in self.broker.ends:
            counts[topic] = counts.get(topic, 0) + 1
        infos = {topic: TopicInfo(count) for topic, count in counts.items()}
        self._execute(self.member.on_metadata(infos, self.queue.now_ms))

    def _schedule_refresh(self) -> None:
        """Refresh the metadata after metadata.max.age.ms."""
        self.queue.after(METADATA_MAX_AGE_MS, lambda: self._run(self._refresh_by_age))

    def _refresh_by_age(self) -> None:
        if not self.stopping:
            self._refresh()
            self._schedule_refresh()

    def _schedule_tick(self) -> None:
        due_ms = self.member.next_due_ms()
        if due_ms is None or (self._due_ms is not None and self._due_ms <= due_ms):
            return
        self._due_ms = due_ms = max(due_ms, self.queue.now_ms)
        self.queue.at(due_ms, lambda: self._tick(due_ms))

    def _tick(self, due_ms: int) -> None:
        if self._due_ms == due_ms:
            self._run(self._tick_now)

    def _tick_now(self) -> None:
        self._due_ms = None
        self._execute(self.member.tick(self.queue.now_ms))

    # --- the application's thread -----------------------------------------------------------------------------------

    def _schedule_poll(self, delay_ms: int) -> None:
        self.queue.after(delay_ms, lambda: self._run(self._poll))

    def _poll(self) -> None:
        if self.stopping:
            return
        if self.is_background:
            self._batch()
            return
        if not self.in_listener:
            self._execute(self.member.poll(self.queue.now_ms))
        if not self.alive:
            return
        if self.in_listener or self.member.state is not MemberState.STABLE or self.member.needs_rejoin:
            self._schedule_poll(self.random.between(10, 60))  # poll() waits for the rebalance
            return
        work_ms = self._work() + self._extra_work_ms
        self._extra_work_ms = 0
        self._schedule_poll(max(work_ms, self.behavior.poll_every_ms))

    def _work(self) -> int:
        """Process a batch; the time it takes is returned. Records count as processed when the batch begins."""
        partitions_read = self._process_records()
        self.member.set_consumed(self._to_commit(self.positions))
        if partitions_read and self.behavior.commit_after_batch:
            self._commit(self._to_commit(self.positions), lambda: None, sync=False)
        return self.behavior.work_ms if partitions_read else 0

    def _process_records(self) -> frozenset[TopicPartition]:
        """Process the next records of every fetchable partition; return the partitions that had records."""
        self._fetch_positions()
        partitions_read: set[TopicPartition] = set()
        fetchable = self.member.fetchable
        for partition in sorted(self.positions):
            if partition not in fetchable:
                continue
            start = self.positions[partition]
            end = min(self.broker.ends.get(partition, 0), start + self.behavior.records_per_poll)
            for offset in range(start, end):
                for checker in self.checkers:
                    checker.on_processed(self.name, partition, offset)
            if end > start:
                partitions_read.add(partition)
                self.positions[partition] = end
        return frozenset(partitions_read)

    def _batch(self) -> None:
        """Process a batch in the background: hold its partitions until the batch is finished and committed."""
        partitions_read = self._process_records()
        if not partitions_read:
            self._schedule_poll(self.behavior.poll_every_ms)
            return
        self.member.hold(partitions_read)
        work_ms = self.random.between(self.behavior.work_ms, 2 * self.behavior.poll_every_ms) + self._extra_work_ms
        self._extra_work_ms = 0
        self.queue.after(work_ms, lambda: self._run(lambda: self._finish_batch(partitions_read)))

    def _finish_batch(self, partitions_read: frozenset[TopicPartition]) -> None:
        if self.stopping:
            return
        finished = {partition: offset for partition, offset in self.positions.items() if partition in partitions_read}

        def release_batch() -> None:
            self._execute(self.member.release(partitions_read, self.queue.now_ms))
            self._schedule_poll(self.behavior.poll_every_ms)

        self.member.set_consumed(self._to_commit(finished))
        if finished:
            self._commit(self._to_commit(finished), release_batch, sync=True)
        else:
            release_batch()

    def _fetch_positions(self) -> None:
        missing = frozenset(self.owned - self.positions.keys())
        if missing and missing != self._fetching:
            self._fetching = missing
            self._execute(self.member.fetch_committed(tuple(sorted(missing)), self.queue.now_ms))

    def _start_reading(self, fetched: OffsetsFetched) -> None:
        self._fetching = frozenset()
        if fetched.error is not None:
            return
        for partition, offset in fetched.offsets.items():
            if partition in self.owned and partition not in self.positions:
                self.positions[partition] = 0 if offset is None else offset.offset
                for checker in self.checkers:
                    checker.on_start_offset(self.name, partition, self.positions[partition])

    def _to_commit(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {partition: OffsetAndMetadata(offset) for partition, offset in positions.items()}

    def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[[], None], *, sync: bool
    ) -> None:
        self._next_commit_id += 1
        commit_id = self._next_commit_id
        self._commit_callbacks[commit_id] = callback
        self._execute(self.member.commit(offsets, self.queue.now_ms, commit_id=commit_id, sync=sync))

    # --- the rebalance listener -------------------------------------------------------------------------------------

    def _run_listener(self, notify: NotifyListener) -> None:
        self.in_listener = True
        partitions = frozenset(notify.partitions)
        match notify.callback:
            case Callback.ASSIGNED:
                cooperative = self.config.protocol is RebalanceProtocol.COOPERATIVE
                for checker in self.checkers:
                    checker.on_assigned(self.name, partitions, cooperative=cooperative)
                self.owned |= partitions
                self._listener_done()
            case Callback.LOST:
                self._drop_partitions(partitions)
                self._listener_done()
            case Callback.REVOKED:
                mine = {partition: offset for partition, offset in self.positions.items() if partition in partitions}
                if mine and self.behavior.commit_on_revoke:
                    self._commit(self._to_commit(mine), lambda: self._revoked(partitions), sync=True)
                else:
                    self._revoked(partitions)

    def _revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._drop_partitions(partitions)
        self._listener_done()

    def _drop_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
        self.owned -= partitions
        for checker in self.checkers:
            checker.on_revoked(self.name, partitions)

    def _listener_done(self) -> None:
        # Deferred: the member continues only after all effects that include this callback are executed.
        self.queue.after(0, lambda: self._run(self._listener_returned))

    def _listener_returned(self) -> None:
        self.in_listener = False
        self._execute(self.member.on_listener_done(self.queue.now_ms))

    def _close(self) -> None:
        if self.stopping:
            return
        self.stopping = True
        self._execute(self.member.close(self.queue.now_ms))
        self.queue.after(CLOSE_MS, self.crash)

    # --- inspection -------------------------------------------------------------------------------------------------

    @property
    def is_background(self) -> bool:
        """Whether it joins in the background."""
        return self.config.driver is RebalanceDriver.BACKGROUND

    @property
    def settled(self) -> bool:
        """Whether the member is stable and has nothing to do."""
        return self.member.state is MemberState.STABLE and not self.member.needs_rejoin and not self.in_listener


CLOSE_MS = 2_000
METADATA_MAX_AGE_MS = 7_000
