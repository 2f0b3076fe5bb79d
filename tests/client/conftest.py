"""The fixture `side`: every cluster in turn that a test runs on (see `clusters.py`)."""

from collections.abc import Iterator

import pytest
from scripts.apache_kafka import KAFKA, OLD_KAFKA

from tests.client.clusters import EMBEDDED, Side, side_of

MARKERS = (
    "old_kafka: runs on Apache Kafka 3.9.2 too",
    "apache: needs what the embedded broker does not have, and runs on Apache Kafka alone",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the fixture `side` is run on each."""
    if "side" in metafunc.fixturenames:
        has = metafunc.definition.get_closest_marker
        versions = [] if has("apache") else [pytest.param(EMBEDDED)]
        versions += [pytest.param(KAFKA, marks=pytest.mark.java)]
        versions += [pytest.param(OLD_KAFKA, marks=pytest.mark.java)] if has("old_kafka") else []
        metafunc.parametrize("side", versions, indirect=True, scope="session")


@pytest.fixture(scope="session")
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """A cluster, for all tests of this process that run on it."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        shared = shared.parent  # what the workers of one run have in common
    with side_of(request.param, shared) as results:
        yield results
