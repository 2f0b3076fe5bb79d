"""The labelled incidents judged on Spark, all in one run: cause, culprits and generations of every group."""

import base64
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.diagnosis import DiagnosisRequest
from slackwater.group.errors import UsageError
from slackwater.wire.internal_topics.consumer_offsets import (
    GroupKey,
    GroupValue,
    MemberMetadata,
    encode_group_value,
    encode_key,
)
from tests.doctor.corpus import CORPUS, incidents, truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_verdict_on_every_incident_matches_its_label(spark: "SparkSession") -> None:
    from slackwater.spark.doctor.job import diagnose

    diagnosis = diagnose(spark, DiagnosisRequest(paths=[str(CORPUS)], clusters_dir=str(CORPUS)))
    judged = {
        (verdict.cluster, verdict.group): (
            verdict.cause,
            frozenset(verdict.culprits),
            verdict.rebalances,
            verdict.is_storm,
        )
        for verdict in diagnosis.verdicts
    }
    labelled = {
        (incident, group): (label["cause"], frozenset(label["culprits"]), label["rebalances"], label["storm"])
        for incident in incidents()
        for group, label in truth(incident)["groups"].items()
    }
    assert {key: judged.get(key) for key in labelled} == labelled
    shown = [line for verdict in diagnosis.verdicts for line in verdict.evidence if line.source.endswith("_log")]
    assert all(line.line for line in shown)


@pytest.mark.parametrize(
    ("files", "source"),
    [("broker.log", "broker_log"), ("clients/*", "client_log"), ("consumer_offsets.jsonl", "offsets_topic")],
)
def test_single_source_is_never_confident_and_wrong(spark: "SparkSession", files: str, source: str) -> None:
    from slackwater.spark.doctor.job import diagnose

    diagnosis = diagnose(spark, DiagnosisRequest(paths=[f"{CORPUS}/*/{files}"], clusters_dir=str(CORPUS)))
    assert {verdict.sources for verdict in diagnosis.verdicts} == {(source,)}
    labels = {(incident, name): label for incident in incidents() for name, label in truth(incident)["groups"].items()}
    sure = {
        (verdict.cluster, verdict.group): verdict.cause for verdict in diagnosis.verdicts if verdict.confidence >= SURE
    }
    known = {key: label["cause"] for key, label in labels.items() if key in sure}
    assert len(known) > 1
    assert {key: sure[key] for key in known} == known
    assert all(verdict.missing_input for verdict in diagnosis.verdicts if verdict.confidence < SURE)


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.log", b""), ("other.log", b"GET / 200\n" * 50), ("x.bin", bytes(range(256)) * 40)],
    ids=["empty", "other", "binary"],
)
def test_file_that_is_not_a_kafka_log_is_a_usage_error(
    spark: "SparkSession", tmp_path: Path, name: str, content: bytes
) -> None:
    from slackwater.spark.doctor.job import diagnose

    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match="has no lines about consumer groups"):
        diagnose(spark, DiagnosisRequest(paths=[str(path)]))


def test_silent_group_is_stuck_while_its_broker_logs_on(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    members = {name: f"{name}-0f3b1c9a-1111-4222-8333-444455556666" for name in ("a", "b")}
    joined = (
        "Dynamic member with unknown member id joins group {group} in Empty state. Created a new member id "
        "{member} and requesting the member to rejoin with this id."
    )
    rebalance_starts = (
        "Preparing to rebalance group {group} in state PreparingRebalance with old generation {old} (reason: {why})."
    )
    stable = "Stabilized group {group} generation {new} with {count} members."
    lines = [
        (0, joined.format(group="open", member=members["a"])),
        (
            0,
            rebalance_starts.format(
                group="open", old=0, why=f"Adding new member {members['a']} with group instance id null"
            ),
        ),
        (3, stable.format(group="open", new=1, count=1)),
        (
            60,
            rebalance_starts.format(
                group="open", old=1, why=f"Adding new member {members['b']} with group instance id null"
            ),
        ),
        (500, joined.format(group="other", member=members["b"])),
    ]
    log = tmp_path / "server.log"
    log.write_text(
        "".join(
            f"[2026-01-01 00:{second // 60:02}:{second % 60:02},000] INFO [GroupCoordinator id=1 "
            f"topic=__consumer_offsets partition=0] {text} (org.apache.kafka.coordinator.group.GroupMetadataManager)\n"
            for second, text in lines
        )
    )
    verdicts = {verdict.group: verdict for verdict in diagnose(spark, DiagnosisRequest(paths=[str(log)])).verdicts}
    assert verdicts["open"].cause == "stuck_rebalance"
    until = diagnose(spark, DiagnosisRequest(paths=[str(log)], until_ms=1_767_225_600_000 + 65_000))
    assert [verdict.cause for verdict in until.verdicts if verdict.group == "open"] != ["stuck_rebalance"]


def test_truncated_gzip_file_is_a_usage_error(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    path = tmp_path / "server.log.gz"
    compressed = gzip.compress(b"[2026-01-01 00:00:00,000] INFO [GroupCoordinator 1]: nothing (x)\n" * 5000)
    path.write_bytes(compressed[: len(compressed) // 2])
    with pytest.raises(UsageError, match="cut off or damaged"):
        diagnose(spark, DiagnosisRequest(paths=[str(path)]))


def test_file_removed_after_listing_is_a_usage_error(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackwater.doctor.history.files import LocalFile
    from slackwater.spark.doctor.history import reading
    from slackwater.spark.doctor.history.files import HistoryFiles
    from slackwater.spark.doctor.job import diagnose

    gone = str(tmp_path / "server.log")
    monkeypatch.setattr(
        reading, "list_files", lambda *_: HistoryFiles([LocalFile(gone, f"file://{gone}", 1000)], [], [])
    )
    with pytest.raises(UsageError, match=r"server\.log could not be read: No such file or directory\. Check"):
        diagnose(spark, DiagnosisRequest(paths=[gone]))


def test_undecodable_records_are_counted_and_shown(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    group, member = GroupKey("g"), MemberMetadata("m", None, "c", "/h", 10_000, 10_000, b"", b"")
    value_bytes = encode_group_value(GroupValue("consumer", 1, "range", "m", 1_000, (member,)))
    records = [(encode_key(group), value_bytes), (encode_key(group), value_bytes[:20]), (b"\0\2\0", value_bytes)]
    dump = tmp_path / "consumer_offsets.jsonl"
    dump.write_text(
        "".join(
            json.dumps({"partition": 3, "offset": offset, "timestamp": 1_000, "key": _text(key), "value": _text(value)})
            + "\n"
            for offset, (key, value) in enumerate(records)
        )
    )
    diagnosis = diagnose(spark, DiagnosisRequest(paths=[str(dump)]))
    assert [verdict.group for verdict in diagnosis.verdicts] == ["g"]
    ((file, lines, example),) = diagnosis.unrecognized
    assert (Path(file).name, lines) == ("consumer_offsets.jsonl", 2)
    assert example.startswith("__consumer_offsets-3@1: ")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
