"""Long work runs in slices, and other callbacks of the loop run in between."""

import asyncio
from collections.abc import Callable
from time import perf_counter

import pytest

from slackwater.broker.slices import SLICE_S, Sliced, Slices, complete


def _slices() -> Slices:
    loop = asyncio.get_running_loop()

    def in_thread(work: Callable[[], None], done: Callable[[], object]) -> None:
        future = loop.run_in_executor(None, work)
        future.add_done_callback(lambda _: done())

    return Slices(loop, in_thread)


def _fail(error: Exception) -> None:
    raise AssertionError from error


def _busy(seconds: float, log: list[str], name: str) -> Sliced[None]:
    end = perf_counter() + seconds
    while perf_counter() < end:
        yield
    log.append(name)


def test_short_work_is_done_at_once() -> None:
    async def run() -> None:
        log: list[str] = []
        assert _slices().run(_busy(0, log, "short"), _fail)
        assert log == ["short"]

    asyncio.run(run())


def test_other_callbacks_run_between_slices() -> None:
    async def run() -> None:
        log: list[str] = []
        turns = 0
        slices = _slices()
        assert not slices.run(_busy(5 * SLICE_S, log, "long"), _fail)
        assert not slices.run(_busy(0, log, "short"), _fail)
        async with asyncio.timeout(20):
            while "long" not in log:
                turns += 1
                await asyncio.sleep(0)
        assert log == ["short", "long"]
        assert turns >= 4

    asyncio.run(run())


def test_results_and_errors_of_the_thread_return_to_the_work() -> None:
    def failing() -> object:
        raise OSError("no")

    def work(log: list[object]) -> Sliced[None]:
        log.append((yield lambda: 7))
        try:
            yield failing
        except OSError as error:
            log.append(str(error))

    async def run() -> None:
        log: list[object] = []
        assert not _slices().run(work(log), _fail)
        async with asyncio.timeout(20):
            while len(log) < 2:
                await asyncio.sleep(0.001)
        assert log == [7, "no"]

    asyncio.run(run())
    log: list[object] = []
    complete(work(log))
    assert log == [7, "no"]


def test_an_error_of_the_work_is_reported() -> None:
    def work() -> Sliced[None]:
        yield
        raise ValueError("wrong")

    async def run() -> None:
        errors: list[Exception] = []
        assert _slices().run(work(), errors.append)
        assert [str(error) for error in errors] == ["wrong"]

    asyncio.run(run())
    with pytest.raises(ValueError, match="wrong"):
        complete(work())


def test_cancelled_work_ends() -> None:
    async def run() -> None:
        log: list[str] = []
        slices = _slices()
        assert not slices.run(_busy(1_000, log, "endless"), _fail, is_cancelled=lambda: True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert slices.run(_busy(0, log, "next"), _fail)
        assert log == ["next"]

    asyncio.run(run())
