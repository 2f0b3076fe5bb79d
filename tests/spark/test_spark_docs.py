"""The Spark examples of the documentation run, and the table of columns matches the source."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater.spark
from slackwater import Admin, Broker, Producer
from slackwater.client.admin import ResetTo
from slackwater.spark.sink.columns import COLUMNS as SINK_COLUMNS
from slackwater.spark.source.columns import COLUMNS, HEADERS
from slackwater.testing.kafka import Kafka
from tests.client.helpers import fill, numbers
from tests.spark.sink.topics import Topics

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spark.md"
SECURED_PAGE = ROOT / "docs" / "secured-clusters.md"
SINK_PAGE = ROOT / "docs" / "spark-sink.md"
_EXAMPLE = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^\| (\w+) \| ([^|]+) \|", re.MULTILINE)


def test_examples_run(spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(kafka, "orders", numbers(5))
    names: dict[str, object] = {"spark": spark, "checkpoint": str(tmp_path)}
    examples = [example for page in (PAGE, ROOT / "README.md") for example in _EXAMPLE.findall(page.read_text("utf-8"))]
    for example in examples:
        exec(compile(example.replace("localhost:9092", kafka.bootstrap_servers), PAGE.name, "exec"), names)
    assert len(examples) >= 4
    assert re.search(r"orders\s*\|\s*5", capsys.readouterr().out)


def test_secured_example_runs(spark: SparkSession, tmp_path: Path) -> None:
    (example,) = _EXAMPLE.findall(SECURED_PAGE.read_text("utf-8").partition("## Spark")[2])
    with Broker(security="SASL_SSL") as broker:
        login = broker.client_config("orders", mechanism="SCRAM-SHA-512")
        with Producer(login) as producer:
            for number in numbers(5):
                producer.send("orders", number)
        shutil.copy(login["ssl.ca.location"], tmp_path / "ca.pem")
        (tmp_path / "kafka-password").write_text(login["sasl.password"])
        for name in ("ca.pem", "kafka-password"):
            spark.sparkContext.addFile(str(tmp_path / name))  # as --files does
        code = example.replace("broker.example.com:9093", broker.bootstrap_servers)
        code = code.replace(".load()", '.option("startingOffsets", "earliest").load()')
        names: dict[str, object] = {"spark": spark}
        exec(compile(code, SECURED_PAGE.name, "exec"), names)
        orders = names["orders"]
        assert isinstance(orders, DataFrame)
        writer = orders.writeStream.format("memory").queryName("secured_orders").trigger(availableNow=True)
        assert writer.start().awaitTermination(240)
        assert spark.table("secured_orders").count() == 5


def test_documented_sink_stores_every_record_once(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    fill(kafka, "orders", numbers(5))
    slackwater.spark.register(spark)
    (example,) = _EXAMPLE.findall((ROOT / "docs" / "duplicates.md").read_text("utf-8"))
    database, group = tmp_path / "billing.db", "billing-orders-consumer-group"
    names: dict[str, object] = {"spark": spark, "checkpoint": str(tmp_path / "checkpoint"), "database": database}

    def run(application: str) -> tuple[list[tuple[str, int]], list[int]]:
        code = example.replace("localhost:9092", kafka.bootstrap_servers).replace("billing-0", application)
        exec(compile(code, "duplicates.md", "exec"), names)
        with closing(sqlite3.connect(database)) as connection:
            batches = connection.execute("SELECT * FROM batches ORDER BY 1, 2").fetchall()
            return batches, [amount for (amount,) in connection.execute("SELECT amount FROM amounts ORDER BY 1")]

    assert run("billing-0") == ([("billing-0", 0)], [0, 1, 2, 3, 4])

    shutil.rmtree(tmp_path / "checkpoint-billing-0" / "commits")  # as if it had failed between its sink and its commit
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        admin.reset_offsets(group, ResetTo.earliest())
    assert run("billing-0") == ([("billing-0", 0)], [0, 1, 2, 3, 4])

    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        admin.reset_offsets(group, ResetTo.earliest())
    assert run("billing-1") == ([("billing-0", 0), ("billing-1", 0)], [0, 1, 2, 3, 4])


def test_sink_examples_run(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    names: dict[str, object] = {"spark": spark, "checkpoint": str(tmp_path)}
    examples = _EXAMPLE.findall(SINK_PAGE.read_text("utf-8"))
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        for topic in ("totals", "large-totals"):
            admin.create_topic(topic, 2)
    for example in examples:
        exec(compile(example.replace("localhost:9092", kafka.bootstrap_servers), SINK_PAGE.name, "exec"), names)
    written = Topics(kafka.bootstrap_servers).read("large-totals")
    assert sorted(int(row[3] or b"") for row in written) == list(range(901, 1_000))


def test_documented_sink_columns() -> None:
    text = SINK_PAGE.read_text(encoding="utf-8").partition("## Columns")[2].partition("## Partitions")[0]
    documented = [tuple(map(str.strip, row)) for row in re.findall(r"^\| (\w+) \| ([^|]+) \|([^|]*)\|", text, re.M)]
    assert documented[1:] == [*SINK_COLUMNS]


def test_documented_columns() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Columns")[2].partition("## Options")[0]
    documented = [(name, kind.strip()) for name, kind in _COLUMN.findall(text) if name != "column"]
    assert documented == [*COLUMNS, HEADERS]
