"""`slackwater broker`: the embedded broker in this process, until it is told to stop.

Rules kept here
- Standard output says where it listens, one line each, and nothing else: scripts read it. The log is standard error's.
- The first Ctrl-C or SIGTERM stops it cleanly, exit code 0; the second Ctrl-C ends it at once, as `kill -9` would.
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

from slackwater.cli.options import option
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.broker.process import BrokerOptions
    from slackwater.broker.server import Server

LINE = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
WARM_UP_PAUSE_S = 0.005
COLLECT_AFTER = 50_000  # objects more than there were
log = logging.getLogger("slackwater.broker")


def broker(
    listen: Annotated[str, option(help="Where to listen, HOST:PORT; port 0 takes a free one.")] = ("127.0.0.1:9092"),
    data: Annotated[Path, option(help="The data directory; it is made if it is not there.")] = Path("slackwater-data"),
    set_: Annotated[
        list[str] | None, option("--set", metavar="NAME=VALUE", help="A setting under Kafka's name; repeatable.")
    ] = None,
    config: Annotated[Path | None, option(help="A server.properties file; --set outranks it.")] = None,
    advertise: Annotated[
        str | None, option(help="The address to tell clients, HOST:PORT; else the one they came to.")
    ] = None,
    metrics: Annotated[
        str | None, option(help="Where to show metrics to Prometheus, HOST:PORT; else they are not shown.")
    ] = None,
    until_eof: Annotated[
        bool, option("--until-eof", help="Stop, too, when standard input ends; for programs that start it.")
    ] = False,
    verbose: Annotated[bool, option("--verbose", "-v", help="Log everything there is to log.")] = False,
    quiet: Annotated[bool, option("--quiet", "-q", help="Log warnings only.")] = False,
) -> None:
    """Run a broker that any Kafka client can use.

    The log goes to standard error, in Kafka's own lines. Ctrl-C or SIGTERM stops it cleanly; a second Ctrl-C ends it at
    once.
    """
    from slackwater.broker.config import Settings, read_properties
    from slackwater.broker.process import BrokerOptions, parse_address

    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format=LINE, stream=sys.stderr)
    given = read_properties(config) if config is not None else {}
    given |= dict(_pair(text) for text in set_ or ())
    plan = BrokerOptions(
        directory=data,
        settings=Settings(given),
        listen=parse_address(listen, "--listen"),
        advertised=parse_address(advertise, "--advertise") if advertise is not None else None,
        metrics=parse_address(metrics, "--metrics") if metrics is not None else None,
    )
    run(_serve(plan, until_eof=until_eof))


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name.strip():
        raise UsageError(f"--set {text} is no setting; write --set name=value.")
    return name.strip(), value.strip()


def run(main: Coroutine[None, None, None]) -> None:
    """Run on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _serve(plan: "BrokerOptions", *, until_eof: bool) -> None:
    from slackwater.broker.process import show_address, start_broker

    running = await start_broker(plan)
    _look_less_often_for_cycles()
    stop = asyncio.Event()
    _stop_at_signals(stop)
    if until_eof:
        _stop_at_eof(stop)
    print(f"Slackwater broker listening on {show_address(plan.listen[0], running.server.port)}", flush=True)
    if plan.metrics is not None and running.page is not None:
        print(f"Slackwater metrics at http://{show_address(plan.metrics[0], running.page.port)}/metrics", flush=True)
    warming = asyncio.create_task(_warm_up(running.server))
    await stop.wait()
    warming.cancel()
    await running.stop()


async def _warm_up(server: "Server") -> None:
    """Import what the first clients will ask for, a piece at a time, while there are none yet."""
    from slackwater.broker.handlers import SUPPORTED_APIS

    for api in SUPPORTED_APIS:
        await asyncio.sleep(WARM_UP_PAUSE_S)
        server.handler(api.key)
    from slackwater.group.assignors import consumer_protocol  # noqa: F401  # numpy, which joins need


def _look_less_often_for_cycles() -> None:
    """Requests leave no cycles of objects behind, and what the start has made stays: looking through it costs a third
    of a commit."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 100)


def _stop_at_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def heard(one: signal.Signals) -> None:
        log.info("Stopping, because of %s.", one.name)
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # what is left may block: the next one must not wait for the loop
        stop.set()

    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, heard, one)


def _stop_at_eof(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            log.info("Stopping, because standard input has ended.")
            stop.set()

    loop.add_reader(descriptor, readable)
