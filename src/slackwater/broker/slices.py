"""Long work on the event loop, in slices, so that the loop reads the sockets in between.

For work that is long for one element, or whose response cannot be put together of parts. A request with many elements
that are independent of each other is divided instead (`split_requests`).

Work is a generator. It yields None where it may be interrupted, at least every few milliseconds. It yields a function,
which is called in a thread; the generator receives the result.

Invariants:
- All work together takes at most `SLICE_S` of one iteration of the event loop. On any machine, however slow, every
  iteration continues at least one piece of work.
- Only one piece of work at a time has the result of a thread call, which may be large. When it makes its next call, the
  next piece of work gets the thread.
- Work starts at once if there is time left in this iteration, so short work takes no extra iteration. Otherwise it
  waits; waiting work takes turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Sliced: TypeAlias = Generator[Callable[[], object] | None, Any, T]

SLICE_S: Final = 0.02


class RunInThread(Protocol):
    """Runs blocking work in a thread and then calls `done` on the loop."""

    def __call__(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        """Start the work."""
        ...


def run_to_completion(work: Sliced[T]) -> T:
    """Do the work now, without interruption."""
    try:
        function = next(work)
        while True:
            try:
                result = function() if function is not None else None
            except Exception as error:
                function = work.throw(error)
            else:
                function = work.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


class Slices:
    """The long work of one event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, in_thread: RunInThread, *, now: Callable[[], float] = perf_counter
    ) -> None:
        self._loop = loop
        self._now = now
        self._in_thread = in_thread
        self._waiting: deque[_Work] = deque()
        self._calls: deque[tuple[_Work, Callable[[], object]]] = deque()  # that wait for the thread
        self._caller: _Work | None = None  # the work that has the thread, or its last result
        self._is_scheduled = False
        self._is_stopped = False
        self._deadline = 0.0  # of the work in this iteration

    def run(
        self,
        work: Sliced[None],
        on_error: Callable[[Exception], None],
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Start work; returns whether it is done.

        `on_error` gets an exception that the work raises. Work that is cancelled ends with its slice.
        """
        if self._is_stopped:
            return False
        if not self._is_scheduled:
            self._schedule()
        started = _Work(work, on_error, is_cancelled)
        if self._waiting or self._now() > self._deadline:
            self._waiting.append(started)
            return False
        return self._continue(started)

    def stop(self) -> None:
        """Drop the work that is not done; later work is never started."""
        self._is_stopped = True
        self._waiting.clear()
        self._calls.clear()

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._deadline = self._now() + SLICE_S
        self._loop.call_soon(self._run_waiting)

    def _run_waiting(self) -> None:
        self._is_scheduled = False
        if not self._waiting:
            return
        self._schedule()
        while self._waiting:
            work = self._waiting.popleft()
            if work.is_cancelled():
                work.generator.close()
                self._release_thread(work)
            else:
                self._continue(work)
            if self._now() > self._deadline:
                break

    def _continue(self, work: "_Work") -> bool:
        """Continue work until it is done, waits for the thread, or the slice ends; returns whether it is done."""
        send = work.generator.send
        result, work.result = work.result, None
        try:
            if isinstance(result, Exception):
                function = work.generator.throw(result)
            else:
                function = send(result)
            while function is None:
                if self._now() > self._deadline:
                    self._waiting.append(work)
                    return False
                function = send(None)
        except StopIteration:
            self._release_thread(work)
            return True
        except Exception as error:
            self._release_thread(work)
            work.on_error(error)
            return True
        finally:
            # An exception refers to this frame and to that of `call`. With a reference back, only the garbage collector
            # would free the memory that the failed call used.
            result = None
        self._calls.append((work, function))
        self._release_thread(work)
        return False

    def _release_thread(self, work: "_Work") -> None:
        """Start the next call if `work` has the thread or its result, and needs it no longer."""
        if self._caller is work:
            self._caller = None
        if self._caller is None and self._calls:
            self._caller, function = self._calls.popleft()
            self._call_in_thread(self._caller, function)

    def _call_in_thread(self, work: "_Work", function: Callable[[], object]) -> None:
        def call() -> None:
            try:
                work.result = function()
            except Exception as error:
                work.result = error

        def done() -> None:
            if self._is_stopped:
                return
            self._waiting.append(work)
            if not self._is_scheduled:
                self._schedule()

        self._in_thread(call, done)


class _Work:
    """One piece of work; `result` is that of the function it has yielded last."""

    __slots__ = ("generator", "is_cancelled", "on_error", "result")

    def __init__(
        self, generator: Sliced[None], on_error: Callable[[Exception], None], is_cancelled: Callable[[], bool]
    ) -> None:
        self.generator = generator
        self.on_error = on_error
        self.is_cancelled = is_cancelled
        self.result: object = None
