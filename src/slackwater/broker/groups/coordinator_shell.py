"""The coordinator's shell in the broker: requests in, records to `__consumer_offsets`, answers and events out.

Rules kept here
- Effects are carried out in order. Appends of one turn are gathered and written together, one write per shard, when the
  turn ends or there are many; only then does the coordinator hear of them, and only then do the answers leave that wait
  for them.
- One timer of the event loop stands for all timers of all groups, planned at the end of a turn. Only what a join makes
  due at once (`group.initial.rebalance.delay.ms=0`) happens at once, unless a write is under way, which may be that of
  the group: in the same turn there may be hundreds of other joins, and all of these members would have to join again.
- A write that takes longer than `offsets.commit.timeout.ms` is given up by those who wait for it, not by us (OC-12).
- Events are told as they come, to whoever listens in this process.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from slackwater.broker.groups.offsets_records import decode_record, encode_records
from slackwater.group.coordinator import AppendRecords, Coordinator, CoordinatorConfig, Effect, EmitEvent, SendResponse
from slackwater.group.errors import Error
from slackwater.group.events import GroupEvent
from slackwater.group.messages import JoinGroup, Request, Response

KeyValue = tuple[bytes, bytes | None]
MAX_PENDING_RECORDS: Final = 1024  # bounds memory held until a write completes
_R = TypeVar("_R", bound=Response)


class OffsetsStore(Protocol):
    """Where the shards' records live."""

    def read(self, shard: int) -> Iterable[KeyValue]:
        """Everything that was written, in order."""
        ...

    def write(self, records: Mapping[int, list[KeyValue]], settled: Callable[[Mapping[int, Error]], None]) -> None:
        """Write to shards, each all or none; `settled` hears what became of each, in the order of the writes."""
        ...


class CoordinatorShell:
    """All groups of a broker."""

    def __init__(
        self,
        config: CoordinatorConfig,
        store: OffsetsStore,
        *,
        now_ms: Callable[[], int],
        wake_at: Callable[[int], None],
        emit: Callable[[list[GroupEvent]], None],
        schedule_flush: Callable[[], None],
        write_timeout_ms: int = 5_000,
    ) -> None:
        self._store = store
        self._write_timeout_ms = write_timeout_ms
        self._now_ms = now_ms
        self._wake_at = wake_at
        self._emit = emit
        self._schedule_flush = schedule_flush
        self._appends: list[AppendRecords] = []
        self._gathered = 0  # how many records those are
        self._unsettled: deque[tuple[int, list[AppendRecords]]] = deque()  # writes under way, and when they are overdue
        self._given_up = 0  # how many of those, the first ones, nobody waits for any more
        self.has_pending = False  # whether `flush_pending` has something to do
        self._due_ms: int | None = None
        self.config = config
        self.coordinator = Coordinator(config)

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """Go by other settings from now on."""
        self.config = config
        self.coordinator.reconfigure(config)

    def load(self) -> None:
        """Read all shards; groups come back as they were (CO-06)."""
        now_ms = self._now_ms()
        for shard in range(self.config.offsets_topic_num_partitions):
            self._carry_out(self.coordinator.load(shard, 0, now_ms))
            for key, value in self._store.read(shard):
                record = decode_record(key, value)
                if record is not None:
                    self.coordinator.replay(shard, record)
            self._carry_out(self.coordinator.finish_loading(shard, now_ms))

    def submit(self, request: Request, on_response: Callable[[_R], None]) -> None:
        """Put a request to the coordinator; `on_response` gets the answer, now or later."""
        now_ms = self._now_ms()
        coordinator = self.coordinator
        self._carry_out(coordinator.handle(request, on_response, now_ms))
        if request.__class__ is JoinGroup and not (self._appends or self._unsettled) and coordinator.is_due(now_ms):
            self._carry_out(coordinator.tick(now_ms))  # an initial delay of nothing is over before the next one joins
        if self._gathered >= MAX_PENDING_RECORDS:
            self._write()

    def submit_all(self, asked: Sequence[tuple[Request, Callable[[_R], None]]]) -> None:
        """Put requests that came together to the coordinator; each comes with what gets its answer."""
        self._carry_out(self.coordinator.handle_all(asked, self._now_ms()))
        if self._gathered >= MAX_PENDING_RECORDS:
            self._write()

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """Topics are gone, and with them their offsets (EX-10)."""
        self._carry_out(self.coordinator.on_topics_deleted(frozenset(topics), self._now_ms()))

    def expire(self, group_id: str, member_id: str) -> None:
        """End a member's session, as if it had been silent (a tester's wish)."""
        self._carry_out(self.coordinator.expire_member(group_id, member_id, self._now_ms()))

    def next_due_ms(self) -> int | None:
        """When `tick` next has something to do."""
        due_ms = self.coordinator.next_due_ms()
        if len(self._unsettled) > self._given_up:
            overdue_ms = self._unsettled[self._given_up][0]
            return overdue_ms if due_ms is None else min(due_ms, overdue_ms)
        return due_ms

    def tick(self) -> None:
        """Fire what is due."""
        self._due_ms = None
        now_ms = self._now_ms()
        while len(self._unsettled) > self._given_up and self._unsettled[self._given_up][0] <= now_ms:
            appends = self._unsettled[self._given_up][1]
            self._given_up += 1
            self._carry_out(self.coordinator.on_append_timeout([append.write_id for append in appends], now_ms))
        self._carry_out(self.coordinator.tick(now_ms))

    def flush_pending(self) -> None:
        """Write what this turn wants written, and go on with what waited for it, until nothing is left to write."""
        try:
            while self._appends:
                self._write()
        finally:
            self.has_pending = False
        due_ms = self.next_due_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            self._wake_at(due_ms)

    def _write(self) -> None:
        appends, self._appends, self._gathered = self._appends, [], 0
        batches: dict[int, list[KeyValue]] = {}
        for append in appends:
            if append.records:
                batches.setdefault(append.offsets_partition, []).extend(encode_records(append.records))
        self._unsettled.append((self._now_ms() + self._write_timeout_ms, appends))
        self._store.write(batches, self._settled)

    def _settled(self, outcome: Mapping[int, Error]) -> None:
        """The oldest write has come to its end."""
        _, appends = self._unsettled.popleft()
        self._given_up = max(self._given_up - 1, 0)
        writes = [(append.write_id, outcome.get(append.offsets_partition, Error.NONE)) for append in appends]
        self._carry_out(self.coordinator.on_append_results(writes, self._now_ms()))

    def _carry_out(self, effects: list[Effect]) -> None:
        if not self.has_pending:
            self.has_pending = True
            self._schedule_flush()
        events: list[GroupEvent] | None = None
        for effect in effects:
            if isinstance(effect, SendResponse):
                effect.caller(effect.response)  # type: ignore[operator]  # what `submit` was given; a cast costs a call
            elif isinstance(effect, EmitEvent):
                if events is None:
                    events = []
                events.append(effect.event)
            else:
                self._appends.append(effect)
                self._gathered += len(effect.records)
        if events is not None:
            self._emit(events)
