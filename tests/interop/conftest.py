"""The broker under test and the clients' programs; both run for the whole test session.

INTEROP_BOOTSTRAP=HOST:PORT runs the tests against that broker instead, for example an Apache Kafka broker with
group.min.session.timeout.ms=500 and group.initial.rebalance.delay.ms=0.
"""

import os
import re
import selectors
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater import Admin
from tests.interop.clients import CLIENTS, JAVA, Client, Driver, require

START_S = 60.0
SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
LISTENING = re.compile(rb"Slackwater broker listening on (127\.0\.0\.1:\d+)\n")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests with the clients' programs on one worker, so that each program starts once."""
    for item in items:
        if "programs" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("client_programs"))


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker in its own process."""
    address = os.environ.get("INTEROP_BOOTSTRAP")
    if address:
        yield address
        return
    home = tmp_path_factory.mktemp("broker")
    command = [sys.executable, "-m", "slackwater", "broker", "--listen", "127.0.0.1:0", "--data", str(home / "data")]
    command += [argument for setting in SETTINGS for argument in ("--set", setting)]
    log = home / "log.txt"
    with log.open("wb") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as process:
        try:
            address = listening_address(process, log)
            with Admin({"bootstrap.servers": address}) as admin:
                admin.committed("first")  # creates __consumer_offsets; kafka-python's admin client does not retry
            yield address
            process.terminate()
            assert process.wait(START_S) == 0, f"the broker did not stop cleanly\n{log.read_text()[-4000:]}"
        finally:
            process.kill()


def listening_address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Read the address from the broker's first line."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + START_S
        line = b""
        while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
            received = os.read(process.stdout.fileno(), 4096)
            if not received:
                break
            line += received
    match = LISTENING.fullmatch(line)
    assert match, f"the broker is not ready; it printed {line!r}\n{log.read_text()[-4000:]}"
    return match[1].decode()


Start = Callable[[Client], Driver]


@pytest.fixture(scope="session")
def programs(bootstrap: str) -> Iterator[dict[str, Driver]]:
    """The running programs, by client."""
    running: dict[str, Driver] = {}
    yield running
    for driver in running.values():
        driver.stop()


@pytest.fixture
def running(bootstrap: str, programs: dict[str, Driver]) -> Start:
    """Returns a client's program and starts it on first use."""

    def start(client: Client) -> Driver:
        require(client)
        if client.name not in programs:
            programs[client.name] = Driver(client, bootstrap)
        return programs[client.name]

    return start


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `client` once per client library that has the calls its `needs_call` marker names."""
    has_own_clients = any("client" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize"))
    if "client" in metafunc.fixturenames and not has_own_clients:
        calls = {call for marker in metafunc.definition.iter_markers("needs_call") for call in marker.args}
        clients = [client for client in CLIENTS if not calls & set(client.cannot)]
        java = {client: [pytest.mark.java] if client is JAVA else [] for client in clients}
        params = [pytest.param(client, marks=java[client], id=str(client)) for client in clients]
        metafunc.parametrize("client", params)


@pytest.fixture
def driver(client: Client, running: Start) -> Driver:
    """The client's program."""
    return running(client)


@pytest.fixture
def second_driver(client: Client, bootstrap: str) -> Iterator[Driver]:
    """A second program of the client, for tests that kill it."""
    require(client)
    with _stopping(Driver(client, bootstrap)) as driver:
        yield driver


@contextmanager
def _stopping(driver: Driver) -> Iterator[Driver]:
    try:
        yield driver
    finally:
        driver.stop()


@pytest.fixture
def name() -> Callable[[str], str]:
    """Returns unique names."""
    run = uuid.uuid4().hex[:8]
    return lambda prefix: f"{prefix}-{run}"
