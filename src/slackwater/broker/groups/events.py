"""The stream of group events: to listeners in this process, to the broker's log, and to `__group_events`.

Invariants:
- All listeners get the same events, in the order of the coordinator's decisions.
- `__group_events` has one partition, which keeps that order. The key is the group, the value the event as JSON. The
  events of one event loop iteration are one batch. If the disk fails, the batch is lost, but no response. Retention
  limits the topic by time and by size.
- Listeners are called immediately. The log and the topic are written at the end of the iteration, except in a burst:
  the events of a thousand joins are written after the burst, or after a second, in parts, so that no join waits for
  them. A clean stop, and every request that reads a group or its events, writes all pending events first.
- An exception of a listener is logged and affects nothing else.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from slackwater.broker.groups.log_lines import CoordinatorLogLines
from slackwater.broker.storage.log.partition_log import AppendOrigin
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import Topics
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError
from slackwater.group.events import GroupEvent
from slackwater.group.internal_topics import EVENTS_TOPIC
from slackwater.wire.records.record import Record, encode_batch

MAX_IMMEDIATE: Final = 64
BURST_PAUSE_S: Final = 0.1
MAX_DELAY_S: Final = 1.0
MAX_BATCH_EVENTS: Final = 256
EVENTS_TOPIC_SETTINGS: Final = {
    "retention.ms": str(7 * 24 * 60 * 60 * 1000),
    "retention.bytes": str(256 << 20),
    "segment.bytes": str(32 << 20),  # retention deletes whole segments
}

EventListener = Callable[[GroupEvent], None]
log = get_logger("slackwater.broker.groups.events")
# The name of a logger is in each of its lines, and users select lines by it: the name of the coordinator's lines stays.
group_log = get_logger("slackwater.broker.groups.coordinator_shell")


class GroupEventStream:
    """Publishes the group events of a broker."""

    def __init__(
        self,
        topics: Topics,
        *,
        node_id: int,
        offsets_partition_of: Callable[[str], int],
        write_to_topic: bool,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._topics = topics
        self._node_id = node_id
        self._offsets_partition_of = offsets_partition_of
        self._write_to_topic = write_to_topic
        self._call_later = call_later
        self._lines: dict[int, CoordinatorLogLines] = {}
        self._listeners: tuple[EventListener, ...] = ()
        self._pending: list[GroupEvent] = []
        self._first_pending_at = self._last_busy_at = self._quota_updated_at = 0.0
        self._quota = float(MAX_IMMEDIATE)  # events that may be written immediately; refills over time
        self._is_waiting = False

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Call a listener with every new event, on the broker's thread. Returns a function that unsubscribes it."""
        self._listeners = (*self._listeners, listener)
        return lambda: self._unsubscribe(listener)

    def _unsubscribe(self, listener: EventListener) -> None:
        listeners = list(self._listeners)
        listeners.remove(listener)
        self._listeners = tuple(listeners)  # a new tuple: a listener may unsubscribe during `publish`

    def publish(self, events: list[GroupEvent]) -> None:
        """Publish events in this order."""
        for listener in self._listeners:
            for event in events:
                try:
                    listener(event)
                except Exception:
                    log.exception("An event listener failed on %s of group %s.", event.kind, event.group)
        if not self._pending:
            self._first_pending_at = monotonic()
        self._pending.extend(events)

    def write_or_defer(self) -> None:
        """Write the pending events, or schedule the write for the end of a burst."""
        if not self._pending:
            return
        self._last_busy_at = now = monotonic()
        if self._is_waiting:
            return
        self._quota = min(MAX_IMMEDIATE, self._quota + (now - self._quota_updated_at) * MAX_IMMEDIATE / BURST_PAUSE_S)
        self._quota_updated_at = now
        if len(self._pending) <= self._quota:
            self._quota -= len(self._pending)
            self.write()
        else:
            self._is_waiting = True
            self._call_later(BURST_PAUSE_S, self._write_or_wait)

    def _write_or_wait(self) -> None:
        now = monotonic()
        if self._pending and now - self._last_busy_at < BURST_PAUSE_S and now - self._first_pending_at < MAX_DELAY_S:
            self._call_later(BURST_PAUSE_S, self._write_or_wait)
            return
        rest = self._pending[MAX_BATCH_EVENTS:]
        del self._pending[MAX_BATCH_EVENTS:]
        self.write()
        if rest:
            self._pending = rest
            self._call_later(0.0, self._write_rest)
        else:
            self._is_waiting = False

    def _write_rest(self) -> None:
        """Continue with the rest of a burst, even if the broker is busy."""
        self._first_pending_at = monotonic() - MAX_DELAY_S
        self._write_or_wait()

    def write(self) -> None:
        """Write all pending events."""
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
                topic = self._topics.create(EVENTS_TOPIC, 1, EVENTS_TOPIC_SETTINGS)
        except (OSError, BrokerError) as error:
            log.warning("Lost %d group events: cannot create %s: %s", len(events), EVENTS_TOPIC, error)
            return
        batch = encode_batch(
            Record(event.group.encode(), event.to_json().encode(), timestamp=event.time_ms) for event in events
        )
        partition = topic.partitions[0]
        result = partition.log.append(batch, events[-1].time_ms, AppendOrigin.COORDINATOR)
        if isinstance(result, Rejection):
            log.warning("Lost %d group events: cannot write %s: %s", len(events), EVENTS_TOPIC, result.message)
        else:
            partition.wake_waiters()

    def _log(self, events: list[GroupEvent]) -> None:
        start = 0
        while start < len(events):
            offsets_partition = self._offsets_partition_of(events[start].group)
            end = start + 1
            while end < len(events) and self._offsets_partition_of(events[end].group) == offsets_partition:
                end += 1
            lines = self._lines.get(offsets_partition)
            if lines is None:
                lines = self._lines[offsets_partition] = CoordinatorLogLines(self._node_id, offsets_partition)
            for line in lines.render(events[start:end]):
                group_log.info(line)
            start = end
