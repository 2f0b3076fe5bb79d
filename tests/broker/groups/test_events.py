"""Group events: told at once, written at the end of the turn, and after a burst when it is over."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.broker.config import Settings
from slackwater.broker.groups import events as module
from slackwater.broker.groups.events import AT_ONCE, WRITTEN_TOGETHER, GroupEventStream
from slackwater.broker.storage.topics import EVENTS_TOPIC, Topics
from slackwater.group.events import EventKind, EventSource, GroupEvent
from slackwater.wire.records.fetched import iter_records


class House:
    """GroupEventStream on a clock that stands still."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.later: list[Callable[[], None]] = []
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        self.topics = Topics(directory, Settings(), now_ms=lambda: 1, new_id=lambda: bytes(15) + b"1")
        self.events = GroupEventStream(
            self.topics,
            node_id=1,
            shard_of=lambda _group: 0,
            write_to_topic=True,
            later=lambda _seconds, work: self.later.append(work),
        )

    def tell(self, count: int) -> None:
        told = [GroupEvent(time_ms=1, group="g", kind=EventKind.GROUP_CREATED, source=EventSource.COORDINATOR)] * count
        self.events.publish(told)
        self.events.flush_pending()

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


def test_what_a_turn_tells_is_written_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, heard = House(tmp_path, monkeypatch), list[GroupEvent]()
    end = house.events.subscribe(heard.append)
    house.tell(3)
    assert (len(heard), house.written, house.later) == (3, 3, [])
    end()
    house.tell(1)
    assert (len(heard), house.written) == (3, 4)


def test_a_burst_is_written_when_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch)
    house.tell(AT_ONCE)
    house.tell(1)
    assert (house.written, len(house.later)) == (AT_ONCE, 1)
    house.pass_time(0.05)
    house.tell(5)
    house.pass_time(0.05)  # the last was told just now
    assert house.written == AT_ONCE
    house.pass_time(0.11)
    assert (house.written, house.later) == (AT_ONCE + 6, [])
    house.pass_time(1.0)
    house.tell(AT_ONCE)
    assert house.written == 2 * AT_ONCE + 6


def test_a_burst_waits_for_a_moment_in_which_the_broker_has_nothing_else_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, monkeypatch)
    house.tell(AT_ONCE + 1)
    for _ in range(5):
        house.pass_time(0.05)
        house.events.flush_pending()  # nothing was told, but something was done
        house.pass_time(0.05)
        assert house.written == 0
    house.pass_time(0.11)
    assert house.written == AT_ONCE + 1


def test_a_large_burst_is_written_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch)
    house.tell(2 * WRITTEN_TOGETHER)
    house.pass_time(0.11)
    assert (house.written, len(house.later)) == (WRITTEN_TOGETHER, 1)
    house.tell(1)  # is written after them, and does not keep them waiting
    house.pass_time(0.0)
    assert (house.written, len(house.later)) == (2 * WRITTEN_TOGETHER, 1)
    house.pass_time(0.0)
    assert (house.written, house.later) == (2 * WRITTEN_TOGETHER + 1, [])


def test_whoever_asks_has_all_of_a_burst_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch)
    house.tell(3 * WRITTEN_TOGETHER)
    house.pass_time(0.11)
    house.events.write()
    assert house.written == 3 * WRITTEN_TOGETHER
    house.pass_time(0.0)
    assert (house.written, house.later) == (3 * WRITTEN_TOGETHER, [])
    house.pass_time(1.0)
    house.tell(1)
    assert house.written == 3 * WRITTEN_TOGETHER + 1


def test_a_burst_without_end_is_written_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, monkeypatch)
    for _ in range(12):
        house.tell(AT_ONCE * 2)
        house.pass_time(0.09)
    assert house.written >= AT_ONCE * 2


def test_a_listener_may_stop_listening_while_it_hears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, once, heard = House(tmp_path, monkeypatch), list[GroupEvent](), list[GroupEvent]()

    def hear_once(event: GroupEvent) -> None:
        once.append(event)
        end()

    end = house.events.subscribe(hear_once)
    house.events.subscribe(heard.append)
    house.tell(1)
    house.tell(2)
    assert (len(once), len(heard)) == (1, 3)


def test_a_listener_that_fails_disturbs_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house, heard = House(tmp_path, monkeypatch), list[GroupEvent]()

    def fails(_event: GroupEvent) -> None:
        raise RuntimeError("not today")

    house.events.subscribe(fails)
    house.events.subscribe(heard.append)
    house.tell(2)
    assert (len(heard), house.written) == (2, 2)
