"""The consumer's metrics, under Java's names and under the JMX exporter's."""

import json
from math import isnan
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from slackwater.client.consumer.metrics import FETCH_GROUP, MetricName, export
from slackwater.group.member import METRIC_GROUPS
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.catalogue_metrics import CONSUMER, COORDINATOR
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, fill, numbers, poll_until, read

RECORDED = Path(__file__).parents[2] / "data" / "jmx_exporter_names.json"  # scripts/record_jmx_names.py


def test_every_catalogued_metric_exists(cluster: ClusterUnderTest) -> None:
    with consumer(cluster, cluster.name("g"), client_id="c") as client:
        metrics = client.metrics()
    for group, names in (("consumer-coordinator-metrics", COORDINATOR), ("consumer-metrics", CONSUMER)):
        for name in names:
            assert MetricName(name, group, "c") in metrics
    assert {name.group for name in metrics} == {*METRIC_GROUPS.values(), FETCH_GROUP}
    assert {tuple(name.tags.items()) for name in metrics} == {(("client-id", "c"),)}


def test_metrics_count_operations(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    fill(cluster, topic, numbers(5))
    with consumer(cluster, group, max_poll_records=3, enable_auto_commit=False) as client:
        client.subscribe([topic])
        assert len(read(client, 1)) == 3
        assert {name.name: value for name, value in client.metrics().items()}["records-lag-max"] == 2
        read(client, 2)
        client.commit()
        metrics = {name.name: value for name, value in client.metrics().items()}
    assert metrics["records-consumed-total"] == 5
    assert metrics["records-lag-max"] == 0
    assert metrics["bytes-consumed-total"] > 5
    assert metrics["fetch-total"] >= 1
    assert metrics["assigned-partitions"] == metrics["rebalance-total"] == metrics["commit-total"] == 1
    assert metrics["last-rebalance-seconds-ago"] >= 0


def test_consumer_without_group_has_only_fetch_metrics(cluster: ClusterUnderTest) -> None:
    with consumer(cluster) as client:
        assert {name.group for name in client.metrics()} == {FETCH_GROUP}
        assert isnan(next(value for name, value in client.metrics().items() if name.name == "records-lag-max"))


def test_prometheus_names_match_jmx_exporter(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    registry = CollectorRegistry()
    with consumer(cluster, group, client_id="first") as client, consumer(cluster, group, client_id="second") as second:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        second.assign([TopicPartition(topic, 0)])
        export(client.metrics, second.metrics, registry=registry)
        text = generate_latest(registry).decode()
    lines = text.splitlines()
    assert 'kafka_consumer_consumer_coordinator_metrics_assigned_partitions{client_id="first"} 1.0' in lines
    assert 'kafka_consumer_consumer_coordinator_metrics_join_total{client_id="second"} 0.0' in lines
    assert 'kafka_consumer_consumer_metrics_last_poll_seconds_ago{client_id="second"} -1.0' in lines
    assert any(
        line.startswith('kafka_consumer_consumer_fetch_manager_metrics_fetch_total{client_id="first"}')
        for line in lines
    )
    assert lines.count("# TYPE kafka_consumer_consumer_coordinator_metrics_join_total untyped") == 1


@pytest.mark.parametrize(("release", "cut_total"), [("0.20.0", False), ("1.0.1", True)])
def test_names_match_recorded_jmx_exporter(kafka: Kafka, release: str, cut_total: bool) -> None:
    recorded = set(json.loads(RECORDED.read_text())[release])
    registry = CollectorRegistry()
    with consumer(kafka, "g") as client:
        export(client.metrics, registry=registry, cut_total=cut_total)
        lines = generate_latest(registry).decode().splitlines()
    names = {line.partition("{")[0] for line in lines if not line.startswith("#")}
    assert not names - recorded
    coordinator = "kafka_consumer_consumer_coordinator_metrics_"
    assert {name for name in names if name.startswith(coordinator)} == {
        name for name in recorded if name.startswith(coordinator)
    }


def test_exported_client_id_is_escaped() -> None:
    registry = CollectorRegistry()
    export(lambda: {MetricName("fetch-total", FETCH_GROUP, "a\n\x1b[2J\u202e"): 1.0}, registry=registry)

    page = generate_latest(registry).decode()
    assert r'{client_id="a\\x0a\\x1b[2J\\u202e"} 1.0' in page
