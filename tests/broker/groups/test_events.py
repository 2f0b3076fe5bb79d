"""Tests of the group event stream: listeners at once, log and topic later."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.broker.config import Settings
from slackwater.broker.groups import events as module
from slackwater.broker.groups.events import MAX_BATCH_EVENTS, MAX_IMMEDIATE, GroupEventStream
from slackwater.broker.storage.topics import Topics
from slackwater.group.events import EventKind, EventSource, GroupEvent
from slackwater.group.internal_topics import EVENTS_TOPIC
from slackwater.wire.records.fetched import iter_records


class EventStreamFixture:
    """A `GroupEventStream` with a manual clock."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.later: list[Callable[[], None]] = []
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        self.topics = Topics(directory, Settings(), wall_ms=lambda: 1, new_id=lambda: bytes(15) + b"1")
        self.events = GroupEventStream(
            self.topics,
            node_id=1,
            offsets_partition_of=lambda _group: 0,
            write_to_topic=True,
            call_later=lambda _seconds, work: self.later.append(work),
        )

    def publish(self, count: int) -> None:
        events = [
            GroupEvent(time_ms=1, group="g", kind=EventKind.GROUP_CREATED, source=EventSource.COORDINATOR)
        ] * count
        self.events.publish(events)
        self.events.write_or_defer()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due, self.later = self.later, []
        for work in due:
            work()

    @property
    def written(self) -> int:
        topic = self.topics.get(EVENTS_TOPIC)
        data = topic.partitions[0].log.read(0, 10_000_000) if topic is not None else b""
        assert isinstance(data, bytes | memoryview)
        return sum(1 for _ in iter_records(data))


def test_events_are_written_at_end_of_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, received = EventStreamFixture(tmp_path, monkeypatch), list[GroupEvent]()
    unsubscribe = stream.events.subscribe(received.append)
    stream.publish(3)
    assert (len(received), stream.written, stream.later) == (3, 3, [])
    unsubscribe()
    stream.publish(1)
    assert (len(received), stream.written) == (3, 4)


def test_burst_is_written_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStreamFixture(tmp_path, monkeypatch)
    stream.publish(MAX_IMMEDIATE)
    stream.publish(1)
    assert (stream.written, len(stream.later)) == (MAX_IMMEDIATE, 1)
    stream.pass_time(0.05)
    stream.publish(5)
    stream.pass_time(0.05)  # the last event was just published
    assert stream.written == MAX_IMMEDIATE
    stream.pass_time(0.11)
    assert (stream.written, stream.later) == (MAX_IMMEDIATE + 6, [])
    stream.pass_time(1.0)
    stream.publish(MAX_IMMEDIATE)
    assert stream.written == 2 * MAX_IMMEDIATE + 6


def test_burst_waits_until_broker_is_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStreamFixture(tmp_path, monkeypatch)
    stream.publish(MAX_IMMEDIATE + 1)
    for _ in range(5):
        stream.pass_time(0.05)
        stream.events.write_or_defer()  # no event, but the broker was busy
        stream.pass_time(0.05)
        assert stream.written == 0
    stream.pass_time(0.11)
    assert stream.written == MAX_IMMEDIATE + 1


def test_large_burst_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStreamFixture(tmp_path, monkeypatch)
    stream.publish(2 * MAX_BATCH_EVENTS)
    stream.pass_time(0.11)
    assert (stream.written, len(stream.later)) == (MAX_BATCH_EVENTS, 1)
    stream.publish(1)  # is written after them and does not delay them
    stream.pass_time(0.0)
    assert (stream.written, len(stream.later)) == (2 * MAX_BATCH_EVENTS, 1)
    stream.pass_time(0.0)
    assert (stream.written, stream.later) == (2 * MAX_BATCH_EVENTS + 1, [])


def test_write_flushes_a_whole_burst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStreamFixture(tmp_path, monkeypatch)
    stream.publish(3 * MAX_BATCH_EVENTS)
    stream.pass_time(0.11)
    stream.events.write()
    assert stream.written == 3 * MAX_BATCH_EVENTS
    stream.pass_time(0.0)
    assert (stream.written, stream.later) == (3 * MAX_BATCH_EVENTS, [])
    stream.pass_time(1.0)
    stream.publish(1)
    assert stream.written == 3 * MAX_BATCH_EVENTS + 1


def test_endless_burst_is_written_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStreamFixture(tmp_path, monkeypatch)
    for _ in range(12):
        stream.publish(MAX_IMMEDIATE * 2)
        stream.pass_time(0.09)
    assert stream.written >= MAX_IMMEDIATE * 2


def test_listener_may_unsubscribe_in_callback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, once, received = EventStreamFixture(tmp_path, monkeypatch), list[GroupEvent](), list[GroupEvent]()

    def receive_once(event: GroupEvent) -> None:
        once.append(event)
        unsubscribe()

    unsubscribe = stream.events.subscribe(receive_once)
    stream.events.subscribe(received.append)
    stream.publish(1)
    stream.publish(2)
    assert (len(once), len(received)) == (1, 3)


def test_failing_listener_does_not_affect_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, received = EventStreamFixture(tmp_path, monkeypatch), list[GroupEvent]()

    def fails(_event: GroupEvent) -> None:
        raise RuntimeError("test")

    stream.events.subscribe(fails)
    stream.events.subscribe(received.append)
    stream.publish(2)
    assert (len(received), stream.written) == (2, 2)


def test_events_topic_is_limited_by_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = EventStreamFixture(tmp_path, monkeypatch)
    stream.publish(1)
    topic = stream.topics.get(EVENTS_TOPIC)
    assert topic is not None
    log = topic.partitions[0].log
    assert (log.config.retention_ms, log.config.retention_bytes, log.config.segment_bytes) == (
        7 * 24 * 3_600_000,
        256 << 20,
        32 << 20,
    )


def test_oldest_events_are_deleted_above_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "EVENTS_TOPIC_SETTINGS", {"retention.ms": "-1", "retention.bytes": "8000", "segment.bytes": "1000"}
    )
    stream = EventStreamFixture(tmp_path, monkeypatch)
    for _ in range(200):
        stream.publish(1)
        stream.pass_time(1.0)
    topic = stream.topics.get(EVENTS_TOPIC)
    assert topic is not None
    log = topic.partitions[0].log
    assert log.size > 40_000
    assert log.delete_expired_segments(1)
    assert 8_000 <= log.size < 9_000
    assert log.log_end_offset == 200
