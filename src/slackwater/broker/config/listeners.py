"""`listeners`, `advertised.listeners` and `listener.security.protocol.map`: where clients connect, and how.

Invariants:
- Names are compared in upper case. Listeners of the controller are not opened: there is no quorum.
- Without `listeners` there is one listener, PLAINTEXT, on the address of the command line.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slackwater.group.errors import UsageError
from slackwater.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from slackwater.broker.config.store import Settings

DEFAULT_NAME: Final = "PLAINTEXT"
DEFAULT_ADDRESS: Final = ("127.0.0.1", 9092)
_ALL_INTERFACES: Final = "0.0.0.0"
_CONTROLLER: Final = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener as it is configured; port 0 takes a free port."""

    name: str
    host: str
    port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    advertised: tuple[str, int] | None = None


def configured_endpoints(settings: "Settings") -> tuple[Endpoint, ...]:
    """Return the listeners for clients, in the order of `listeners`."""
    text = settings.text("listeners")
    if not text:
        return (plaintext_endpoint(settings, *DEFAULT_ADDRESS),)
    controllers = {name.upper() for name in settings.text("controller.listener.names").split(",")} | {_CONTROLLER}
    advertised = {name: (host, port) for name, host, port in parse_endpoints("advertised.listeners", settings) if host}
    protocols = _protocols(settings)
    endpoints: dict[str, Endpoint] = {}
    for name, host, port in parse_endpoints("listeners", settings):
        if name in controllers:
            continue
        if name in endpoints:
            raise UsageError(f"listeners = {text} has the name {name} twice. Give each listener its own name.")
        if name not in protocols:
            raise UsageError(
                f"listener.security.protocol.map has no protocol for {name}. Add {name}:SASL_SSL, for example."
            )
        endpoints[name] = Endpoint(name, host or _ALL_INTERFACES, port, protocols[name], advertised.get(name))
    if not endpoints:
        raise UsageError(
            f"listeners = {text} has no listener for clients. Add one, for example PLAINTEXT://127.0.0.1:9092."
        )
    if unknown := sorted(set(advertised) - set(endpoints) - controllers):
        raise UsageError(
            f"advertised.listeners has {unknown[0]}, which is not in listeners = {text}. Use the names of listeners."
        )
    inter_broker = settings.text("inter.broker.listener.name").upper()
    if inter_broker and inter_broker not in endpoints:
        raise UsageError(
            f"inter.broker.listener.name = {inter_broker} is not in listeners = {text}. Use the name of a listener."
        )
    return tuple(endpoints.values())


def authenticates(endpoint: Endpoint, settings: "Settings") -> bool:
    """Whether every client of a listener is authenticated."""
    if endpoint.protocol is SecurityProtocol.SSL:
        return settings.for_listener(endpoint.name, "ssl.client.auth") == "required"
    return endpoint.protocol.has_sasl


def host_limits(settings: "Settings") -> dict[str, int]:
    """Return `max.connections.per.ip.overrides` by address."""
    limits = {}
    for entry in filter(None, settings.text("max.connections.per.ip.overrides").split(",")):
        address, colon, count = entry.strip().rpartition(":")
        if not colon or not count.isascii() or not count.isdigit():
            raise UsageError(f"max.connections.per.ip.overrides = {entry} is not valid; use ADDRESS:NUMBER.")
        limits[address] = int(count)
    return limits


def plaintext_endpoint(settings: "Settings", host: str, port: int) -> Endpoint:
    """Return the listener of a broker without `listeners`; it has the first advertised address."""
    return Endpoint(DEFAULT_NAME, host, port, advertised=advertised_address(settings.text("advertised.listeners")))


def advertised_address(text: str) -> tuple[str, int] | None:
    """Return the first address of a list such as PLAINTEXT://kafka:9092 that is not the controller's, if any."""
    for name, host, port in _parse("advertised.listeners", text):
        if name != _CONTROLLER and host:
            return host, port
    return None


def parse_endpoints(setting: str, settings: "Settings") -> Iterable[tuple[str, str, int]]:
    """Yield name, host and port of each listener of a setting; the host may be empty."""
    return _parse(setting, settings.text(setting))


def _parse(setting: str, text: str) -> Iterable[tuple[str, str, int]]:
    for listener in filter(None, map(str.strip, text.split(","))):
        name, scheme_ends, address = listener.partition("://")
        host, colon, port = address.rpartition(":")
        is_valid = scheme_ends and name and colon and port.isascii() and port.isdigit() and int(port) <= 65_535
        if not is_valid or (not host and setting == "advertised.listeners"):
            raise UsageError(f"{setting} = {text} is not valid; use PLAINTEXT://HOST:PORT.")
        yield name.upper(), host.removeprefix("[").removesuffix("]"), int(port)


def _protocols(settings: "Settings") -> dict[str, SecurityProtocol]:
    """Return the protocol of each listener name; the names of protocols stand for themselves."""
    protocols = {protocol.value: protocol for protocol in SecurityProtocol}
    text = settings.text("listener.security.protocol.map")
    for entry in filter(None, text.split(",")):
        name, colon, protocol = (word.strip().upper() for word in entry.partition(":"))
        if not colon or protocol not in SecurityProtocol.__members__:
            raise UsageError(
                f"listener.security.protocol.map = {text} is not valid; use NAME:PROTOCOL with one of "
                f"{', '.join(SecurityProtocol.__members__)}."
            )
        protocols[name] = SecurityProtocol[protocol]
    return protocols
