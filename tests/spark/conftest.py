"""A Spark session with both sources: this one and Spark's Kafka source for comparison."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.starting import starts_repeated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".jars" / "spark-kafka"
HEAP = "1g"
# The JVM spends most of its time on compiling code that runs once. The simple compiler takes a fraction of that.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests that start Spark's JVM on one worker, one after the other."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.path.name == "test_applications.py":
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One local session for all tests of this process."""
    from pyspark.sql import SparkSession

    import slackwater.spark

    home = tmp_path_factory.mktemp("spark")
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")}
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", HEAP)
        .config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.jars", ",".join(map(str, sorted(JARS.glob("*.jar")))))
        .getOrCreate()
    )
    try:
        slackwater.spark.register(session)
        with starts_repeated():
            yield session
    finally:
        session.stop()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@pytest.fixture(scope="session")
def spark_source() -> str:
    """The name of Spark's Kafka source; skips the test if its jars are missing."""
    if not list(JARS.glob("spark-sql-kafka*.jar")):
        reason = "The jars of Spark's Kafka source are missing; run `make jars`."
        pytest.skip(reason)
    return "kafka"
