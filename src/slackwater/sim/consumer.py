"""A consumer process in the simulator: the real member machine, an application on top of it, and what befalls both.

Rules kept here
- Two threads, as in the real thing: the application's, which polls, works and runs listeners, and the heartbeat's,
  which wakes when the machine says so. Busy work stops only the first, a stall stops both.
- Positions come from the group's committed offsets, records from the partition's log, and a position is committed only
  after its record was processed.
- A stalled process does nothing and hears nothing; what arrives meanwhile waits for it. A crashed one is gone.
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
    """How the application behaves."""

    poll_every_ms: int = 1_000
    records_per_poll: int = 5
    work_ms: int = 20
    commit_after_batch: bool = True
    commit_on_revoke: bool = True


class SimConsumer:
    """One process, from its start to its end."""

    def __init__(
        self,
        name: str,
        config: MemberConfig,
        habits: ApplicationBehavior,
        topics: Sequence[str],
        agenda: EventQueue,
        dice: SeededRandom,
        broker: SimBroker,
        checkers: Sequence[Checker],
    ) -> None:
        self.name = name
        self.config = config
        self.habits = habits
        self.topics = tuple(topics)
        self.agenda = agenda
        self.dice = dice
        self.broker = broker
        self.checkers = checkers
        self.link = NetworkLink(agenda, dice, broker, f"/{name}")
        self.member = GroupMember(config)
        self.alive = True
        self.staying = True
        self.stopping = False
        self.fatal: Exception | None = None
        self.positions: dict[TopicPartition, int] = {}
        self.in_listener = False
        self.owned: frozenset[TopicPartition] = frozenset()
        self._stalled_until_ms = 0
        self._missed: list[Callable[[], None]] = []
        self._busy_until_ms = 0
        self._extra_work_ms = 0
        self._due_ms: int | None = None
        self._next_commit_id = 0
        self._then: dict[int, Callable[[], None]] = {}
        self._fetching: frozenset[TopicPartition] = frozenset()
        self._carry_out(self.member.subscribe(self.topics, agenda.now_ms))
        self._poll_later(dice.between(0, 200))
        self._refresh_later()

    # --- what befalls it --------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Be gone without a word."""
        self.alive = self.staying = False

    def stall(self, length_ms: int) -> None:
        """Stand still, heartbeats and all."""
        self._stalled_until_ms = max(self._stalled_until_ms, self.agenda.now_ms + length_ms)
        self.agenda.at(self._stalled_until_ms, self._wake)

    def overrun(self, length_ms: int) -> None:
        """Take this long over the next batch."""
        self._extra_work_ms = length_ms

    def stop(self) -> None:
        """Close cleanly; a process that stands still does so when it wakes."""
        self.staying = False
        self._run(self._close)

    def resubscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to other topics."""
        self.topics = tuple(topics)
        self._run(self._subscribe)

    def enforce_rebalance(self) -> None:
        """Ask for a rebalance, as an application may."""
        self._run(self._enforce)

    def _enforce(self) -> None:
        if not self.stopping:
            self._carry_out(self.member.enforce_rebalance("rebalance enforced by user", self.agenda.now_ms))

    def _subscribe(self) -> None:
        if not self.stopping:
            self._carry_out(self.member.subscribe(self.topics, self.agenda.now_ms))

    def _run(self, action: Callable[[], None]) -> None:
        """Do something in this process: now, when it wakes, or never."""
        if not self.alive:
            return
        if self.agenda.now_ms < self._stalled_until_ms:
            self._missed.append(action)
        else:
            action()

    def _wake(self) -> None:
        if self.alive and self.agenda.now_ms >= self._stalled_until_ms:
            missed, self._missed = self._missed, []
            for action in missed:
                self._run(action)

    # --- the machine's effects --------------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case NotifyListener():
                    self._listen(effect)
                case CommitDone():
                    if (then := self._then.pop(effect.commit_id, None)) is not None:
                        then()
                case OffsetsFetched():
                    self._start_reading(effect)
                case RefreshMetadata():
                    self.agenda.after(self.dice.between(0, self.link.max_delay_ms), lambda: self._run(self._refresh))
                case Raise():
                    self.fatal = effect.error
                    self._lose(self.owned)
                    self.crash()
                case _:
                    pass
        if self.alive:
            self._plan_tick()

    def _send(self, send: Send) -> None:
        request_id = send.request_id
        self.link.send(
            send.request,
            send.timeout_ms,
            lambda response: self._run(
                lambda: self._carry_out(self.member.on_response(request_id, response, self.agenda.now_ms))
            ),
            lambda: self._run(lambda: self._carry_out(self.member.on_request_failed(request_id, self.agenda.now_ms))),
        )

    def _refresh(self) -> None:
        counts: dict[str, int] = {}
        for topic, _ in self.broker.ends:
            counts[topic] = counts.get(topic, 0) + 1
        infos = {topic: TopicInfo(count) for topic, count in counts.items()}
        self._carry_out(self.member.on_metadata(infos, self.agenda.now_ms))

    def _refresh_later(self) -> None:
        """metadata.max.age.ms: what changed in the cluster is noticed sooner or later."""
        self.agenda.after(METADATA_MAX_AGE_MS, lambda: self._run(self._refresh_by_age))

    def _refresh_by_age(self) -> None:
        if not self.stopping:
            self._refresh()
            self._refresh_later()

    def _plan_tick(self) -> None:
        due_ms = self.member.next_due_ms()
        if due_ms is None or (self._due_ms is not None and self._due_ms <= due_ms):
            return
        self._due_ms = due_ms = max(due_ms, self.agenda.now_ms)
        self.agenda.at(due_ms, lambda: self._tick(due_ms))

    def _tick(self, due_ms: int) -> None:
        if self._due_ms == due_ms:
            self._run(self._tick_now)

    def _tick_now(self) -> None:
        self._due_ms = None
        self._carry_out(self.member.tick(self.agenda.now_ms))

    # --- the application's thread -----------------------------------------------------------------------------------

    def _poll_later(self, delay_ms: int) -> None:
        self.agenda.after(delay_ms, lambda: self._run(self._poll))

    def _poll(self) -> None:
        if self.stopping:
            return
        if self.is_background:
            self._batch()
            return
        if not self.in_listener:
            self._carry_out(self.member.poll(self.agenda.now_ms))
        if not self.alive:
            return
        if self.in_listener or self.member.state is not MemberState.STABLE or self.member.needs_rejoin:
            self._poll_later(self.dice.between(10, 60))  # poll() waits inside for the rebalance to go on
            return
        work_ms = self._work() + self._extra_work_ms
        self._extra_work_ms = 0
        self._poll_later(max(work_ms, self.habits.poll_every_ms))

    def _work(self) -> int:
        """Process a batch; the time it takes is returned. Records count as processed when the batch begins."""
        taken = self._take()
        self.member.set_consumed(self._to_commit(self.positions))
        if taken and self.habits.commit_after_batch:
            self._commit(self._to_commit(self.positions), lambda: None, sync=False)
        return self.habits.work_ms if taken else 0

    def _take(self) -> frozenset[TopicPartition]:
        """Take the next records of every partition that may be read; the partitions that had some are returned."""
        self._fetch_positions()
        taken: set[TopicPartition] = set()
        fetchable = self.member.fetchable
        for partition in sorted(self.positions):
            if partition not in fetchable:
                continue
            start = self.positions[partition]
            end = min(self.broker.ends.get(partition, 0), start + self.habits.records_per_poll)
            for offset in range(start, end):
                for checker in self.checkers:
                    checker.processed(self.name, partition, offset)
            if end > start:
                taken.add(partition)
                self.positions[partition] = end
        return frozenset(taken)

    def _batch(self) -> None:
        """In the background: hold what the batch reads, and let go of it when the batch is finished and committed."""
        taken = self._take()
        if not taken:
            self._poll_later(self.habits.poll_every_ms)
            return
        self.member.hold(taken)
        work_ms = self.dice.between(self.habits.work_ms, 2 * self.habits.poll_every_ms) + self._extra_work_ms
        self._extra_work_ms = 0
        self.agenda.after(work_ms, lambda: self._run(lambda: self._finish_batch(taken)))

    def _finish_batch(self, taken: frozenset[TopicPartition]) -> None:
        if self.stopping:
            return
        finished = {at: offset for at, offset in self.positions.items() if at in taken}

        def let_go() -> None:
            self._carry_out(self.member.release(taken, self.agenda.now_ms))
            self._poll_later(self.habits.poll_every_ms)

        self.member.set_consumed(self._to_commit(finished))
        if finished:
            self._commit(self._to_commit(finished), let_go, sync=True)
        else:
            let_go()

    def _fetch_positions(self) -> None:
        missing = frozenset(self.owned - self.positions.keys())
        if missing and missing != self._fetching:
            self._fetching = missing
            self._carry_out(self.member.fetch_committed(tuple(sorted(missing)), self.agenda.now_ms))

    def _start_reading(self, fetched: OffsetsFetched) -> None:
        self._fetching = frozenset()
        if fetched.error is not None:
            return
        for partition, offset in fetched.offsets.items():
            if partition in self.owned and partition not in self.positions:
                self.positions[partition] = 0 if offset is None else offset.offset
                for checker in self.checkers:
                    checker.started(self.name, partition, self.positions[partition])

    def _to_commit(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {partition: OffsetAndMetadata(offset) for partition, offset in positions.items()}

    def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], then: Callable[[], None], *, sync: bool
    ) -> None:
        self._next_commit_id += 1
        commit_id = self._next_commit_id
        self._then[commit_id] = then
        self._carry_out(self.member.commit(offsets, self.agenda.now_ms, commit_id=commit_id, sync=sync))

    # --- the rebalance listener -------------------------------------------------------------------------------------

    def _listen(self, notify: NotifyListener) -> None:
        self.in_listener = True
        partitions = frozenset(notify.partitions)
        match notify.callback:
            case Callback.ASSIGNED:
                cooperative = self.config.protocol is RebalanceProtocol.COOPERATIVE
                for checker in self.checkers:
                    checker.assigned(self.name, partitions, cooperative=cooperative)
                self.owned |= partitions
                self._listener_done()
            case Callback.LOST:
                self._lose(partitions)
                self._listener_done()
            case Callback.REVOKED:
                mine = {at: offset for at, offset in self.positions.items() if at in partitions}
                if mine and self.habits.commit_on_revoke:
                    self._commit(self._to_commit(mine), lambda: self._revoked(partitions), sync=True)
                else:
                    self._revoked(partitions)

    def _revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._lose(partitions)
        self._listener_done()

    def _lose(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
        self.owned -= partitions
        for checker in self.checkers:
            checker.revoked(self.name, partitions)

    def _listener_done(self) -> None:
        # Not from inside the effects that called the listener: the machine goes on when they are all carried out.
        self.agenda.after(0, lambda: self._run(self._go_on))

    def _go_on(self) -> None:
        self.in_listener = False
        self._carry_out(self.member.on_listener_done(self.agenda.now_ms))

    def _close(self) -> None:
        if self.stopping:
            return
        self.stopping = True
        self._carry_out(self.member.close(self.agenda.now_ms))
        self.agenda.after(CLOSE_MS, self.crash)

    # --- looking in -------------------------------------------------------------------------------------------------

    @property
    def is_background(self) -> bool:
        """Whether it joins in the background."""
        return self.config.driver is RebalanceDriver.BACKGROUND

    @property
    def settled(self) -> bool:
        """Whether it takes itself for a member with nothing left to do."""
        return self.member.state is MemberState.STABLE and not self.member.needs_rejoin and not self.in_listener


CLOSE_MS = 2_000
METADATA_MAX_AGE_MS = 7_000
