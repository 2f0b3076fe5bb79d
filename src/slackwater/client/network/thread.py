"""The thread on which all input and output of one client runs.

Rules kept here
- One event loop in one daemon thread. The application's threads hand work over and may wait for its outcome.
- An application thread that waits can be interrupted (Ctrl-C), and its work is cancelled then.
- The thread ends with `close`, or with the process.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from slackwater.client.errors import ClientClosedError, ClientTimeoutError

T = TypeVar("T")


class NetworkThread:
    """A loop in a thread."""

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        while tasks := asyncio.all_tasks(self.loop):  # one that ends may have begun another
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    @property
    def is_current_thread(self) -> bool:
        """Whether this is the network's own thread."""
        return threading.current_thread() is self._thread

    def call_soon(self, work: Callable[..., object], *arguments: Any) -> None:
        """Do something on the loop; nothing is heard of it."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(work, *arguments)

    def create_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin something, from the loop itself; nothing is heard of it."""
        task = self.loop.create_task(work)
        self._tasks.add(task)  # the loop itself keeps no hold of it
        task.add_done_callback(self._tasks.discard)

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Begin something on the loop."""
        if self._closed:
            work.close()
            raise ClientClosedError("This client was closed; make a new one.")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Do something on the loop and wait for it."""
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise ClientTimeoutError(f"It took longer than {timeout_s:g} s.") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        if self._closed:
            return
        self._closed = True
        self.call_soon(self.loop.stop)
        if not self.is_current_thread:
            self._thread.join()
