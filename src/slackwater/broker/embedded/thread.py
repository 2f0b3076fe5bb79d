"""A broker in a thread of this process, with its own event loop.

Invariants:
- Other threads do not access the broker: every call runs as a job on the loop and waits for the result.
- A paused broker is a blocked loop, as in a long garbage collection pause: sockets fill up, timers are late, no request
  gets a response. Jobs still run, so that a test can inspect the broker and resume it.
- The thread ends with the broker. Its exceptions are raised in `__init__` or `stop`.
"""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

import uvloop

from slackwater.broker.embedded.backend import MAX_READ_BYTES
from slackwater.broker.server import Server
from slackwater.broker.startup import BrokerOptions, RunningBroker, start_broker
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import BrokerError, UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.internal_topics import EVENTS_TOPIC
from slackwater.group.messages import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResponse,
    GroupToFetch,
    OffsetFetch,
    OffsetFetchResponse,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.security.scram import ScramAlgorithm, make_credential
from slackwater.wire.records.batch import end_offset
from slackwater.wire.records.fetched import iter_records

_T = TypeVar("_T")
EventListener = Callable[[GroupEvent], None]


class ThreadBackend:
    """A broker in a thread of this process."""

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()  # held to add a job and to set `_is_ended`
        self._is_ended = False
        self._is_paused = False
        self._clean = True
        self._failure: BaseException | None = None
        ready: Future[RunningBroker] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="slackwater-broker", daemon=True)
        self._thread.start()
        try:
            self._running = ready.result()
        except BaseException:
            # The start failed, or Ctrl-C arrived during the start: the thread stops the broker.
            if not ready.cancel() and ready.exception() is None:
                self._add_job(lambda: self._stop_requested.set())
            self._thread.join()
            raise
        self.port = self._running.server.port
        self.metrics_port = self._running.page.port if self._running.page is not None else None

    @property
    def pid(self) -> int:
        """The id of this process."""
        return os.getpid()

    def call(self, function: Callable[[Server], _T]) -> _T:
        """Run a function on the broker's thread and return its result."""
        if threading.current_thread() is self._thread:
            return function(self._running.server)
        outcome: Future[_T] = Future()

        def job() -> None:
            try:
                outcome.set_result(function(self._running.server))
            except BaseException as error:
                outcome.set_exception(error)

        self._add_job(job)
        return outcome.result()

    def stop(self, *, clean: bool) -> None:
        """Stop the broker; `clean=False` kills it."""

        def request_stop() -> None:
            self._clean = clean
            if self._is_paused and not clean:
                # Requests that arrived during the pause must not run: a killed broker has not read them.
                self._running.server.abort_connections()
            self._is_paused = False
            self._stop_requested.set()

        with contextlib.suppress(UsageError):  # the broker has stopped by itself; `_failure` has the reason
            self._add_job(request_stop)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def pause(self) -> None:
        """Stop responding until `resume`."""
        blocked: Future[None] = Future()
        self._add_job(lambda: self._block(blocked))
        blocked.result()

    def resume(self) -> None:
        """Continue after `pause`."""

        def unblock(_server: Server) -> None:
            self._is_paused = False

        self.call(unblock)

    # --- topics, groups and events ---------------------------------------------------------------------------------

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Call a listener with every new group event. Returns a function that unsubscribes it."""
        return self.call(lambda server: server.broker.events.subscribe(listener))

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic, or raise `BrokerError`."""
        self.call(lambda server: server.broker.topics.create(name, partitions, settings))

    def set_scram_password(self, user: str, password: str, mechanism: str) -> None:
        """Create or replace a SCRAM credential."""
        kind = ScramAlgorithm(mechanism)
        credential = make_credential(kind, password)
        self.call(lambda server: server.broker.credentials.change({(user, kind): credential}))

    def describe_group(self, group_id: str) -> DescribedGroup:
        """Return the coordinator's description of a group."""
        responses: list[DescribeGroupsResponse] = []
        self.call(lambda server: server.broker.group_coordinator.submit(DescribeGroups((group_id,)), responses.append))
        return responses[0].groups[0]

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        responses: list[OffsetFetchResponse] = []
        request = OffsetFetch((GroupToFetch(group_id, None),))
        self.call(lambda server: server.broker.group_coordinator.submit(request, responses.append))
        return {
            TopicPartition(offset.topic, offset.partition): offset.offset for offset in responses[0].groups[0].offsets
        }

    def events(self) -> list[GroupEvent]:
        """Read all events of `__group_events`."""
        return self.call(_events)

    # --- on the broker's thread ---------------------------------------------------------------------------------------

    def _run(self, ready: "Future[RunningBroker]") -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                self._failure = error
            else:
                ready.set_exception(error)
        finally:
            with self._lock:
                self._is_ended = True
            self._run_jobs()

    async def _serve(self, ready: "Future[RunningBroker]") -> None:
        running = await start_broker(self._options)
        self._loop = asyncio.get_running_loop()
        self._stop_requested = asyncio.Event()
        if ready.set_running_or_notify_cancel():
            ready.set_result(running)
            await self._stop_requested.wait()
        await running.stop(clean=self._clean)

    def _add_job(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._is_ended:
                raise UsageError("The broker has stopped; start it again.")
            self._jobs.put(job)
            self._loop.call_soon_threadsafe(self._run_jobs)

    def _run_jobs(self) -> None:
        while not self._jobs.empty():
            self._jobs.get()()

    def _block(self, blocked: "Future[None]") -> None:
        was_paused, self._is_paused = self._is_paused, True
        blocked.set_result(None)
        while self._is_paused and not was_paused:
            self._jobs.get()()


def _events(server: Server) -> list[GroupEvent]:
    server.broker.events.write()
    topic = server.broker.topics.get(EVENTS_TOPIC)
    if topic is None:
        return []
    log = topic.partitions[0].log
    events: list[GroupEvent] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = log.read(offset, MAX_READ_BYTES)
        if isinstance(batches, Rejection):
            raise BrokerError(batches.error, batches.message)
        events += (GroupEvent.from_json((record.value or b"").decode()) for record in iter_records(batches, offset))
        offset = end_offset(batches) or log.log_end_offset  # of the batches: compaction may have removed records
    return events
