"""`EmbeddedBroker`: a broker of your own, for as long as a `with` block lasts.

Rules kept here
- `start` returns when clients can connect, and raises what was wrong as a `UsageError`.
- `stop` leaves nothing behind: no thread, no process, no socket, no directory that was made here. It may be called
  twice, and is called when the program ends without it.
- `kill` and `restart` keep the directory and the port, so that clients find the same broker again.
- A child that was forked from this process owns none of it, and ends none of it.
"""

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from slackwater.broker.config import Settings, Value, format_value
from slackwater.broker.embedded.backend import BrokerBackend
from slackwater.broker.embedded.description import GroupSnapshot
from slackwater.broker.embedded.process import ProcessBackend
from slackwater.broker.embedded.thread import EventListener, ThreadBackend
from slackwater.broker.process import Address, BrokerOptions, parse_address, show_address
from slackwater.group.errors import UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.topic_partition import TopicPartition

POLL_S: Final = 0.005


class EmbeddedBroker:
    """A broker in a thread of this process, or with `process=True` in one of its own.

    `data` is its directory, a temporary one by default. `settings` are Kafka's, under Kafka's names. `metrics` is
    the address of a page for Prometheus, HOST:PORT, or True for a free port.
    """

    def __init__(
        self,
        *,
        process: bool = False,
        data: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Mapping[str, Value] | None = None,
        metrics: str | bool = False,
    ) -> None:
        self._process = process
        self._data = Path(data) if data is not None else None
        self._host = host
        self._wanted_port = port
        self._settings = {name: format_value(value) for name, value in (settings or {}).items()}
        self._metrics = _metrics_address(metrics)
        self._pid = os.getpid()
        self._seat: BrokerBackend | None = None
        self._home: Path | None = None  # a temporary directory, if we made one
        self._port = port
        self._hearers: dict[int, EventListener] = {}
        self._unsubscribe: dict[int, Callable[[], None]] = {}
        self._subscriptions = 0

    # --- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start; after a `kill`, on the same directory and the same port."""
        if self._seat is not None:
            raise UsageError("The broker is running already.")
        is_new = self._home is None
        try:
            self._seat = self._take_seat()
        except BaseException:
            if is_new:
                self._clear()
            raise
        self._port = self._seat.port
        atexit.unregister(self.stop)  # a restart registers it once more
        atexit.register(self.stop)
        for number in self._hearers:
            self._listen(number)
        return self

    def stop(self) -> None:
        """Stop cleanly, and remove the directory if it was a temporary one."""
        if self._pid != os.getpid():
            return
        try:
            self._end(clean=True)
        finally:
            self._clear()
            atexit.unregister(self.stop)

    def kill(self) -> None:
        """End it as `kill -9` does. Its directory and its port are kept for another `start`."""
        self._end(clean=False)

    def restart(self, *, clean: bool = True) -> None:
        """Stop or kill it, and start it again on the same directory and the same port."""
        self._running()
        self._end(clean=clean)
        self.start()

    def pause(self) -> None:
        """Answer nobody, as a broker that stands still in a long collection of garbage, until `resume`."""
        self._running().pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._running().resume()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- where it is --------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """What a client takes as `bootstrap.servers`."""
        return show_address(_reachable(self._host), self._running().port)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._running().port

    @property
    def metrics_url(self) -> str:
        """Where Prometheus finds the metrics."""
        port = self._running().metrics_port
        if port is None or self._metrics is None:
            raise UsageError("This broker shows no metrics; use Broker(metrics=True).")
        return f"http://{show_address(_reachable(self._metrics[0]), port)}/metrics"

    @property
    def data(self) -> Path:
        """Its directory."""
        self._running()
        return self._directory()

    # --- what it knows and does ---------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **settings: Value) -> None:
        """Make a topic; in its settings' names an underscore may stand for a dot."""
        named = {key.replace("_", "."): format_value(value) for key, value in settings.items()}
        self._running().create_topic(name, partitions, named)

    def describe_group(self, group_id: str) -> GroupSnapshot:
        """A group's state and members; one that is not there is Dead."""
        return GroupSnapshot.of(group_id, self._running().describe_group(group_id))

    def wait_for_group(
        self, group_id: str, *, state: str = "Stable", members: int | None = None, timeout_s: float = 30.0
    ) -> GroupSnapshot:
        """Wait until a group is in a state, and has this many members; a `TimeoutError` says what was seen instead."""
        deadline = time.monotonic() + timeout_s
        while True:
            seen = self.describe_group(group_id)
            if seen.state == state and members in (None, len(seen.members)):
                return seen
            if time.monotonic() > deadline:
                wanted = state if members is None else f"{state} with {members} members"
                raise TimeoutError(
                    f"Group {group_id} was not {wanted} within {timeout_s} s; "
                    f"it is {seen.state} with {len(seen.members)} members."
                )
            time.sleep(POLL_S)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed, by partition."""
        return self._running().committed(group_id)

    def events(self, group_id: str | None = None) -> list[GroupEvent]:
        """The group events so far, of one group or of all, as they stand in `__group_events`."""
        return [event for event in self._running().events() if group_id in (None, event.group)]

    def subscribe(self, hear: EventListener) -> Callable[[], None]:
        """Hear every group event from now on, on the broker's thread, also after a restart; the answer ends it.

        A broker in a process of its own cannot call back: read `events()`, or consume `__group_events`.
        """
        if self._process:
            raise UsageError("A broker in its own process cannot call back; read events(), or consume __group_events.")
        self._subscriptions += 1
        number = self._subscriptions
        self._hearers[number] = hear
        if self._seat is not None:
            self._listen(number)

        def end() -> None:
            self._hearers.pop(number, None)
            unsubscribe = self._unsubscribe.pop(number, None)
            if unsubscribe is not None and isinstance(self._seat, ThreadBackend):
                self._seat.call(lambda _server: unsubscribe())

        return end

    # --- inside -------------------------------------------------------------------------------------------------------

    def _take_seat(self) -> BrokerBackend:
        listen = (self._host, self._port)
        if not self._process:
            return ThreadBackend(self._plan(listen))
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix="slackwater-"))
        return ProcessBackend(self._directory(), self._settings, listen, self._metrics, self._home / "broker.log")

    def _plan(self, listen: Address) -> BrokerOptions:
        settings = Settings(self._settings)
        return BrokerOptions(directory=self._directory(), settings=settings, listen=listen, metrics=self._metrics)

    def _directory(self) -> Path:
        if self._data is not None:
            return self._data
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix="slackwater-"))
        return self._home / "data"

    def _running(self) -> BrokerBackend:
        if self._seat is None:
            raise UsageError("The broker is not running; call start(), or use it in a with block.")
        return self._seat

    def _listen(self, number: int) -> None:
        assert isinstance(self._seat, ThreadBackend)
        self._unsubscribe[number] = self._seat.subscribe(self._hearers[number])

    def _end(self, *, clean: bool) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            self._unsubscribe.clear()
            seat.stop(clean=clean)

    def _clear(self) -> None:
        self._port = self._wanted_port
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None


def _metrics_address(wanted: str | bool) -> Address | None:
    if isinstance(wanted, bool):
        return ("127.0.0.1", 0) if wanted else None
    return parse_address(wanted, "metrics")


def _reachable(host: str) -> str:
    """The address at which this machine reaches what listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
