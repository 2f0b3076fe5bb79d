"""The fixture `cluster`: each cluster that a test runs on (see `clusters.py`)."""

from collections.abc import Iterator

import pytest
from scripts.apache_kafka import KAFKA, OLD_KAFKA

from tests.client.clusters import EMBEDDED, ClusterUnderTest, shared_directory, started_cluster

MARKERS = (
    "old_kafka: runs on Apache Kafka 3.9.2 too, in `make interop`",
    "apache: runs only on Apache Kafka, because the embedded broker lacks a feature",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the fixture `cluster` on each cluster."""
    if "cluster" in metafunc.fixturenames:
        has = metafunc.definition.get_closest_marker
        versions = [] if has("apache") else [pytest.param(EMBEDDED)]
        versions += [pytest.param(KAFKA, marks=pytest.mark.java)]
        if has("old_kafka"):
            versions.append(pytest.param(OLD_KAFKA, marks=[pytest.mark.java, pytest.mark.repetition]))
        metafunc.parametrize("cluster", versions, indirect=True, scope="session")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUnderTest]:
    """A cluster that the tests of this process share."""
    with started_cluster(request.param, shared_directory(request.config, tmp_path_factory)) as running:
        yield running
