"""Long work runs in slices, and other callbacks of the loop run in between."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.slices import SLICE_S, Sliced, Slices, run_to_completion
from slackwater.group.errors import Error
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, encode_batch

from .raw_client import RawClient, closing
from .server_client import with_server


class FakeClock:
    """Seconds that pass only while work is done."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def busy(self, seconds: float, log: list[str], name: str) -> Sliced[None]:
        """Work that takes some time and may be interrupted every millisecond."""
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds += 0.001
            yield None
        log.append(name)


def _slices(clock: FakeClock) -> Slices:
    loop = asyncio.get_running_loop()

    def in_thread(work: Callable[[], None], done: Callable[[], object]) -> None:
        future = loop.run_in_executor(None, work)
        future.add_done_callback(lambda _: done())

    return Slices(loop, in_thread, now=clock.now)


def _fail(error: Exception) -> None:
    raise AssertionError from error


def test_short_work_is_done_at_once() -> None:
    async def run() -> None:
        log: list[str] = []
        clock = FakeClock()
        assert _slices(clock).run(clock.busy(0, log, "short"), _fail)
        assert log == ["short"]

    asyncio.run(run())


class CallFailed(Exception):
    """The failure of a call in the thread; `failures` has a weak reference to it."""

    def __init__(self, failures: "list[weakref.ref[CallFailed]]") -> None:
        failures.append(weakref.ref(self))


@pytest.mark.parametrize("is_handled", [True, False])
def test_failed_call_leaves_no_reference_cycle(is_handled: bool) -> None:
    failures: list[weakref.ref[CallFailed]] = []

    def fail() -> None:
        raise CallFailed(failures)

    def work() -> Sliced[None]:
        try:
            yield fail
        except CallFailed:
            if not is_handled:
                raise

    async def run() -> None:
        _slices(FakeClock()).run(work(), lambda _: None)
        async with asyncio.timeout(60):
            while not failures or failures[0]() is not None:
                await asyncio.sleep(0.001)

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_other_callbacks_run_between_slices() -> None:
    async def run() -> None:
        log: list[str] = []
        turns = 0
        clock = FakeClock()
        slices = _slices(clock)
        assert not slices.run(clock.busy(5 * SLICE_S, log, "long"), _fail)
        assert not slices.run(clock.busy(0, log, "short"), _fail)
        async with asyncio.timeout(60):
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
        assert not _slices(FakeClock()).run(work(log), _fail)
        async with asyncio.timeout(60):
            while len(log) < 2:
                await asyncio.sleep(0.001)
        assert log == [7, "no"]

    asyncio.run(run())
    log: list[object] = []
    run_to_completion(work(log))
    assert log == [7, "no"]


def test_one_result_of_the_thread_at_a_time() -> None:
    def work(log: list[str], name: str) -> Sliced[None]:
        for _ in range(2):
            yield lambda: None
            log.append(f"{name} starts")
            for _ in range(5):
                yield None
            log.append(f"{name} ends")

    async def run() -> None:
        log: list[str] = []
        slices = _slices(FakeClock())
        for name in ("a", "b", "c"):
            assert not slices.run(work(log, name), _fail)
        async with asyncio.timeout(60):
            while len(log) < 12:
                await asyncio.sleep(0.001)
        assert log == 2 * [f"{name} {what}" for name in "abc" for what in ("starts", "ends")]

    asyncio.run(run())


def test_an_error_of_the_work_is_reported() -> None:
    def work() -> Sliced[None]:
        yield None
        raise ValueError("wrong")

    async def run() -> None:
        errors: list[Exception] = []
        assert _slices(FakeClock()).run(work(), errors.append)
        assert [str(error) for error in errors] == ["wrong"]

    asyncio.run(run())
    with pytest.raises(ValueError, match="wrong"):
        run_to_completion(work())


def test_work_is_dropped_by_a_stop() -> None:
    async def run() -> None:
        log: list[str] = []
        clock = FakeClock()
        slices = _slices(clock)
        assert not slices.run(clock.busy(5 * SLICE_S, log, "long"), _fail)
        slices.stop()
        assert not slices.run(clock.busy(0, log, "short"), _fail)
        for _ in range(10):
            await asyncio.sleep(0)
        assert log == []

    asyncio.run(run())


def test_cancelled_work_ends() -> None:
    async def run() -> None:
        log: list[str] = []
        clock = FakeClock()
        slices = _slices(clock)
        assert not slices.run(clock.busy(1_000, log, "endless"), _fail, is_cancelled=lambda: True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert slices.run(clock.busy(0, log, "next"), _fail)
        assert log == ["next"]

    asyncio.run(run())


def test_a_small_batch_does_not_overtake_a_large_one(tmp_path: Path) -> None:
    @closing
    async def scenario(server: Server) -> None:
        client = await RawClient.at(server.port)
        await client.create_topic("t")
        producer_id = await client.producer_id()

        def batch(sequence: int, value: bytes) -> bytearray:
            return encode_batch(
                [Record(b"k", value, timestamp=1)],
                codec=Codec.ZSTD,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            )

        for sequence in range(10):  # every other batch is decompressed in the thread
            client.send_batch("t", 0, batch(sequence, bytes(8 << 20) if sequence % 2 == 0 else b"small"))
        responses = [await client.next_produce_response() for _ in range(10)]
        assert [Error(response.error_code) for response in responses] == [Error.NONE] * 10
        assert [response.base_offset for response in responses] == list(range(10))

    with_server(tmp_path, scenario)


def test_steps_longer_than_a_slice_still_make_progress() -> None:
    seconds = 0.0

    def slow_now() -> float:
        nonlocal seconds
        seconds += 2 * SLICE_S
        return seconds

    async def run() -> None:
        log: list[str] = []
        slices = Slices(asyncio.get_running_loop(), lambda work, done: None, now=slow_now)

        def work() -> Sliced[None]:
            for _ in range(3):
                yield None
            log.append("done")

        assert not slices.run(work(), _fail)
        for _ in range(10):
            await asyncio.sleep(0)
        assert log == ["done"]

    asyncio.run(run())
