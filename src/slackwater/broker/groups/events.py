"""Where the coordinator's group events go: to listeners in this process, to the log, to `__group_events`.

Rules kept here
- One stream, one order: everybody hears the same events in the order in which they were decided.
- `__group_events` has one partition, so that its order is that of the decisions; the key is the group, the value the
  event's JSON line. What a turn tells is one batch. A disk that refuses it costs the batch, never an answer.
- Listeners hear at once. The log and the topic are written at the end of the turn, unless there is a burst: what a
  thousand joins tell is written when they are over and the broker has a moment to itself, or after a second, so that
  none of them waits for it; and a part at a time, so that nobody else waits long. A clean stop, and whoever asks for a
  group or its events, has everything written first.
- A listener that fails is logged, and disturbs nobody.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from slackwater.broker.groups.log_lines import CoordinatorLogLines
from slackwater.broker.storage.log.partition_log import AppendOrigin
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import EVENTS_TOPIC, Topics
from slackwater.group.events import GroupEvent
from slackwater.wire.records.record import Record, encode_batch

AT_ONCE: Final = 64
WRITTEN_AFTER_S: Final = 0.1
WRITTEN_WITHIN_S: Final = 1.0
WRITTEN_TOGETHER: Final = 256
EVENTS_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000

EventListener = Callable[[GroupEvent], None]
log = logging.getLogger("slackwater.broker.groups.events")
group_log = logging.getLogger("slackwater.broker.groups.coordinator_shell")


class GroupEventStream:
    """The stream of a broker's group events."""

    def __init__(
        self,
        topics: Topics,
        *,
        node_id: int,
        shard_of: Callable[[str], int],
        write_to_topic: bool,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._topics = topics
        self._node_id = node_id
        self._shard_of = shard_of
        self._write_to_topic = write_to_topic
        self._later = later
        self._lines: dict[int, CoordinatorLogLines] = {}
        self._hearers: tuple[EventListener, ...] = ()
        self._pending: list[GroupEvent] = []
        self._first_told = self._last_busy = self._counted = 0.0
        self._at_once = float(AT_ONCE)  # how many may be written at once now; it grows again with time
        self._is_waiting = False

    def subscribe(self, hear: EventListener) -> Callable[[], None]:
        """Hear every event from now on, on the broker's thread; the answer ends it."""
        self._hearers = (*self._hearers, hear)
        return lambda: self._forget(hear)

    def _forget(self, hear: EventListener) -> None:
        hearers = list(self._hearers)
        hearers.remove(hear)
        self._hearers = tuple(hearers)  # a new one: who is being told now may be the one that ends

    def publish(self, events: list[GroupEvent]) -> None:
        """These happened, in this order."""
        for hear in self._hearers:
            for event in events:
                try:
                    hear(event)
                except Exception:
                    log.exception("A listener failed to hear %s of group %s.", event.kind, event.group)
        if not self._pending:
            self._first_told = monotonic()
        self._pending.extend(events)

    def flush_pending(self) -> None:
        """Write what was told in this turn, or see to it that it is written when the burst is over."""
        if not self._pending:
            return
        self._last_busy = now = monotonic()
        if self._is_waiting:
            return
        self._at_once = min(AT_ONCE, self._at_once + (now - self._counted) * AT_ONCE / WRITTEN_AFTER_S)
        self._counted = now
        if len(self._pending) <= self._at_once:
            self._at_once -= len(self._pending)
            self.write()
        else:
            self._is_waiting = True
            self._later(WRITTEN_AFTER_S, self._write_or_wait)

    def _write_or_wait(self) -> None:
        now = monotonic()
        if self._pending and now - self._last_busy < WRITTEN_AFTER_S and now - self._first_told < WRITTEN_WITHIN_S:
            self._later(WRITTEN_AFTER_S, self._write_or_wait)
            return
        rest = self._pending[WRITTEN_TOGETHER:]
        del self._pending[WRITTEN_TOGETHER:]
        self.write()
        if rest:
            self._pending = rest
            self._later(0.0, self._write_rest)
        else:
            self._is_waiting = False

    def _write_rest(self) -> None:
        """Go on with what the last burst left, whether or not there is a moment for it."""
        self._first_told = monotonic() - WRITTEN_WITHIN_S
        self._write_or_wait()

    def write(self) -> None:
        """Write what was told since the last time."""
        if not self._pending:
            return
        events, self._pending = self._pending, []
        if group_log.isEnabledFor(logging.INFO):
            self._log(events)
        if self._write_to_topic:
            self._append(events)

    def _append(self, events: list[GroupEvent]) -> None:
        topic = self._topics.get(EVENTS_TOPIC)
        try:
            if topic is None:
                topic = self._topics.create(EVENTS_TOPIC, 1, {"retention.ms": str(EVENTS_RETENTION_MS)})
        except OSError as error:
            log.warning("%d group events were not written to %s: %s.", len(events), EVENTS_TOPIC, error.strerror)
            return
        batch = encode_batch(
            Record(event.group.encode(), event.to_json().encode(), timestamp=event.time_ms) for event in events
        )
        partition = topic.partitions[0]
        appended = partition.log.append(batch, events[-1].time_ms, AppendOrigin.COORDINATOR)
        if isinstance(appended, Rejection):
            log.warning("%d group events were not written to %s: %s", len(events), EVENTS_TOPIC, appended.message)
        else:
            partition.wake_waiters()

    def _log(self, events: list[GroupEvent]) -> None:
        at = 0
        while at < len(events):
            shard = self._shard_of(events[at].group)
            end = at + 1
            while end < len(events) and self._shard_of(events[end].group) == shard:
                end += 1
            lines = self._lines.get(shard)
            if lines is None:
                lines = self._lines[shard] = CoordinatorLogLines(self._node_id, shard)
            for line in lines.render(events[at:end]):
                group_log.info(line)
            at = end
