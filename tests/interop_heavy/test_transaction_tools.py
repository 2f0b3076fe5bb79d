"""Kafka's tools and a resuming sink, on transactions of our broker."""

import re
from pathlib import Path

import pytest

from slackwater import Producer
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import wait_for
from tests.client.producer.copier import committed_values
from tests.interop_heavy.restartable_brokers import SLACKWATER, started_broker
from tests.interop_heavy.test_transactions import run_tool

pytestmark = pytest.mark.java


def test_kafka_tools_show_transactions(tmp_path: Path) -> None:
    with started_broker(SLACKWATER, tmp_path) as broker:
        cluster = ClusterUnderTest(broker.bootstrap)
        command = ("TransactionsCommand", "--bootstrap-server", broker.bootstrap)
        with cluster.admin, Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "bank"}) as producer:
            topic = cluster.topic()
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"a").result(10)

            listed = run_tool(*command, "list")
            assert re.search(r"^bank\s+\d+\s+\d+\s+Ongoing", listed, re.MULTILINE), listed
            described = run_tool(*command, "describe", "--transactional-id", "bank")
            assert re.search(rf"\sbank\s.*Ongoing.*{topic}-0", described), described
            hanging = run_tool(*command, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "15")
            assert topic not in hanging
            producer.commit_transaction()
        broker.restart(clean=True)
        segments = sorted((tmp_path / "broker").glob("__transaction_state-*/*.log"))
        written = [segment for segment in segments if segment.stat().st_size]
        dumped = run_tool("DumpLogSegments", "--transaction-log-decoder", "--files", ",".join(map(str, written)))
        # Empty, Ongoing, PrepareCommit, CompleteCommit
        assert re.findall(r'"transactionalId":"bank".*"transactionStatus":(\d)', dumped) == ["0", "1", "2", "4"]


def test_tool_aborts_a_hanging_transaction(tmp_path: Path) -> None:
    """`abort` writes a marker for a partition whose transaction the coordinator does not end."""
    with started_broker(SLACKWATER, tmp_path) as broker:
        cluster = ClusterUnderTest(broker.bootstrap)
        with cluster.admin, Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "bank"}) as producer:
            topic = cluster.topic()
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"a").result(10)
            run_tool(
                *("TransactionsCommand", "--bootstrap-server", broker.bootstrap, "abort"),
                *("--topic", topic, "--partition", "0", "--start-offset", "0"),
            )
            wait_for(lambda: committed_values(cluster, topic, is_open=True) == {0: []})
