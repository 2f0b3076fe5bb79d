"""Fetches that wait: woken, timed out, dropped, and never both."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from slackwater.broker.fetching.waits import FetchWaits
from slackwater.broker.storage.topics import Partition, Topic

from .storage.log.batches import opened

LONG_MS = 60_000
DEADLINE_S = 10.0


def partitions(tmp_path: Path, count: int) -> list[Partition]:
    topic = Topic("t", bytes(16), {})
    topic.partitions += [Partition(topic, index, opened(tmp_path / str(index))) for index in range(count)]
    return topic.partitions


def run(tmp_path: Path, story: Callable[[FetchWaits, list[Partition]], Awaitable[None]]) -> None:
    async def main() -> None:
        made = partitions(tmp_path, 3)
        try:
            await story(FetchWaits(asyncio.get_running_loop()), made)
        finally:
            for partition in made:
                partition.log.abandon()

    asyncio.run(main())


def test_an_append_to_any_partition_ends_the_wait_once(tmp_path: Path) -> None:
    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        ended: list[str] = []
        waits.park("me", made, LONG_MS, enough=lambda: True, end=lambda: ended.append("me"))
        made[2].wake_waiters()
        made[0].wake_waiters()
        assert ended == ["me"]
        assert len(waits) == 0
        assert not any(partition.waiters for partition in made)

    run(tmp_path, story)


def test_a_wait_goes_on_while_there_is_not_enough(tmp_path: Path) -> None:
    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        ended: list[str] = []
        enough = iter([False, False, True])
        waits.park("me", made[:1], LONG_MS, enough=lambda: next(enough), end=lambda: ended.append("me"))
        for expected in ([], [], ["me"]):
            made[0].wake_waiters()
            assert ended == expected

    run(tmp_path, story)


def test_time_ends_a_wait_not_before_it_is_up(tmp_path: Path) -> None:
    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        loop = asyncio.get_running_loop()
        began, ended = loop.time(), loop.create_future()
        waits.park("me", made, 40, enough=lambda: True, end=lambda: ended.set_result(loop.time()))
        async with asyncio.timeout(DEADLINE_S):
            assert await ended - began >= 0.04
        assert not made[0].waiters

    run(tmp_path, story)


def test_who_is_dropped_hears_nothing_and_the_others_hear_all(tmp_path: Path) -> None:
    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        loop = asyncio.get_running_loop()
        heard: list[int] = []
        last = loop.create_future()
        for number in range(10):
            waits.park(number, made, 20, enough=lambda: True, end=partial(heard.append, number))
        waits.park("last", made, 60, enough=lambda: True, end=lambda: last.set_result(None))
        for number in range(0, 10, 2):
            waits.drop(number)
        async with asyncio.timeout(DEADLINE_S):
            await last
        assert heard == [1, 3, 5, 7, 9]
        assert len(waits) == 0

    run(tmp_path, story)


def test_one_that_fails_does_not_disturb_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        heard: list[str] = []

        def fail() -> None:
            raise RuntimeError("broken")

        waits.park("bad", made, LONG_MS, enough=lambda: True, end=fail)
        waits.park("good", made, LONG_MS, enough=lambda: True, end=lambda: heard.append("good"))
        made[0].wake_waiters()
        assert heard == ["good"]
        assert "broken" in caplog.text

    run(tmp_path, story)


def test_who_is_dropped_by_the_one_before_it_hears_nothing(tmp_path: Path) -> None:
    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        heard: list[str] = []

        def first() -> None:
            heard.append("first")
            waits.drop("second")

        waits.park("first", made, LONG_MS, enough=lambda: True, end=first)
        waits.park("second", made, LONG_MS, enough=lambda: True, end=lambda: heard.append("second"))
        made[0].wake_waiters()
        assert heard == ["first"]
        assert not made[1].waiters

    run(tmp_path, story)


@pytest.mark.parametrize("wait_ms", [1, 20, 100, 500, 5_000, 600_000])
def test_a_wait_is_late_by_little_and_never_early(tmp_path: Path, wait_ms: int) -> None:
    class Waiting:
        bucket = 0.0

        def finish(self) -> None:
            raise AssertionError("It was cancelled.")

    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(50):
            wait = Waiting()
            before = loop.time()
            waits.begin(wait, wait_ms)
            after = loop.time()
            waits.cancel(wait)
            assert before < wait.bucket - wait_ms / 1000 <= after + min(wait_ms / 1000 / 10, 0.05) + 1e-6
        assert len(waits) == 0

    run(tmp_path, story)


def test_many_that_wait_as_long_end_together(tmp_path: Path) -> None:
    async def story(waits: FetchWaits, made: list[Partition]) -> None:
        now, ended = [1000.0], list[int]()
        loop = asyncio.get_running_loop()
        waits = FetchWaits(_Frozen(loop, now))  # type: ignore[arg-type]
        for number in range(100):
            waits.park(number, made, 500, enough=lambda: True, end=partial(ended.append, number))
            now[0] += 0.0002
        assert len(waits._buckets) <= 2
        for at, bucket in list(waits._buckets.items()):
            bucket.timer.cancel()
            waits._time_is_up(at)
        assert ended == list(range(100))

    run(tmp_path, story)


class _Frozen:
    """A loop whose time passes when the test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: list[float]) -> None:
        self._now = now
        self.call_at = loop.call_at

    def time(self) -> float:
        return self._now[0]
