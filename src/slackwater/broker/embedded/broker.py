"""`EmbeddedBroker`: a broker that runs inside a `with` block.

Invariants:
- `start` returns when clients can connect, and raises a `UsageError` if the broker cannot start.
- `stop` leaves no thread, process, socket or temporary directory. It may be called twice, and runs at interpreter exit.
- `kill` and `restart` keep the directory and the port, so that clients find the broker again.
- A forked child process neither owns nor stops the broker.
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
from slackwater.broker.embedded.security import BrokerSecurity, parse_protocol
from slackwater.broker.embedded.thread import EventListener, ThreadBackend
from slackwater.broker.startup import Address, BrokerOptions, parse_address, show_address
from slackwater.group.errors import UsageError
from slackwater.group.events import GroupEvent
from slackwater.group.topic_partition import TopicPartition
from slackwater.security.protocols import SecurityProtocol

POLL_S: Final = 0.005


class EmbeddedBroker:
    """A broker in a thread of this process, or with `process=True` in a separate process.

    `data` is the data directory, by default a temporary one. `settings` are broker settings under Kafka's names.
    `metrics` is the HOST:PORT of a page for Prometheus, or True for a free port. `security` is SSL, SASL_SSL or
    SASL_PLAINTEXT: the broker makes the certificates, and `client_config` the users.
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
        security: str = "PLAINTEXT",
        allow_anonymous: bool = False,
    ) -> None:
        self._process = process
        self._data = Path(data) if data is not None else None
        self._host = host
        self._configured_port = port
        self._settings = {name: format_value(value) for name, value in (settings or {}).items()}
        self._metrics = _metrics_address(metrics)
        self._protocol = parse_protocol(security)
        self._security: BrokerSecurity | None = None
        self._allow_anonymous = allow_anonymous
        self._pid = os.getpid()
        self._backend: BrokerBackend | None = None
        self._temporary: Path | None = None  # the temporary directory, if any
        self._port = port
        self._listeners: dict[int, EventListener] = {}
        self._unsubscribers: dict[int, Callable[[], None]] = {}
        self._subscriptions = 0

    def __repr__(self) -> str:
        return f"<Broker at {self.bootstrap_servers}>" if self._backend is not None else "<Broker, not running>"

    # --- start and stop -----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the broker; after `kill`, with the same directory and port.

        >>> broker = Broker().start()
        >>> broker.stop()
        """
        if self._backend is not None:
            raise UsageError("The broker is already running.")
        is_new = self._temporary is None
        try:
            self._backend = self._start_backend()
        except BaseException:
            if is_new:
                self._remove_temporary()
            raise
        self._port = self._backend.port
        atexit.unregister(self.stop)  # a restart registers it again
        atexit.register(self.stop)
        for subscription in self._listeners:
            self._subscribe(subscription)
        return self

    def stop(self, *, keep_data: bool = False) -> None:
        """Stop the broker cleanly and remove a temporary directory.

        With `keep_data`, the directory and the port are kept for the next `start`.

        >>> broker.stop()
        """
        if self._pid != os.getpid():
            return
        if keep_data:
            self._stop_backend(clean=True)
            return
        try:
            self._stop_backend(clean=True)
        finally:
            self._remove_temporary()
            atexit.unregister(self.stop)

    def kill(self) -> None:
        """Stop the broker like `kill -9`. The directory and the port are kept for the next `start`.

        >>> broker.kill()
        >>> broker = broker.start()
        """
        self._stop_backend(clean=False)

    def restart(self, *, clean: bool = True) -> None:
        """Stop or kill the broker, and start it with the same directory and port.

        >>> broker.restart(clean=False)
        """
        self._running_backend()
        self._stop_backend(clean=clean)
        self.start()

    def pause(self) -> None:
        """Stop responding until `resume`, like a broker in a long garbage collection pause.

        >>> broker.pause()
        >>> broker.resume()
        """
        self._running_backend().pause()

    def resume(self) -> None:
        """Continue after `pause`.

        >>> broker.pause()
        >>> broker.resume()
        """
        self._running_backend().resume()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- addresses ----------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers` for clients.

        >>> consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers})
        >>> consumer.close()
        """
        return show_address(_reachable(self._host), self._running_backend().port)

    def client_config(
        self, user: str = "user", *, mechanism: str = "SCRAM-SHA-512", java: bool = False
    ) -> dict[str, str]:
        """Return the settings of a client of this broker: its address, and what it needs to authenticate as `user`.

        A new user gets a password or a certificate. The names are those of librdkafka, which Slackwater's clients
        take too, or with `java=True` those of the Java client.

        >>> with Broker(security="SASL_PLAINTEXT") as broker:
        ...     broker.client_config("alice")["security.protocol"]
        'SASL_PLAINTEXT'
        """
        config = {"bootstrap.servers": self.bootstrap_servers}
        if self._security is None:
            return config
        set_scram_password = self._running_backend().set_scram_password
        return config | self._security.client_config(user, mechanism, java=java, set_scram_password=set_scram_password)

    @property
    def port(self) -> int:
        """The port of the broker.

        >>> broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        True
        """
        return self._running_backend().port

    @property
    def pid(self) -> int:
        """The id of the process that runs the broker.

        >>> broker.pid == os.getpid()  # not with process=True
        True
        """
        return self._running_backend().pid

    @property
    def metrics_url(self) -> str:
        """The URL of the page for Prometheus.

        >>> with Broker(metrics=True) as broker:
        ...     print(broker.metrics_url.rpartition("/")[2])
        metrics
        """
        port = self._running_backend().metrics_port
        if port is None or self._metrics is None:
            raise UsageError("This broker has no metrics page; use Broker(metrics=True).")
        return f"http://{show_address(_reachable(self._metrics[0]), port)}/metrics"

    @property
    def data(self) -> Path:
        """The data directory.

        >>> (broker.data / "orders-0").is_dir()
        True
        """
        self._running_backend()
        return self._directory()

    # --- topics, groups and events ------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **settings: Value) -> None:
        """Create a topic; in the names of its settings, write underscores for dots.

        >>> broker.create_topic("payments", partitions=3, retention_ms=60_000)
        """
        renamed = {key.replace("_", "."): format_value(value) for key, value in settings.items()}
        self._running_backend().create_topic(name, partitions, renamed)

    def describe_group(self, group_id: str) -> GroupSnapshot:
        """Return the state and members of a group; the state of an unknown group is Dead.

        >>> broker.describe_group("unknown").state
        'Dead'
        """
        return GroupSnapshot.of(group_id, self._running_backend().describe_group(group_id))

    def wait_for_group(
        self, group_id: str, *, state: str = "Stable", members: int | None = None, timeout_s: float = 30.0
    ) -> GroupSnapshot:
        """Wait until a group has this state and number of members; raise `TimeoutError` with the last state seen.

        >>> len(broker.wait_for_group(group, members=1).members)
        1
        """
        deadline = time.monotonic() + timeout_s
        while True:
            group = self.describe_group(group_id)
            if group.state == state and members in (None, len(group.members)):
                return group
            if time.monotonic() > deadline:
                expected = state if members is None else f"{state} with {members} members"
                raise TimeoutError(
                    f"Group {group_id} was not {expected} within {timeout_s} s; "
                    f"it is {group.state} with {len(group.members)} members."
                )
            time.sleep(POLL_S)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group, by partition.

        >>> consumer.commit({TopicPartition("orders", 0): 1})
        >>> broker.committed(group)
        {TopicPartition(topic='orders', partition=0): 1}
        """
        return self._running_backend().committed(group_id)

    def events(self, group_id: str | None = None) -> list[GroupEvent]:
        """Return the group events in `__group_events`, of one group or of all.

        >>> broker.events(group)[-1].state_after.value
        'Stable'
        """
        return [event for event in self._running_backend().events() if group_id in (None, event.group)]

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Call a listener with every new group event, on the broker's thread, also after a restart.

        Returns a function that unsubscribes it. Not available with `process=True`: read `events()`, or consume
        `__group_events`.

        >>> kinds = []
        >>> unsubscribe = broker.subscribe(lambda event: kinds.append(event.kind))
        >>> unsubscribe()
        """
        if self._process:
            raise UsageError(
                "A broker in a separate process cannot call a listener; read events(), or consume __group_events."
            )
        self._subscriptions += 1
        subscription = self._subscriptions
        self._listeners[subscription] = listener
        if self._backend is not None:
            self._subscribe(subscription)

        def unsubscribe() -> None:
            self._listeners.pop(subscription, None)
            stop = self._unsubscribers.pop(subscription, None)
            if stop is not None and isinstance(self._backend, ThreadBackend):
                self._backend.call(lambda _server: stop())

        return unsubscribe

    # --- internal -----------------------------------------------------------------------------------------------------

    def _start_backend(self) -> BrokerBackend:
        listen = (self._host, self._port)
        if not self._process:
            return ThreadBackend(self._options(listen))
        return ProcessBackend(
            self._directory(),
            self._all_settings(listen),
            listen,
            self._metrics,
            self._temporary_directory() / "broker.log",
            security=self._security,
            allow_anonymous=self._allow_anonymous,
        )

    def _options(self, listen: Address) -> BrokerOptions:
        return BrokerOptions(
            directory=self._directory(),
            settings=Settings(self._all_settings(listen)),
            listen=listen,
            metrics=self._metrics,
            allow_anonymous=self._allow_anonymous,
        )

    def _all_settings(self, listen: Address) -> dict[str, str]:
        """Return the settings with those of the security, which is made at the first start."""
        if self._protocol is SecurityProtocol.PLAINTEXT:
            return self._settings
        if self._security is None:
            self._security = BrokerSecurity(self._protocol, self._temporary_directory())
        self._security.prepare()
        return self._security.settings(listen) | self._settings

    def _directory(self) -> Path:
        if self._data is not None:
            return self._data
        return self._temporary_directory() / "data"

    def _temporary_directory(self) -> Path:
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="slackwater-"))
        return self._temporary

    def _running_backend(self) -> BrokerBackend:
        if self._backend is None:
            raise UsageError("The broker is not running; call start(), or use a with block.")
        return self._backend

    def _subscribe(self, subscription: int) -> None:
        assert isinstance(self._backend, ThreadBackend)
        self._unsubscribers[subscription] = self._backend.subscribe(self._listeners[subscription])

    def _stop_backend(self, *, clean: bool) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            self._unsubscribers.clear()
            backend.stop(clean=clean)

    def _remove_temporary(self) -> None:
        self._port = self._configured_port
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
            self._security = None


def _metrics_address(metrics: str | bool) -> Address | None:
    if isinstance(metrics, bool):
        return ("127.0.0.1", 0) if metrics else None
    return parse_address(metrics, "metrics")


def _reachable(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
