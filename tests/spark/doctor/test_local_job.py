"""Spark's job and the job in this process give equal verdicts, in every field."""

import gzip
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.doctor.diagnosis import Diagnosis, DiagnosisRequest
from slackwater.doctor.history.files import list_local_files
from slackwater.group.events import (
    EventKind,
    EventSource,
    GenerationFormed,
    GroupEvent,
    MemberLeft,
    PartitionsChanged,
    RebalanceStarted,
    Trigger,
)
from slackwater.group.topic_partition import TopicPartition
from tests.doctor.corpus import CORPUS
from tests.doctor.lines import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INCIDENTS = ("r121", "r214", "r302", "r333", "r434")
"""Five libraries on brokers 3.9 and 4.3. `make interop` compares all incidents."""


def _diagnose_both(spark: "SparkSession", request: DiagnosisRequest) -> tuple[Diagnosis, Diagnosis]:
    from slackwater.doctor.local.job import diagnose as diagnose_locally
    from slackwater.spark.doctor.job import diagnose

    return diagnose_locally(request, list_local_files(request.paths)), diagnose(spark, request)


def test_incidents_have_equal_verdicts(spark: "SparkSession", tmp_path: Path) -> None:
    for incident in INCIDENTS:
        shutil.copytree(CORPUS / incident, tmp_path / incident)
    local, on_spark = _diagnose_both(spark, DiagnosisRequest(paths=[str(tmp_path)], clusters_dir=str(tmp_path)))
    assert len(local.verdicts) >= len(INCIDENTS)
    assert local == on_spark


def test_compressed_file_has_an_equal_verdict(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "broker.log.gz").write_bytes(gzip.compress((CORPUS / "r201" / "broker.log").read_bytes()))
    # Single rebalances cite positions, which differ: Spark counts the lines of a compressed file, not its bytes.
    local, on_spark = _diagnose_both(spark, DiagnosisRequest(paths=[str(tmp_path)], with_timeline=False))
    assert all(line.line for verdict in local.verdicts for line in verdict.evidence)
    assert local == on_spark


@pytest.mark.parametrize("part", ["clients", "consumer_offsets.jsonl"])
def test_selected_groups_of_one_source_have_equal_verdicts(spark: "SparkSession", part: str) -> None:
    paths = [str(CORPUS / incident / part) for incident in ("r302", "r402")]
    group = "mailer-402"
    local, on_spark = _diagnose_both(spark, DiagnosisRequest(paths=paths, groups=[group], with_timeline=False))
    assert [verdict.group for verdict in local.verdicts] == [group]
    assert local == on_spark


def test_events_and_unrecognized_lines_are_read_alike(spark: "SparkSession", tmp_path: Path) -> None:
    events = []
    for at, second in enumerate(range(0, 120, 20)):
        ms = 1_767_225_600_000 + second * 1000
        leave = MemberLeft("itself", "consumer poll timeout has expired.")
        start = RebalanceStarted("b-1", at, 300_000, False, "leave")
        assigned = PartitionsChanged(partitions=(TopicPartition("t", 1),))
        events += [
            GroupEvent(
                time_ms=ms, group="g", kind=EventKind.MEMBER_LEFT, member="b-1", client="b", detail=leave,
                generation=at, source=EventSource.COORDINATOR,
            ),
            GroupEvent(
                time_ms=ms, group="g", kind=EventKind.REBALANCE_STARTED, trigger=Trigger.MEMBER_LEAVE, detail=start,
                source=EventSource.COORDINATOR,
            ),
            GroupEvent(
                time_ms=ms + 5, group="g", kind=EventKind.GENERATION_FORMED, generation=at + 1, members=2,
                detail=GenerationFormed("a-1", "range", 0, 5), source=EventSource.COORDINATOR,
            ),
            GroupEvent(
                time_ms=ms + 9, group="g", kind=EventKind.PARTITIONS_ASSIGNED, client="a", detail=assigned,
                source=EventSource.MEMBER,
            ),
        ]  # fmt: skip
    (tmp_path / "events.jsonl").write_text("".join(f"{event.to_json()}\n" for event in events))
    (tmp_path / "old.log").write_text(f"{java('Group g was frobnicated in state Stable')}\n" * 3)
    local, on_spark = _diagnose_both(spark, DiagnosisRequest(paths=[str(tmp_path)]))
    assert [(verdict.group, verdict.rebalances) for verdict in local.verdicts] == [("g", 6)]
    assert [lines for _, lines, _ in local.unrecognized] == [3]
    assert local == on_spark
