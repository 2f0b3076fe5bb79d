"""Topics on the broker of the session, and the clusters of the tests of delivery=exactly_once."""

from collections.abc import Iterator

import pytest
from scripts.apache_kafka import KAFKA

from slackwater.spark.clients.connections import close_connections
from slackwater.testing.kafka import Kafka
from tests.client.clusters import EMBEDDED, ClusterUnderTest, shared_directory, started_cluster
from tests.spark.sink.topics import Topics


@pytest.fixture
def topics(kafka_session: Kafka) -> Topics:
    return Topics(kafka_session.bootstrap_servers)


@pytest.fixture(scope="module", params=[EMBEDDED, pytest.param(KAFKA, marks=pytest.mark.java)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUnderTest]:
    """The embedded broker, and an Apache Kafka cluster that the tests of all workers share."""
    with started_cluster(request.param, shared_directory(request.config, tmp_path_factory)) as running:
        yield running
    close_connections()
