"""The fixture `kafka`: the secured Apache Kafka that all tests of this directory share."""

from collections.abc import Iterator

import pytest
from scripts.apache_kafka import KAFKA, missing

from tests.client.security.secured_kafka import SecuredKafka, secured_kafka


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """The broker."""
    if reason := missing(KAFKA):
        pytest.skip(reason)
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running
