"""The labelled incidents judged on Spark, all in one run: cause, culprits and generations of every group."""

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.doctor.examination import Patient
from slackwater.group.errors import UsageError
from tests.doctor.corpus import CORPUS, incidents, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_cause_culprits_and_generations_of_every_group_of_every_incident(spark: "SparkSession") -> None:
    from slackwater.spark.doctor import examine

    if not CORPUS.is_dir():
        reason = f"The corpus of incidents is not at {CORPUS}."
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true: nothing may be left out here: {reason}")
        pytest.skip(reason)
    found = examine(spark, Patient(paths=[str(CORPUS)], below=str(CORPUS)))
    said = {
        (one.cluster, one.group): (one.cause, frozenset(one.culprits), one.rebalances, one.storm)
        for one in found.verdicts
    }
    labelled = {
        (incident, group): (label["cause"], frozenset(label["culprits"]), label["rebalances"], label["storm"])
        for incident in incidents()
        for group, label in truth(incident)["groups"].items()
    }
    assert {key: said.get(key) for key in labelled} == labelled
    shown = [line for one in found.verdicts for line in one.evidence if line.source.endswith("_log")]
    assert all(line.line for line in shown)


@pytest.mark.parametrize(
    ("name", "content"), [("empty.log", b""), ("other.log", b"GET / 200\n" * 50), ("x.bin", bytes(range(256)) * 40)]
)
def test_what_is_no_kafka_log_is_told_in_a_sentence(
    spark: "SparkSession", tmp_path: Path, name: str, content: bytes
) -> None:
    from slackwater.spark.doctor import examine

    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is about a consumer group"):
        examine(spark, Patient(paths=[str(path)]))


def test_a_gzip_that_is_cut_off_is_told_in_a_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor import examine

    path = tmp_path / "server.log.gz"
    whole = gzip.compress(b"[2026-01-01 00:00:00,000] INFO [GroupCoordinator 1]: nothing (x)\n" * 5000)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="cut off or damaged"):
        examine(spark, Patient(paths=[str(path)]))
