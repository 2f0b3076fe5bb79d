"""`slackwater broker`: run a broker in this process.

Invariants:
- Standard output has one line per listening address and nothing else, because scripts read it. The log goes to standard
  error.
- The first Ctrl-C or SIGTERM stops the broker cleanly, exit code 0. A second Ctrl-C ends it at once, as `kill -9` does.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.options import parse_pairs

if TYPE_CHECKING:
    from slackwater.broker.process import BrokerOptions
    from slackwater.broker.server import Server

LINE = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
WARM_UP_PAUSE_S = 0.005
GC_THRESHOLD = 50_000  # new objects per collection
log = logging.getLogger("slackwater.broker")


def broker(
    listen: Annotated[str, typer.Option(help="The address to listen on, HOST:PORT; port 0 takes a free port.")] = (
        "127.0.0.1:9092"
    ),
    data: Annotated[Path, typer.Option(help="The data directory; created if missing.")] = Path("slackwater-data"),
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting under Kafka's name; repeatable.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A server.properties file; --set takes precedence.")] = None,
    advertise: Annotated[
        str | None, typer.Option(help="The advertised address, HOST:PORT [default: where clients connect]")
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Serve Prometheus metrics on this address, HOST:PORT.")] = None,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Stop when standard input closes; for programs that start it.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at DEBUG level.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings only.")] = False,
) -> None:
    """Run a broker that any Kafka client can use.

    The log goes to standard error, in Kafka's format. Ctrl-C or SIGTERM stops the broker cleanly; a second Ctrl-C ends
    it at once.
    """
    from slackwater.broker.config import Settings, read_properties
    from slackwater.broker.process import BrokerOptions, parse_address

    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format=LINE, stream=sys.stderr)
    values = read_properties(config) if config is not None else {}
    values |= parse_pairs(set_ or (), "--set")
    options = BrokerOptions(
        directory=data,
        settings=Settings(values),
        listen=parse_address(listen, "--listen"),
        advertised=parse_address(advertise, "--advertise") if advertise is not None else None,
        metrics=parse_address(metrics, "--metrics") if metrics is not None else None,
    )
    run(_serve(options, until_eof=until_eof))


def run(main: Coroutine[None, None, None]) -> None:
    """Run on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _serve(options: "BrokerOptions", *, until_eof: bool) -> None:
    from slackwater.broker.process import show_address, start_broker

    running = await start_broker(options)
    _tune_garbage_collection()
    stop = asyncio.Event()
    _stop_at_signals(stop)
    if until_eof:
        _stop_at_eof(stop)
    print(f"Slackwater broker listening on {show_address(options.listen[0], running.server.port)}", flush=True)
    if options.metrics is not None and running.page is not None:
        print(f"Slackwater metrics at http://{show_address(options.metrics[0], running.page.port)}/metrics", flush=True)
    warming = asyncio.create_task(_warm_up(running.server))
    await stop.wait()
    warming.cancel()
    await running.stop()


async def _warm_up(server: "Server") -> None:
    """Import the request handlers one by one while no client is connected yet."""
    from slackwater.broker.handlers import SUPPORTED_APIS

    for api in SUPPORTED_APIS:
        await asyncio.sleep(WARM_UP_PAUSE_S)
        server.handler(api.key)
    from slackwater.group.assignors import consumer_protocol  # noqa: F401  # numpy, which joins need


def _tune_garbage_collection() -> None:
    """Collect rarely: requests leave no reference cycles, and frequent collections cost a third of a commit."""
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 100)


def _stop_at_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        log.info("Stopping: received %s.", number.name)
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C must not wait for the loop
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


def _stop_at_eof(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def on_readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            log.info("Stopping: standard input was closed.")
            stop.set()

    loop.add_reader(descriptor, on_readable)
