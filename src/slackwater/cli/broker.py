"""`slackwater broker`: the embedded broker in this process, until it is told to stop."""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.broker.config import Settings

LINE = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"


def broker(
    listen: Annotated[str, typer.Option(help="Where to listen, HOST:PORT; port 0 takes a free one.")] = (
        "127.0.0.1:9092"
    ),
    data: Annotated[Path, typer.Option(help="The data directory; it is made if it is not there.")] = Path(
        "slackwater-data"
    ),
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting under Kafka's name; repeatable.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A server.properties file; --set outranks it.")] = None,
    advertise: Annotated[
        str | None, typer.Option(help="The address to tell clients, HOST:PORT; else the one they came to.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log everything there is to log.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings only.")] = False,
) -> None:
    """Run a broker that any Kafka client can use.

    The log goes to standard error, in Kafka's own lines. Ctrl-C or SIGTERM stops it cleanly.
    """
    from slackwater.broker.config import Settings, read_properties

    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format=LINE, stream=sys.stderr)
    given = read_properties(config) if config is not None else {}
    for pair in set_ or ():
        name, found, value = pair.partition("=")
        if not found:
            raise UsageError(f"--set {pair} is no setting; write --set name=value.")
        given[name.strip()] = value.strip()
    settings = Settings(given)
    address, advertised = parse_address(listen, "--listen"), None
    if advertise is not None:
        advertised = parse_address(advertise, "--advertise")
    run(_serve(address, data, settings, advertised))


def parse_address(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT, in brackets where the host is an IPv6 address."""
    host, found, port = text.rpartition(":")
    if not found or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"{option} {text} is no address; write HOST:PORT, for example 127.0.0.1:9092.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def run(main: Coroutine[None, None, None]) -> None:
    """Run on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _serve(
    address: tuple[str, int], data: Path, settings: "Settings", advertised: tuple[str, int] | None
) -> None:
    from slackwater.broker.server import Server

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop.set)
    server = Server(data, settings, advertised=advertised)
    await server.start(*address)
    print(f"Slackwater broker listening on {address[0]}:{server.port}", flush=True)
    await stop.wait()
    await server.stop()
