"""`slackwater broker`: run a broker in this process.

Invariants:
- Standard output has one line per listening address and nothing else, because scripts read it. The log goes to standard
  error.
- The command line is read with argparse: Typer, and pydantic with it, took about 40 % of the start.
- The first Ctrl-C or SIGTERM stops the broker cleanly, exit code 0. A second Ctrl-C ends it at once, as `kill -9` does.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import stat
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slackwater.cli.pairs import parse_pairs
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.broker.server import Server
    from slackwater.broker.startup import BrokerOptions

SUMMARY: Final = "Run a broker that any Kafka client can use."
DETAILS: Final = """\
The log goes to standard error, in Kafka's format. Ctrl-C or SIGTERM stops the
broker cleanly; a second Ctrl-C ends it at once."""
LINE = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
MIN_OPEN_FILES: Final = 16
WARM_UP_PAUSE_S = 0.005
GC_THRESHOLD = 50_000  # new objects per collection
KEPT_BYTES = 64 * 1024 * 1024  # freed memory that the allocator keeps; a response has at most `fetch.max.bytes`
MAX_HEAP_BLOCK_BYTES = 32 * 1024 * 1024  # the largest that glibc accepts
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # parameters of mallopt
log = get_logger("slackwater.broker")


def main(words: Sequence[str]) -> None:
    """Run `slackwater broker` with these words of the command line."""
    from slackwater.broker.config import Settings
    from slackwater.broker.config.listeners import DEFAULT_ADDRESS
    from slackwater.broker.startup import BrokerOptions, parse_address
    from slackwater.properties import read_properties

    arguments = _parser().parse_args(words)
    level = logging.DEBUG if arguments.verbose else logging.WARNING if arguments.quiet else logging.INFO
    logging.basicConfig(level=level, format=LINE, stream=sys.stderr)
    values = read_properties(arguments.config, allow_name_only=False) if arguments.config is not None else {}
    values |= parse_pairs(arguments.set, "--set")
    listen = None
    if arguments.listen:
        if any("://" in address for address in arguments.listen) or len(arguments.listen) > 1:
            values["listeners"] = ",".join(_named(address, "--listen") for address in arguments.listen)
        else:
            values.pop("listeners", None)
            listen = parse_address(arguments.listen[0], "--listen")
    if arguments.advertise:
        values["advertised.listeners"] = ",".join(_named(address, "--advertise") for address in arguments.advertise)
    options = BrokerOptions(
        directory=arguments.data,
        settings=Settings(values),
        listen=listen or DEFAULT_ADDRESS,
        allow_anonymous=arguments.allow_anonymous,
        metrics=parse_address(arguments.metrics, "--metrics") if arguments.metrics is not None else None,
    )
    if arguments.until_eof:
        _check_input()
    _check_open_files_limit()
    run(_serve(options, until_eof=arguments.until_eof))


def _check_input() -> None:
    """Raise `UsageError` if the event loop cannot wait for the end of standard input, as for a file and /dev/null."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        raise UsageError(
            "--until-eof needs a pipe or a terminal as standard input. "
            "Remove the option, or start the broker with a pipe."
        )


def _check_open_files_limit() -> None:
    """Raise `UsageError` if the event loop could not start."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    if maximum != resource.RLIM_INFINITY and maximum < MIN_OPEN_FILES:
        raise UsageError(
            f"The limit of open files is {maximum}; a broker needs at least {MIN_OPEN_FILES}, and one for every "
            "partition and connection. Raise the limit (ulimit -n)."
        )


def _named(text: str, option: str) -> str:
    """Return a listener as NAME://HOST:PORT; without a name it is PLAINTEXT."""
    from slackwater.broker.startup import parse_address, show_address

    name, scheme_ends, address = text.rpartition("://")
    return f"{name if scheme_ends else 'PLAINTEXT'}://{show_address(*parse_address(address, option))}"


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="slackwater broker",
        allow_abbrev=False,
        formatter_class=RawDescriptionHelpFormatter,
        description=f"{SUMMARY}\n\n{DETAILS}",
    )
    add = parser.add_argument
    add(
        "--listen",
        metavar="[NAME://]HOST:PORT",
        action="append",
        default=[],
        help="The address to listen on; port 0 takes a free port; repeatable with the names of listeners, for "
        "example SASL_SSL://0.0.0.0:9093 [default: 127.0.0.1:9092]",
    )
    add(
        "--data",
        metavar="DIRECTORY",
        type=Path,
        default=Path("slackwater-data"),
        help="The data directory; created if missing [default: %(default)s]",
    )
    add("--set", metavar="NAME=VALUE", action="append", default=[], help="A setting under Kafka's name; repeatable.")
    add("--config", metavar="FILE", type=Path, help="A server.properties file; --set takes precedence.")
    add(
        "--advertise",
        metavar="[NAME://]HOST:PORT",
        action="append",
        default=[],
        help="The advertised address, one per listener [default: where clients connect]",
    )
    add(
        "--allow-anonymous",
        action="store_true",
        help="Listen beyond this machine without authentication: every client has full access.",
    )
    add("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics on this address.")
    add("--until-eof", action="store_true", help="Stop when standard input closes; for programs that start it.")
    add("--verbose", "-v", action="store_true", help="Log at DEBUG level.")
    add("--quiet", "-q", action="store_true", help="Log warnings only.")
    return parser


def run(main: Coroutine[None, None, None]) -> None:
    """Run on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _serve(options: "BrokerOptions", *, until_eof: bool) -> None:
    from slackwater.broker.startup import show_address, start_broker

    running = await start_broker(options)
    _tune_garbage_collection()
    stop = asyncio.Event()
    _stop_at_signals(stop)
    if until_eof:
        _stop_at_eof(stop)
    for endpoint in options.endpoints():
        address = show_address(endpoint.host, running.server.ports[endpoint.name])
        print(f"Slackwater broker listening on {address}", flush=True)
    if options.metrics is not None and running.page is not None:
        print(f"Slackwater metrics at http://{show_address(options.metrics[0], running.page.port)}/metrics", flush=True)
    warming = asyncio.create_task(_warm_up(running.server))
    await stop.wait()
    warming.cancel()
    await running.stop()


async def _warm_up(server: "Server") -> None:
    """Import the request handlers one by one while no client is connected yet, and tune the allocator."""
    from slackwater.broker.handlers import SUPPORTED_APIS

    for api in SUPPORTED_APIS:
        await asyncio.sleep(WARM_UP_PAUSE_S)
        server.handler(api.key)
    from slackwater.group.assignors import consumer_protocol  # noqa: F401  # numpy, which joins need

    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Keep the memory of large responses.

    By default glibc returns it to the system after each response, and the next one has a page fault for every 4 kB:
    two thirds of the CPU time of a response of 12 MB.
    """
    import ctypes  # numpy has imported it already

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only in glibc
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MAX_HEAP_BLOCK_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


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
