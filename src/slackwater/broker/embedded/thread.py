"""The broker in a thread of this process, with an event loop of its own.

Rules kept here
- Nothing of the broker is touched from another thread: every call goes to the loop as a job, and waits for its outcome.
- A paused broker is a loop that stands still, as in a long stop of a garbage collector: sockets fill up, timers are
  late, nobody is answered. Jobs are still done, so that a test can look in, and let it go on.
- The thread ends with the broker. A failure in it comes to light in whoever started or stopped it.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

import uvloop

from slackwater.broker.embedded.backend import MAX_READ_BYTES
from slackwater.broker.process import BrokerOptions, RunningBroker, start_broker
from slackwater.broker.server import Server
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import EVENTS_TOPIC
from slackwater.group.errors import BrokerError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.messages import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResponse,
    GroupToFetch,
    OffsetFetch,
    OffsetFetchResponse,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.fetched import iter_records

_T = TypeVar("_T")
EventListener = Callable[[GroupEvent], None]


class ThreadBackend:
    """A broker in a thread."""

    def __init__(self, plan: BrokerOptions) -> None:
        self._plan = plan
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()  # held to add a job, and to say that no more are taken
        self._over = False
        self._paused = False
        self._clean = True
        self._failure: BaseException | None = None
        ready: Future[RunningBroker] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="slackwater-broker", daemon=True)
        self._thread.start()
        try:
            self._running = ready.result()
        except BaseException:
            # Its own failure, or a Ctrl-C here while it starts: then the thread stops what it has started.
            if not ready.cancel() and ready.exception() is None:
                self._give(lambda: self._ended.set())
            self._thread.join()
            raise
        self.port = self._running.server.port
        self.metrics_port = self._running.page.port if self._running.page is not None else None

    def call(self, work: Callable[[Server], _T]) -> _T:
        """Do something on the broker's thread, and wait for it."""
        if threading.current_thread() is self._thread:
            return work(self._running.server)
        outcome: Future[_T] = Future()

        def job() -> None:
            try:
                outcome.set_result(work(self._running.server))
            except BaseException as error:
                outcome.set_exception(error)

        self._give(job)
        return outcome.result()

    def stop(self, *, clean: bool) -> None:
        """End it; `clean=False` is what a kill leaves behind."""

        def end() -> None:
            self._clean = clean
            if self._paused and not clean:
                # What came in during the pause must not be done now: a killed broker has never read it.
                self._running.server.abort_connections()
            self._paused = False
            self._ended.set()

        with contextlib.suppress(UsageError):  # it has ended by itself, and the failure says why
            self._give(end)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def pause(self) -> None:
        """Answer nobody until `resume`."""
        standing: Future[None] = Future()
        self._give(lambda: self._stand_still(standing))
        standing.result()

    def resume(self) -> None:
        """Go on."""

        def go_on(_server: Server) -> None:
            self._paused = False

        self.call(go_on)

    # --- what it can be asked -----------------------------------------------------------------------------------------

    def subscribe(self, hear: EventListener) -> Callable[[], None]:
        """Hear every group event from now on, on the broker's thread; the answer ends it."""
        return self.call(lambda server: server.broker.events.subscribe(hear))

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, or raise `BrokerError`."""
        self.call(lambda server: server.broker.topics.create(name, partitions, settings))

    def describe_group(self, group_id: str) -> DescribedGroup:
        """A group as the coordinator describes it."""
        heard: list[DescribeGroupsResponse] = []
        self.call(lambda server: server.broker.groups.submit(DescribeGroups((group_id,)), heard.append))
        return heard[0].groups[0]

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets a group has committed."""
        heard: list[OffsetFetchResponse] = []
        ask = OffsetFetch((GroupToFetch(group_id, None),))
        self.call(lambda server: server.broker.groups.submit(ask, heard.append))
        return {TopicPartition(one.topic, one.partition): one.offset for one in heard[0].groups[0].offsets}

    def events(self) -> list[GroupEvent]:
        """Everything that stands in `__group_events`."""
        return self.call(_events)

    # --- on the broker's thread ---------------------------------------------------------------------------------------

    def _run(self, ready: "Future[RunningBroker]") -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._live(ready))
        except BaseException as error:
            if ready.done():
                self._failure = error
            else:
                ready.set_exception(error)
        finally:
            with self._lock:
                self._over = True
            self._do_jobs()

    async def _live(self, ready: "Future[RunningBroker]") -> None:
        running = await start_broker(self._plan)
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        if ready.set_running_or_notify_cancel():
            ready.set_result(running)
            await self._ended.wait()
        await running.stop(clean=self._clean)

    def _give(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._over:
                raise UsageError("The broker has ended; start it again.")
            self._jobs.put(job)
            self._loop.call_soon_threadsafe(self._do_jobs)

    def _do_jobs(self) -> None:
        while not self._jobs.empty():
            self._jobs.get()()

    def _stand_still(self, standing: "Future[None]") -> None:
        was_paused, self._paused = self._paused, True
        standing.set_result(None)
        while self._paused and not was_paused:
            self._jobs.get()()


def _events(server: Server) -> list[GroupEvent]:
    server.broker.events.write()
    topic = server.broker.topics.get(EVENTS_TOPIC)
    if topic is None:
        return []
    log = topic.partitions[0].log
    found: list[GroupEvent] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = log.read(offset, MAX_READ_BYTES)
        if isinstance(batches, Rejection):
            raise BrokerError(batches.error, batches.message)
        for record in iter_records(batches, offset):
            found.append(GroupEvent.from_json((record.value or b"").decode()))
            offset = record.offset + 1
    return found
