"""read_committed with Apache Kafka, compared with Spark's Kafka source."""

from collections.abc import Iterator

import confluent_kafka
import pytest
from pyspark.sql import SparkSession
from scripts.apache_kafka import KAFKA

from slackwater.spark.clients.connections import close_connections, get_connection
from slackwater.spark.source.batch_reader import plan_ranges
from slackwater.spark.source.fetching import FetchSettings, RangeFetcher
from slackwater.spark.source.offset_reader import OffsetReader
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.source.partition_reader import ReadSettings, read_range
from tests.client.clusters import ClusterUnderTest, shared_directory, started_cluster

pytestmark = pytest.mark.java
DEADLINE_S = 60.0
ROUNDS = 40
RECORDS_PER_TRANSACTION = 25


@pytest.fixture(scope="module")
def apache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUnderTest]:
    """An Apache Kafka cluster, which the tests of all workers share."""
    with started_cluster(KAFKA, shared_directory(request.config, tmp_path_factory)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(apache: ClusterUnderTest) -> str:
    """Alternately committed and aborted transactions, with records outside of transactions between them."""
    name = apache.topic()
    settings = {"bootstrap.servers": apache.bootstrap_servers, "linger.ms": 1}
    producer = confluent_kafka.Producer(settings | {"transactional.id": name})
    plain = confluent_kafka.Producer(settings)
    producer.init_transactions(DEADLINE_S)
    for number in range(ROUNDS):
        producer.begin_transaction()
        is_committed = number % 2 == 0
        for record in range(RECORDS_PER_TRANSACTION):
            state = b"committed" if is_committed else b"aborted"
            producer.produce(name, b"%s-%d-%d" % (state, number, record), partition=0)
        plain.produce(name, b"plain-%d" % number, partition=0)
        assert plain.flush(DEADLINE_S) == 0
        assert producer.flush(DEADLINE_S) == 0
        if is_committed:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
    return name


def options(apache: ClusterUnderTest, topic: str, level: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": apache.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": level,
    }


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_aborted_records_are_skipped_like_in_spark(
    spark: SparkSession, spark_source: str, apache: ClusterUnderTest, topic: str, level: str
) -> None:
    ours, theirs = (
        [tuple(row) for row in spark.read.format(source).options(**options(apache, topic, level)).load().collect()]
        for source in ("slackwater", spark_source)
    )
    assert sorted(ours) == sorted(theirs)
    aborted = [row for row in ours if bytes(row[1]).startswith(b"aborted")]
    assert len(ours) == (
        ROUNDS // 2 * RECORDS_PER_TRANSACTION + ROUNDS
        if level == "read_committed"
        else ROUNDS * (RECORDS_PER_TRANSACTION + 1)
    )
    assert bool(aborted) is (level == "read_uncommitted")


@pytest.mark.parametrize("fetch_bytes", [300, 3_000, 1 << 20])
def test_aborted_transaction_over_several_fetches(apache: ClusterUnderTest, topic: str, fetch_bytes: int) -> None:
    parsed = SourceOptions.parse(options(apache, topic, "read_committed"), streaming=False)
    connection = get_connection(parsed.kafka)
    try:
        reader = OffsetReader(connection.network, connection.cluster, parsed)
        (offset_range,) = plan_ranges(reader, parsed)
        settings = ReadSettings.of(parsed)
        fetch = FetchSettings(fetch_bytes=fetch_bytes, read_committed=True)
        small = ReadSettings(settings.kafka, fetch, settings.include_headers, settings.check_crcs)
        pieces = list(RangeFetcher(connection.network, connection.cluster, offset_range, fetch))
        assert len(pieces) > 1 or fetch_bytes == 1 << 20
        values = [value for batch in read_range(offset_range, small) for value in batch.column("value").to_pylist()]
    finally:
        close_connections()
    assert not [value for value in values if value.startswith(b"aborted")]
    assert len(values) == ROUNDS // 2 * RECORDS_PER_TRANSACTION + ROUNDS
