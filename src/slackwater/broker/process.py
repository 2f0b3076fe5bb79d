"""A broker from its start to its stop: the server, its metrics page, and what the log says of both.

Rules kept here
- The command line and the embedded broker start in the same way, and say the same in the log.
- A start that fails leaves nothing behind: no socket, no thread, no lock on the directory, and nothing in the log but
  the one sentence of whoever started it. (What a log lost is told as it is found, before anything else.)
"""

import logging
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.broker.broker import Broker
from slackwater.broker.config import Settings
from slackwater.broker.server import Server
from slackwater.clock import Clock
from slackwater.group.errors import UsageError
from slackwater.version import __version__

if TYPE_CHECKING:
    from slackwater.broker.metrics_page import MetricsPage

Address = tuple[str, int]
log = logging.getLogger("slackwater.broker")


@dataclass(slots=True, kw_only=True)
class BrokerOptions:
    """What a broker is to be; port 0 takes a free one, and no address for metrics means none."""

    directory: Path
    settings: Settings
    listen: Address
    advertised: Address | None = None
    metrics: Address | None = None
    group_clock: Clock | None = None


@dataclass(slots=True)
class RunningBroker:
    """A broker that listens."""

    server: Server
    page: "MetricsPage | None" = None

    async def stop(self, *, clean: bool = True) -> None:
        """Stop; `clean=False` is what a kill leaves behind."""
        if self.page is not None:
            self.page.stop()
        await self.server.stop(clean=clean)
        log.info("Stopped." if clean else "Ended without a clean stop.")


async def start_broker(plan: BrokerOptions) -> RunningBroker:
    """Start on the current event loop."""
    try:
        server = Server(plan.directory, plan.settings, group_clock=plan.group_clock, advertised=plan.advertised)
    except OSError as error:
        raise UsageError(
            f"The data directory {plan.directory} cannot be opened: {error.strerror or error} ({error.filename}). "
            "Use another one, or mend it."
        ) from error
    running = RunningBroker(server)
    try:
        await server.start(*plan.listen)
        if plan.metrics is not None:
            # prometheus_client is imported by those who want metrics, and by nobody else.
            from slackwater.broker.metrics_page import MetricsPage

            running.page = MetricsPage(server)
            await running.page.start(*plan.metrics)
    except BaseException:
        await server.stop()
        raise
    log.info("Slackwater %s is node %d, with its data in %s.", __version__, server.broker.node_id, plan.directory)
    if plan.settings.ignored:
        log.warning("Kafka settings that mean nothing here are ignored: %s.", ", ".join(plan.settings.ignored))
    _say_what_was_found(server.broker)
    _say_where(plan, running)
    return running


def _say_what_was_found(broker: Broker) -> None:
    partitions = sum(len(topic.partitions) for topic in broker.topics)
    if not partitions:
        log.info("The data directory holds no topics yet.")
        return
    stop = "clean" if broker.directory.clean_shutdown else "not clean, and what was not flushed has been checked"
    groups = len(broker.groups.coordinator.groups)
    log.info(
        "Loaded topics: %d, partitions: %d, groups: %d; the last stop was %s.",
        len(broker.topics),
        partitions,
        groups,
        stop,
    )


def _say_where(plan: BrokerOptions, running: RunningBroker) -> None:
    listening = [("clients", plan.listen[0], running.server.port)]
    if running.page is not None and plan.metrics is not None:
        listening.append(("metrics", plan.metrics[0], running.page.port))
    for what, host, port in listening:
        log.info("Listening on %s for %s.", show_address(host, port), what)
        if not is_loopback(host):
            log.warning(
                "%s can be reached from other machines, and there is no authentication: "
                "whoever reaches it can do everything.",
                show_address(host, port),
            )


def show_address(host: str, port: int) -> str:
    """HOST:PORT, in brackets where the host is an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str, option: str) -> Address:
    """What `show_address` shows."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    fits = port.isascii() and port.isdigit() and int(port) <= 65_535
    if not bare or not fits or (":" in bare and bare == host):
        raise UsageError(f"{option} {text} is no address; write HOST:PORT, for example 127.0.0.1:9092.")
    return bare, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
