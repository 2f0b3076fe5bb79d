"""Start and stop of a broker: the server, its metrics page, and their log lines.

Invariants:
- The command line and the embedded broker start in the same way and write the same log lines.
- A failed start leaves nothing behind: no socket, no thread, no lock on the directory. It logs nothing except
  truncated logs; the caller reports the error.
"""

import errno
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.config import Settings
from slackwater.broker.config.listeners import (
    DEFAULT_ADDRESS,
    DEFAULT_NAME,
    Endpoint,
    authenticates,
    configured_endpoints,
    plaintext_endpoint,
)
from slackwater.broker.server import Server
from slackwater.clock import Clock
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError
from slackwater.version import __version__

if TYPE_CHECKING:
    from slackwater.broker.metrics_page import MetricsPage

Address = tuple[str, int]
log = get_logger("slackwater.broker")


@dataclass(slots=True, kw_only=True)
class BrokerOptions:
    """The options of a broker; port 0 takes a free port, and `metrics=None` disables the metrics page.

    `listen` is the address of a broker without the setting `listeners`.
    """

    directory: Path
    settings: Settings
    listen: Address = DEFAULT_ADDRESS
    allow_anonymous: bool = False  # on addresses that other machines reach
    metrics: Address | None = None
    group_clock: Clock | None = None

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the listeners; raise `UsageError` if anonymous clients of other machines would reach one."""
        if self.settings.text("listeners"):
            endpoints = configured_endpoints(self.settings)
        else:
            endpoints = (plaintext_endpoint(self.settings, *self.listen),)
        for endpoint in endpoints:
            if not (self.allow_anonymous or is_loopback(endpoint.host) or authenticates(endpoint, self.settings)):
                raise UsageError(
                    f"{show_address(endpoint.host, endpoint.port)} is reachable from other machines, and the listener "
                    f"{endpoint.name} does not authenticate clients. Use SASL or client certificates, an address of "
                    "127.0.0.1, or --allow-anonymous."
                )
        return endpoints


@dataclass(slots=True)
class RunningBroker:
    """A broker that accepts connections."""

    server: Server
    page: "MetricsPage | None" = None

    async def stop(self, *, clean: bool = True) -> None:
        """Stop; `clean=False` leaves the state that a killed process leaves."""
        if self.page is not None:
            self.page.stop()
        await self.server.stop(clean=clean)
        log.info("Stopped." if clean else "Stopped without a clean shutdown.")


async def start_broker(options: BrokerOptions) -> RunningBroker:
    """Start a broker on the current event loop."""
    endpoints = options.endpoints()
    try:
        server = Server(options.directory, options.settings, group_clock=options.group_clock)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            raise UsageError(
                f"The logs in {options.directory} need more file descriptors than the limit of {limit} allows. "
                "Raise the limit (ulimit -n), and start the broker again."
            ) from error
        file = f" ({error.filename})" if error.filename else ""
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = (
            "Free some space, and start the broker again." if is_full else "Use another directory, or fix this one."
        )
        raise UsageError(
            f"The data directory {options.directory} cannot be opened: {error.strerror or error}{file}. {advice}"
        ) from error
    running = RunningBroker(server)
    try:
        await server.listen(endpoints)
        if options.metrics is not None:
            # prometheus_client is imported only if the metrics page is enabled.
            from slackwater.broker.metrics_page import MetricsPage

            running.page = MetricsPage(server)
            await running.page.start(*options.metrics)
    except BaseException:
        await server.stop()
        raise
    log.info("Slackwater %s, node %d, data in %s.", __version__, server.broker.node_id, options.directory)
    if options.settings.ignored:
        log.warning("Ignored Kafka settings that have no effect here: %s.", ", ".join(options.settings.ignored))
    _log_loaded_data(server.broker)
    _log_addresses(endpoints, options, running)
    return running


def _log_loaded_data(broker: BrokerState) -> None:
    partitions = sum(len(topic.partitions) for topic in broker.topics)
    if not partitions:
        log.info("The data directory holds no topics yet.")
        return
    shutdown = "clean" if broker.directory.clean_shutdown else "not clean; unflushed segments were checked"
    groups = len(broker.group_coordinator.coordinator.groups)
    log.info(
        "Loaded topics: %d, partitions: %d, groups: %d; the last shutdown was %s.",
        len(broker.topics),
        partitions,
        groups,
        shutdown,
    )


def _log_addresses(endpoints: Sequence[Endpoint], options: BrokerOptions, running: RunningBroker) -> None:
    ports = running.server.ports
    for endpoint in endpoints:
        address = show_address(endpoint.host, ports[endpoint.name])
        log.info("Listening on %s for clients%s.", address, _kind(endpoint))
        if is_loopback(endpoint.host):
            continue
        if not authenticates(endpoint, options.settings):
            log.warning(
                "%s is reachable from other machines without authentication: every client has full access.", address
            )
        elif not endpoint.protocol.has_tls:
            log.warning("%s is reachable from other machines without encryption.", address)
    if running.page is not None and options.metrics is not None:
        address = show_address(options.metrics[0], running.page.port)
        log.info("Listening on %s for metrics.", address)
        if not is_loopback(options.metrics[0]):
            log.warning("%s is reachable from other machines without authentication: it shows all metrics.", address)


def _kind(endpoint: Endpoint) -> str:
    is_default = endpoint.name == endpoint.protocol.value == DEFAULT_NAME
    return "" if is_default else f", listener {endpoint.name} with {endpoint.protocol.value}"


def show_address(host: str, port: int) -> str:
    """Format HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str, option: str) -> Address:
    """Parse HOST:PORT."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    fits = port.isascii() and port.isdigit() and int(port) <= 65_535
    if not bare or not fits or (":" in bare and bare == host):
        raise UsageError(f"{option} {text} is not an address. Use HOST:PORT, for example 127.0.0.1:9092.")
    return bare, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
