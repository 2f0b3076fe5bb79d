"""The examples of docs/spark.md and the README run, and the table of columns matches the source."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.source.columns import COLUMNS, HEADERS
from slackwater.testing.kafka import Kafka
from tests.client.helpers import fill, numbers

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spark.md"
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


def test_documented_columns() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Columns")[2].partition("## Options")[0]
    documented = [(name, kind.strip()) for name, kind in _COLUMN.findall(text) if name != "column"]
    assert documented == [*COLUMNS, HEADERS]
