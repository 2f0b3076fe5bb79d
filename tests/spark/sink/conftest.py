"""Topics on the broker of the session."""

import pytest

from slackwater.testing.kafka import Kafka
from tests.spark.sink.topics import Topics


@pytest.fixture
def topics(kafka_session: Kafka) -> Topics:
    return Topics(kafka_session.bootstrap_servers)
