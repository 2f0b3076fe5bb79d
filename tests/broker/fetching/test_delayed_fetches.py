"""Waiting fetches: woken by an append, ended by time, dropped with their connection."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from slackwater.broker.fetching.delayed_fetches import DelayedFetches
from slackwater.broker.storage.topics import Partition, Topic

from ..storage.log.batches import opened

LONG_MS = 60_000
DEADLINE_S = 60.0


class ManualLoop:
    """A loop whose time passes when the test advances it."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[ManualTimer] = []

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> "ManualTimer":
        timer = ManualTimer(when, partial(callback, *args))
        self._timers.append(timer)
        return timer

    @property
    def active(self) -> list["ManualTimer"]:
        return [timer for timer in self._timers if not timer.is_cancelled]

    def advance(self, seconds: float) -> None:
        """Fire the timers that are due at the end of this time."""
        self._now += seconds
        for timer in [timer for timer in self.active if timer.when <= self._now]:
            timer.is_cancelled = True
            timer.callback()


class ManualTimer:
    """A timer of `ManualLoop`."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def run(tmp_path: Path, scenario: Callable[[DelayedFetches, list[Partition]], Awaitable[None]]) -> None:
    async def main() -> None:
        topic = Topic("t", bytes(16), {})
        topic.partitions += [Partition(topic, index, opened(tmp_path / str(index))) for index in range(3)]
        try:
            await scenario(DelayedFetches(asyncio.get_running_loop()), topic.partitions)
        finally:
            for partition in topic.partitions:
                partition.log.close_unclean()

    asyncio.run(main())


def test_append_to_any_partition_ends_the_wait_once(tmp_path: Path) -> None:
    async def scenario(waits: DelayedFetches, partitions: list[Partition]) -> None:
        ended: list[str] = []
        waits.add("a", partitions, LONG_MS, is_satisfied=lambda: True, end=lambda: ended.append("a"))
        partitions[2].wake_waiters()
        partitions[0].wake_waiters()
        assert ended == ["a"]
        assert len(waits) == 0
        assert not any(partition.waiters for partition in partitions)

    run(tmp_path, scenario)


def test_wait_continues_until_it_is_satisfied(tmp_path: Path) -> None:
    async def scenario(waits: DelayedFetches, partitions: list[Partition]) -> None:
        ended: list[str] = []
        satisfied = iter([False, False, True])
        waits.add("a", partitions[:1], LONG_MS, is_satisfied=lambda: next(satisfied), end=lambda: ended.append("a"))
        for expected in ([], [], ["a"]):
            partitions[0].wake_waiters()
            assert ended == expected

    run(tmp_path, scenario)


def test_wait_ends_at_its_deadline(tmp_path: Path) -> None:
    async def scenario(waits: DelayedFetches, partitions: list[Partition]) -> None:
        loop = asyncio.get_running_loop()
        started_at, ended = loop.time(), loop.create_future()
        waits.add("a", partitions, 40, is_satisfied=lambda: True, end=lambda: ended.set_result(loop.time()))
        async with asyncio.timeout(DEADLINE_S):
            assert await ended - started_at >= 0.04
        assert not partitions[0].waiters

    run(tmp_path, scenario)


def test_dropped_waits_do_not_end(tmp_path: Path) -> None:
    async def scenario(waits: DelayedFetches, partitions: list[Partition]) -> None:
        ended: list[int] = []
        last = asyncio.get_running_loop().create_future()
        for number in range(10):
            waits.add(number, partitions, 20, is_satisfied=lambda: True, end=partial(ended.append, number))
        waits.add("last", partitions, 60, is_satisfied=lambda: True, end=lambda: last.set_result(None))
        for number in range(0, 10, 2):
            waits.drop(number)
        async with asyncio.timeout(DEADLINE_S):
            await last
        assert ended == [1, 3, 5, 7, 9]
        assert len(waits) == 0

    run(tmp_path, scenario)


def test_failing_wait_does_not_affect_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(waits: DelayedFetches, partitions: list[Partition]) -> None:
        ended: list[str] = []

        def fail() -> None:
            raise RuntimeError("broken")

        waits.add("bad", partitions, LONG_MS, is_satisfied=lambda: True, end=fail)
        waits.add("good", partitions, LONG_MS, is_satisfied=lambda: True, end=lambda: ended.append("good"))
        partitions[0].wake_waiters()
        assert ended == ["good"]
        assert "broken" in caplog.text

    run(tmp_path, scenario)


def test_wait_dropped_by_an_earlier_one_does_not_end(tmp_path: Path) -> None:
    async def scenario(waits: DelayedFetches, partitions: list[Partition]) -> None:
        ended: list[str] = []

        def first() -> None:
            ended.append("first")
            waits.drop("second")

        waits.add("first", partitions, LONG_MS, is_satisfied=lambda: True, end=first)
        waits.add("second", partitions, LONG_MS, is_satisfied=lambda: True, end=lambda: ended.append("second"))
        partitions[0].wake_waiters()
        assert ended == ["first"]
        assert not partitions[1].waiters

    run(tmp_path, scenario)


@pytest.mark.parametrize("wait_ms", [1, 20, 100, 500, 5_000, 600_000])
def test_wait_is_never_early_and_at_most_50_ms_late(wait_ms: int) -> None:
    loop = ManualLoop()
    waits = DelayedFetches(loop)  # type: ignore[arg-type]
    for number in range(50):
        loop.advance(0.0137)
        waits.add("a", [], wait_ms, is_satisfied=lambda: True, end=lambda: None)
        (timer,) = loop.active
        assert 0 < timer.when - loop.time() - wait_ms / 1000 <= min(wait_ms / 1000 / 10, 0.05) + 1e-6, number
    waits.drop("a")
    assert len(waits) == 0
    assert not loop.active


def test_waits_of_equal_length_share_timers() -> None:
    loop, ended = ManualLoop(), list[int]()
    waits = DelayedFetches(loop)  # type: ignore[arg-type]
    for number in range(100):
        waits.add(number, [], 500, is_satisfied=lambda: True, end=partial(ended.append, number))
        loop.advance(0.0002)
    assert len(loop.active) <= 2
    loop.advance(1.0)
    assert ended == list(range(100))
