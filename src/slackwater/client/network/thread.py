"""The network thread of a client: one event loop for all input and output.

Invariants:
- Application threads hand over work and may wait for its result.
- Ctrl-C interrupts a waiting application thread and cancels its work.
- The thread ends with `close`, or with the process. Work that was handed over before `close` starts and is cancelled;
  work that is handed over later never starts.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from slackwater.client.errors import ClientClosedError, ClientTimeoutError

T = TypeVar("T")


class NetworkThread:
    """An event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._closed = False
        self._closed_lock = threading.RLock()  # a callback after `loop.stop` could start a task that never runs
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        while tasks := asyncio.all_tasks(self.loop):  # a cancelled task may have started another
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def call_soon(self, work: Callable[..., object], *arguments: Any) -> None:
        """Call a function on the loop and ignore its result; do nothing after `close`."""
        with self._closed_lock:
            if not self._closed:
                self.loop.call_soon_threadsafe(work, *arguments)

    def create_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine from the loop itself and ignore its result."""
        task = self.loop.create_task(work)
        self._tasks.add(task)  # the loop holds only a weak reference
        task.add_done_callback(self._tasks.discard)

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start a coroutine on the loop."""
        with self._closed_lock:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        raise ClientClosedError("This client was closed; make a new one.")

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and return its result."""
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise ClientTimeoutError(f"The operation took longer than {timeout_s:g} s.") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        with self._closed_lock:
            self.call_soon(self.loop.stop)
            self._closed = True
        if not self.is_current_thread:
            self._thread.join()


class EarliestTimer:
    """Calls a function at the earliest of the requested times. Used on the network thread."""

    def __init__(self, network: NetworkThread, function: Callable[[], None]) -> None:
        self._network = network
        self._function = function
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0  # uvloop does not know the time of a timer that is due

    def call_in(self, seconds: float) -> None:
        """Call the function after a delay, unless a call is due earlier."""
        loop = self._network.loop
        due = loop.time() + max(seconds, 0.0)
        if self._handle is not None:
            if self._due <= due:
                return
            self._handle.cancel()
        self._due = due
        self._handle = loop.call_at(due, self._on_due)

    def _on_due(self) -> None:
        self._handle = None
        self._function()
