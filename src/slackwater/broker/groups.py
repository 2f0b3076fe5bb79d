"""The coordinator's shell in the broker: requests in, records to `__consumer_offsets`, answers and events out.

Rules kept here
- Effects are carried out in order. Appends of one turn are gathered and written together, one write per shard, when the
  turn ends; only then does the coordinator hear of them, and only then do the answers leave that wait for them.
- One timer of the event loop stands for all timers of all groups.
- Events are told as they come, to whoever listens in this process.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar, cast

from slackwater.broker.offsets_topic import from_bytes, to_bytes
from slackwater.group.coordinator import Answer, Append, Coordinator, CoordinatorConfig, Effect, Emit
from slackwater.group.errors import Error
from slackwater.group.events import GroupEvent
from slackwater.group.messages import Request, Response

KeyValue = tuple[bytes, bytes | None]
Heard = Callable[[Response], None]
_R = TypeVar("_R", bound=Response)


class OffsetsStore(Protocol):
    """Where the shards' records live."""

    def read(self, shard: int) -> Iterable[KeyValue]:
        """Everything that was written, in order."""
        ...

    def write(self, records: Mapping[int, list[KeyValue]], settled: Callable[[Mapping[int, Error]], None]) -> None:
        """Write to shards, each all or none; `settled` hears what became of each, in the order of the writes."""
        ...


class Groups:
    """All groups of a broker."""

    def __init__(
        self,
        config: CoordinatorConfig,
        store: OffsetsStore,
        *,
        now_ms: Callable[[], int],
        wake_at: Callable[[int], None],
        tell: Callable[[list[GroupEvent]], None],
        turn_begins: Callable[[], None],
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._wake_at = wake_at
        self._tell = tell
        self._turn_begins = turn_begins
        self._appends: list[Append] = []
        self._due_ms: int | None = None
        self.config = config
        self.coordinator = Coordinator(config)

    def load(self) -> None:
        """Read all shards; groups come back as they were (CO-06)."""
        now_ms = self._now_ms()
        for shard in range(self.config.offsets_topic_num_partitions):
            self._carry_out(self.coordinator.load(shard, 0, now_ms))
            for key, value in self._store.read(shard):
                record = from_bytes(key, value)
                if record is not None:
                    self.coordinator.replay(shard, record)
            self._carry_out(self.coordinator.loaded(shard, now_ms))

    def ask(self, request: Request, heard: Callable[[_R], None]) -> None:
        """Put a request to the coordinator; `heard` gets the answer, now or later."""
        self._carry_out(self.coordinator.handle(request, heard, self._now_ms()))

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """Topics are gone, and with them their offsets (EX-10)."""
        self._carry_out(self.coordinator.topics_deleted(frozenset(topics), self._now_ms()))

    def tick(self) -> None:
        """Fire what is due."""
        self._due_ms = None
        self._carry_out(self.coordinator.tick(self._now_ms()))

    def end_turn(self) -> None:
        """Write what this turn wants written, and go on with what waited for it, until nothing is left to write."""
        while self._appends:
            appends, self._appends = self._appends, []
            batches: dict[int, list[KeyValue]] = {}
            for append in appends:
                batches.setdefault(append.shard, []).extend(map(to_bytes, append.records))
            self._store.write(
                {shard: records for shard, records in batches.items() if records}, partial(self._settled, appends)
            )

    def _settled(self, appends: list[Append], outcome: Mapping[int, Error]) -> None:
        now_ms = self._now_ms()
        for append in appends:
            error = outcome.get(append.shard, Error.NONE)
            self._carry_out(self.coordinator.written(append.write_id, error, now_ms))

    def _carry_out(self, effects: list[Effect]) -> None:
        events: list[GroupEvent] = []
        for effect in effects:
            if isinstance(effect, Answer):
                cast(Heard, effect.caller)(effect.response)
            elif isinstance(effect, Append):
                if not self._appends:
                    self._turn_begins()
                self._appends.append(effect)
            elif isinstance(effect, Emit):
                events.append(effect.event)
        if events:
            self._tell(events)
        self._plan()

    def _plan(self) -> None:
        due_ms = self.coordinator.next_due_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            self._wake_at(due_ms)
