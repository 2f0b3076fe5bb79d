"""Fixtures: the broker under test, a reference client, client processes.

Invariants:
- These tests take minutes and need additional tools, so they run only when this directory is named.
- INTEROP_BOOTSTRAP=host:port runs them against another broker, such as Apache Kafka with the settings in
  `broker_process.py`.
- All names are unique, so that tests share a broker.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop_heavy.broker_process import running_broker
from tests.interop_heavy.client_process import ClientProcess
from tests.interop_heavy.reference_client import ReferenceClient

HERE: Final = Path(__file__).parent

Start = Callable[..., ClientProcess]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect only if the command line names this directory or a path in it."""
    named = ((config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args)
    return None if any(path.is_relative_to(HERE) for path in named) else True


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the broker."""
    address = os.environ.get("INTEROP_BOOTSTRAP")
    if address:
        yield address
        return
    with running_broker(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running.wait_until_ready()
        running.stop()


@pytest.fixture(scope="session")
def reference(bootstrap: str) -> ReferenceClient:
    """An independent client."""
    return ReferenceClient(bootstrap)


@pytest.fixture
def unique() -> str:
    """A unique suffix for names."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts client processes, and ends them after the test."""
    started: list[ClientProcess] = []

    def run(*command: str | Path, **environment: str) -> ClientProcess:
        started.append(ClientProcess(command, environment))
        return started[-1]

    yield run
    for process in started:
        process.close()
