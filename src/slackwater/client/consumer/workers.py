"""The workers of `Consumer.run`: threads for a function, one event loop for a coroutine function.

Invariants:
- The work scheduler limits how many tasks are started at a time, in both kinds of workers.
- The end of every started task is reported once, with `on_finished` or `on_failed`. Both return the next task to start,
  or None.
- The event loop runs on its own thread, from `start` to `stop`. Every record has its own asyncio task. Abandoned
  coroutines are cancelled; functions in threads cannot be.
"""

import asyncio
import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeGuard

from slackwater.client.consumer.deserialization import Deserialize
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError
from slackwater.group.work.effects import StartTask

# The lines of Consumer.run have one logger, whichever module writes them.
log = get_logger("slackwater.client.consumer.runner")
JOIN_TIMEOUT_S: Final = 1.0

Handler = Callable[[ConsumerRecord], object]
AsyncHandler = Callable[[ConsumerRecord], Awaitable[object]]
RecordTask = StartTask[ConsumerRecord]
OnFinished = Callable[[int], RecordTask | None]
OnFailed = Callable[[RecordTask, BaseException], RecordTask | None]


class UnawaitedHandlerError(UsageError):
    """A handler that is not a coroutine function returned something to await."""


class Workers(Protocol):
    """Runs a handler for every task."""

    def start(self) -> None:
        """Start the threads."""

    def put(self, task: RecordTask) -> None:
        """Start a task soon. May be called from any thread."""

    def abandon(self, task_ids: Iterable[int]) -> None:
        """Cancel these tasks if possible. May be called from any thread."""

    def stop(self) -> None:
        """End the threads; a handler that still runs keeps its thread."""


def make_workers(handler: Handler, count: int, name: str, on_finished: OnFinished, on_failed: OnFailed) -> Workers:
    """Return the workers that a handler needs; `name` is the prefix of their threads."""
    if is_coroutine_function(handler):
        return EventLoopWorkers(handler, name, on_finished, on_failed)
    return ThreadWorkers(handler, count, name, on_finished, on_failed)


def deserialize_first(deserialize: Deserialize, handler: Handler) -> Handler:
    """Return a handler of the same kind that gets deserialized records."""
    if is_coroutine_function(handler):

        async def handle_async(record: ConsumerRecord) -> object:
            return await handler(deserialize(record))

        return handle_async

    def handle(record: ConsumerRecord) -> object:
        return handler(deserialize(record))

    return handle


def is_coroutine_function(handler: Handler) -> TypeGuard[AsyncHandler]:
    """Whether calling the handler returns a coroutine; raise `UsageError` for an asynchronous generator."""
    call = getattr(handler, "__call__", None)  # noqa: B004 - the method of an object, not whether it is callable
    if inspect.isasyncgenfunction(handler) or inspect.isasyncgenfunction(call):
        raise UsageError("The handler is an asynchronous generator; pass a function or a coroutine function.")
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


class ThreadWorkers:
    """Calls a function in threads. If a result allows another task to start, the same thread continues with it."""

    def __init__(self, handler: Handler, count: int, name: str, on_finished: OnFinished, on_failed: OnFailed) -> None:
        self._handler = handler
        self._on_finished = on_finished
        self._on_failed = on_failed
        self._tasks: queue.SimpleQueue[RecordTask | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-worker-{number}", daemon=True)
            for number in range(1, count + 1)
        ]
        self.put: Callable[[RecordTask], None] = self._tasks.put

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def abandon(self, task_ids: Iterable[int]) -> None:
        """Log that these handlers still run."""
        log.warning("%d handlers still run although their partitions were revoked.", len(list(task_ids)))

    def stop(self) -> None:
        """End the threads; a thread whose handler still runs ends after it."""
        started = [thread for thread in self._threads if thread.ident is not None]
        for _ in started:
            self._tasks.put(None)
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        for thread in started:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _work(self) -> None:
        handler, on_finished = self._handler, self._on_finished
        task: RecordTask | None = None
        while True:
            if task is None:
                task = self._tasks.get()
                if task is None:
                    return
            try:
                result = handler(task.record)
                if result is not None and inspect.isawaitable(result):
                    _reject_awaitable(result)
            except BaseException as error:
                task = self._on_failed(task, error)
            else:
                task = on_finished(task.task_id)


def _reject_awaitable(result: object) -> None:
    if inspect.iscoroutine(result):
        result.close()
    raise UnawaitedHandlerError(
        f"The handler returned a {type(result).__name__}, which nothing awaits, but it is not a coroutine function. "
        "Pass the `async def` function itself to run()."
    )


class EventLoopWorkers:
    """Runs a coroutine function in an event loop on its own thread."""

    def __init__(self, handler: AsyncHandler, name: str, on_finished: OnFinished, on_failed: OnFailed) -> None:
        self._handler = handler
        self._on_finished = on_finished
        self._on_failed = on_failed
        self._runner = asyncio.Runner()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-worker-loop", daemon=True)

    def start(self) -> None:
        """Start the thread and wait for its event loop."""
        self._thread.start()
        self._is_ready.wait()

    def put(self, task: RecordTask) -> None:
        """Start a task soon."""
        self._call_soon(self._start, task)

    def abandon(self, task_ids: Iterable[int]) -> None:
        """Cancel these coroutines."""
        self._call_soon(self._cancel, list(task_ids))

    def stop(self) -> None:
        """Cancel the coroutines that still run, and end the event loop."""
        if self._loop is None:
            return
        self._call_soon(self._stopped.set)
        self._thread.join(JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            log.warning("Some coroutines do not end although they were cancelled.")

    def _call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            log.debug("The event loop of the handlers has ended.")

    # --- on the thread of the loop ------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._runner:  # its end cancels what still runs
            self._loop = self._runner.get_loop()
            self._is_ready.set()
            self._runner.run(self._wait_for_stop())

    async def _wait_for_stop(self) -> None:
        await self._stopped.wait()

    def _start(self, task: RecordTask) -> None:
        assert self._loop is not None
        self._running[task.task_id] = self._loop.create_task(self._work(task))

    def _cancel(self, task_ids: Iterable[int]) -> None:
        running = [self._running[task_id] for task_id in task_ids if task_id in self._running]
        for task in running:
            task.cancel()
        log.warning("%d handlers were cancelled because their partitions were revoked.", len(running))

    async def _work(self, task: RecordTask) -> None:
        try:
            await self._handler(task.record)
        except BaseException as error:
            next_task = self._on_failed(task, error)
        else:
            next_task = self._on_finished(task.task_id)
        del self._running[task.task_id]
        if next_task is not None and not self._stopped.is_set():
            self._start(next_task)
