"""The broker that the guests visit, and what every test needs to receive them.

Rules kept here
- These tests take minutes and need tools that not everybody has: they run only when this directory is asked for.
- INTEROP_BOOTSTRAP=host:port lets the guests visit another broker, such as Apache Kafka, to see what it does; give
  that one the settings in `host.py`.
- Every name is new, so that tests share a broker and do not meet.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop_heavy.guest import Guest
from tests.interop_heavy.host import host
from tests.interop_heavy.referee import Referee

HERE: Final = Path(__file__).parent

Start = Callable[..., Guest]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect only if the command line names this directory, or something in it."""
    asked = ((config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args)
    return None if any(path.is_relative_to(HERE) for path in asked) else True


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker listens."""
    given = os.environ.get("INTEROP_BOOTSTRAP")
    if given:
        yield given
        return
    with host(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running.wait_until_ready()
        running.stop()


@pytest.fixture(scope="session")
def referee(bootstrap: str) -> Referee:
    """The second opinion."""
    return Referee(bootstrap)


@pytest.fixture
def unique() -> str:
    """A part of names that nobody else has."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts guests, and sees to it that none is left."""
    started: list[Guest] = []

    def run(*command: str | Path, **environment: str) -> Guest:
        started.append(Guest(command, environment))
        return started[-1]

    yield run
    for guest in started:
        guest.close()
