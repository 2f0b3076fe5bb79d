"""`/metrics`: the broker's counters for Prometheus over HTTP.

Invariants:
- The page runs on the broker's event loop, so all values of one page are from the same moment.
- One request per connection, with limits on size, time and number. A new connection beyond the limit closes the oldest
  one, so idle connections do not block a scrape. Only GET and HEAD of /metrics are supported.
- Names start with `slackwater_` and end with their unit. Counters exist from the start, with value 0.
- Control characters in labels are escaped.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final, cast

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from slackwater.broker.groups.group_metrics import GroupFigures
from slackwater.broker.metrics import TIME_BOUNDS, Metrics
from slackwater.broker.server import Server, listen_error
from slackwater.escaping import escape, get_logger
from slackwater.group.events import EventKind, GroupState, Trigger
from slackwater.version import __version__
from slackwater.wire.apis import APIS, HEARTBEAT, OFFSET_COMMIT

PATH: Final = "/metrics"
MAX_HEAD_BYTES: Final = 16_384
MAX_CONNECTIONS: Final = 32
REQUEST_TIMEOUT_S: Final = 10.0

log = get_logger("slackwater.broker.metrics")

# The timer that ended a membership, by event.
_EXPIRED: Final = {
    EventKind.MEMBER_EXPIRED: "session",
    EventKind.MEMBER_DROPPED: "rebalance",
    EventKind.MEMBER_UNSYNCED: "sync",
    EventKind.PENDING_MEMBER_EXPIRED: "pending",
}

_GROUP_GAUGES: Final = {
    "members": "Members of a group.",
    "idle_members": "Members of a stable group without partitions.",
    "last_rebalance_seconds": "How long the last rebalance of a group took.",
    "longest_rebalance_seconds": "The longest rebalance of the last ten minutes, including one in progress.",
    "since_last_rebalance_seconds": "Time since the last rebalance of a group ended.",
    "lag": "Records after the committed offsets of the group's partitions.",
    "committed_offsets": "The sum of the committed offsets; constant while the group makes no progress.",
}


class BrokerCollector(Collector):
    """Collects the current values of a broker."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family in the order of the page."""
        broker = self._server.broker
        info = {"version": __version__, "node_id": str(broker.node_id), "cluster_id": broker.cluster_id}
        yield InfoMetricFamily("slackwater_broker", "This broker.", info)
        yield from self._groups()
        yield from self._rebalances(broker.metrics)
        yield from self._requests(broker.metrics)
        yield from self._network(broker.metrics)
        yield from self._logs()
        yield from self._process.collect()

    def _groups(self) -> Iterator[Metric]:
        groups = self._server.broker.group_coordinator.coordinator.groups.values()
        states = Counter(group.state for group in groups)
        by_state = GaugeMetricFamily("slackwater_groups", "Groups, by state.", labels=["state"])
        for state in GroupState:
            by_state.add_metric([state.value], states[state])
        yield by_state
        broker = self._server.broker
        yield from group_families(broker.group_metrics.read(broker.settings.number("group.metrics.max.groups")))

    def _rebalances(self, metrics: Metrics) -> Iterator[Metric]:
        started = CounterMetricFamily("slackwater_rebalances", "Started rebalances, by trigger.", labels=["trigger"])
        for trigger in Trigger:
            started.add_metric(
                [trigger.value], metrics.events.get((EventKind.REBALANCE_STARTED.value, trigger.value), 0)
            )
        yield started
        kinds: Counter[str] = Counter()
        for (kind, _), count in metrics.events.items():
            kinds[kind] += count
        yield SummaryMetricFamily(
            "slackwater_rebalance_seconds",
            "Completed rebalances, and their durations from the trigger.",
            count_value=kinds[EventKind.REBALANCE_COMPLETED],
            sum_value=metrics.rebalance_seconds,
        )
        failed = kinds[EventKind.REBALANCE_FAILED]
        yield CounterMetricFamily("slackwater_rebalances_failed", "Failed rebalances.", failed)
        expired = CounterMetricFamily(
            "slackwater_members_expired", "Members removed because a timer expired, by timer.", labels=["timer"]
        )
        for kind, timer in _EXPIRED.items():
            expired.add_metric([timer], kinds[kind])
        yield expired
        events = CounterMetricFamily("slackwater_group_events", "Group events, by kind.", labels=["kind"])
        for name, count in sorted(kinds.items()):
            events.add_metric([name], count)
        yield events

    def _requests(self, metrics: Metrics) -> Iterator[Metric]:
        for name, text, api in (
            ("slackwater_heartbeats", "Heartbeat responses.", HEARTBEAT),
            ("slackwater_offset_commits", "Offset commit responses.", OFFSET_COMMIT),
        ):
            tally = metrics.requests.get(api.key)
            yield CounterMetricFamily(name, text, tally.count if tally is not None else 0)
        times = HistogramMetricFamily(
            "slackwater_request_seconds",
            "Time from the last byte of a request to its response, by API, including waiting for records or members.",
            labels=["api"],
        )
        bounds = [*map(str, TIME_BOUNDS), "+Inf"]
        for key, tally in sorted(metrics.requests.items()):
            buckets = list(zip(bounds, map(float, accumulate(tally.buckets)), strict=True))
            times.add_metric([APIS[key].name], buckets, tally.seconds)
        yield times

    def _network(self, metrics: Metrics) -> Iterator[Metric]:
        open_now = self._server.connections
        yield GaugeMetricFamily("slackwater_connections", "Open connections.", open_now)
        for name, text, value in (
            ("slackwater_connections_opened", "Opened connections.", metrics.connections),
            (
                "slackwater_connections_refused",
                "Rejected connections (max.connections).",
                metrics.connections_refused,
            ),
            ("slackwater_malformed_frames", "Connections closed because of a malformed frame.", metrics.malformed),
            (
                "slackwater_failed_authentications",
                "Connections closed because their authentication failed.",
                metrics.failed_authentications,
            ),
        ):
            yield CounterMetricFamily(name, text, value)

    def _logs(self) -> Iterator[Metric]:
        size = GaugeMetricFamily("slackwater_topic_log_bytes", "Bytes of a topic's logs on disk.", labels=["topic"])
        partitions = GaugeMetricFamily("slackwater_topic_partitions", "Partitions of a topic.", labels=["topic"])
        for topic in self._server.broker.topics:
            size.add_metric([topic.name], sum(partition.log.size for partition in topic.partitions))
            partitions.add_metric([topic.name], len(topic.partitions))
        yield from (size, partitions)


def group_families(groups: Iterable[GroupFigures]) -> Iterator[Metric]:
    """Yield the metrics of each group."""
    state = GaugeMetricFamily("slackwater_group_state", "1 for the state of a group.", labels=["group", "state"])
    rebalances = CounterMetricFamily(
        "slackwater_group_rebalances",
        "Rebalances of a group: its start, changes, and follow-ups of cooperative rebalances.",
        labels=["group", "kind"],
    )
    triggers = CounterMetricFamily(
        "slackwater_group_rebalance_triggers",
        "Rebalances of a group that started, by trigger.",
        labels=["group", "trigger"],
    )
    failed = CounterMetricFamily(
        "slackwater_group_rebalances_failed",
        "Failed rebalances of a group, and members that it rejected.",
        labels=["group"],
    )
    gauges = {
        name: GaugeMetricFamily(f"slackwater_group_{name}", text, labels=["group"])
        for name, text in _GROUP_GAUGES.items()
    }
    for figures in groups:
        group = escape(figures.name)
        if figures.state is not None:
            state.add_metric([group, figures.state.value], 1)
        for kind, count in figures.rebalances.items():
            rebalances.add_metric([group, kind.value], count)
        for trigger, count in figures.triggers.items():
            triggers.add_metric([group, trigger.value], count)
        failed.add_metric([group], figures.failed_rebalances)
        for name, value in (
            ("members", figures.members),
            ("idle_members", figures.idle_members),
            ("last_rebalance_seconds", figures.last_rebalance_s),
            ("longest_rebalance_seconds", figures.longest_rebalance_s),
            ("since_last_rebalance_seconds", figures.since_last_rebalance_s),
            ("lag", figures.lag),
            ("committed_offsets", figures.committed),
        ):
            if value is not None:
                gauges[name].add_metric([group], value)
    yield from (state, rebalances, triggers, failed, *gauges.values())


class MetricsPage:
    """The HTTP server of the metrics page."""

    def __init__(self, server: Server) -> None:
        self._collector = BrokerCollector(server)
        self._server: asyncio.Server | None = None
        self._connections: dict[_PageConnection, None] = {}  # the oldest first

    @property
    def port(self) -> int:
        """The port of the listening socket."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _PageConnection(self._connections, self._page), host, port)
        except OSError as error:
            raise listen_error(host, port, error) from error

    def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()

    def _page(self) -> bytes:
        return generate_latest(self._collector)


class _PageConnection(asyncio.Protocol):
    """One HTTP connection with one request."""

    def __init__(self, connections: "dict[_PageConnection, None]", page: Callable[[], bytes]) -> None:
        self._connections = connections
        self._page = page
        self._head = b""
        self._has_responded = False
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections[self] = None
        if len(self._connections) > MAX_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.abort()
        self._deadline = asyncio.get_running_loop().call_later(REQUEST_TIMEOUT_S, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.pop(self, None)
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        if self._has_responded:
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end >= 0:
            self._respond(self._head[:end])
        elif len(self._head) > MAX_HEAD_BYTES:
            self._send("431 Request Header Fields Too Large", b"The request is too large.\n")

    def abort(self) -> None:
        """Close the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def _respond(self, head: bytes) -> None:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            self._send("400 Bad Request", b"This is not an HTTP/1 request.\n")
            return
        method, path = words[0], words[1].partition(b"?")[0]
        if path != PATH.encode():
            self._send("404 Not Found", f"Not found. The metrics are at {PATH}.\n".encode())
        elif method not in (b"GET", b"HEAD"):
            self._send("405 Method Not Allowed", b"Use GET.\n", "Allow: GET, HEAD\r\n")
        else:
            try:
                body = self._page()
            except Exception:
                log.exception("Rendering the metrics failed.")
                self._send("500 Internal Server Error", b"Rendering the metrics failed; see the log.\n")
                return
            self._send("200 OK", body, kind=CONTENT_TYPE_LATEST, with_body=method == b"GET")

    def _send(
        self,
        status: str,
        body: bytes,
        headers: str = "",
        *,
        kind: str = "text/plain; charset=utf-8",
        with_body: bool = True,
    ) -> None:
        self._has_responded = True
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"{headers}Connection: close\r\n\r\n"
        )
        if self._transport is not None:
            self._transport.write(head.encode() + (body if with_body else b""))
            self._transport.close()
