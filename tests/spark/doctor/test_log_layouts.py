"""Log layouts, logs without timestamps, damaged dumps: every line is read, or counted and shown."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.doctor.diagnosis import DiagnosisRequest
from slackwater.wire.internal_topics.consumer_offsets import OffsetKey, OffsetValue, encode_key, encode_offset_value
from tests.doctor.corpus import CORPUS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGAN_MS = 1_777_629_600_000
CONSUMER = "[Consumer clientId=app-1, groupId=g] "
OVERRUN = "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer"
LEAVE = "Member app-1-x sending LeaveGroup request to coordinator a:9092 (id: 1 rack: null)"
MESSAGES = (
    (1, "Successfully joined group with generation Generation{generationId=1, memberId='app-1-x', protocol='range'}"),
    (9, OVERRUN),
)
BROKER = (
    "[2026-05-01 10:00:02,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=0] "
    "Stabilized group g generation 1 with 1 members. (x)\n"
)


def _spark(at: int, text: str) -> str:
    return f"26/05/01 10:00:0{at} INFO ConsumerCoordinator: {CONSUMER}{text}"


def _log4j2(at: int, text: str) -> str:
    instant = {"epochSecond": BEGAN_MS // 1000 + at, "nanoOfSecond": 0}
    return json.dumps({"instant": instant, "level": "INFO", "loggerName": "o.a.k", "message": CONSUMER + text})


def _log4j2_old(at: int, text: str) -> str:
    return json.dumps({"timeMillis": BEGAN_MS + at * 1000, "level": "INFO", "message": CONSUMER + text})


def _google(at: int, text: str) -> str:
    return json.dumps({"timestamp": f"2026-05-01T10:00:0{at}Z", "textPayload": CONSUMER + text})


def _kubernetes(at: int, text: str) -> str:
    return f"2026-05-01T10:00:0{at}.000000000Z stdout F " + json.dumps({"level": "INFO", "message": CONSUMER + text})


def _with_clock(at: int, text: str) -> str:
    return f"10:00:0{at}.000 [main] INFO o.a.k.c.c.i.ConsumerCoordinator - {CONSUMER}{text}"


def _log(layout: Callable[[int, str], str]) -> str:
    return "".join(layout(at, text) + "\n" for at, text in MESSAGES)


@pytest.mark.parametrize("layout", [_spark, _log4j2, _log4j2_old, _google, _kubernetes])
def test_layout_is_read_with_its_timestamps(
    spark: "SparkSession", tmp_path: Path, layout: Callable[[int, str], str]
) -> None:
    from slackwater.spark.doctor.job import diagnose

    (tmp_path / "client.log").write_text(_log(layout))
    (verdict,) = diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)])).verdicts
    assert (verdict.began_ms, verdict.ended_ms) == (BEGAN_MS + 1_000, BEGAN_MS + 9_000)
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("app-1",))


@pytest.mark.parametrize(
    ("layout", "remark"),
    [(_with_clock, "a time of day but no complete date"), (lambda _, text: CONSUMER + text, "the lines have no time")],
)
def test_log_without_dates_is_read_in_its_order(
    spark: "SparkSession", tmp_path: Path, layout: Callable[[int, str], str], remark: str
) -> None:
    from slackwater.spark.doctor.job import diagnose

    (tmp_path / "client.log").write_text(_log(layout))
    (verdict,) = diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)])).verdicts
    assert (verdict.cause, verdict.culprits) == ("poll_delay", ("app-1",))
    assert any(remark in text for text in verdict.missing_input)
    assert [line.where for line in verdict.evidence] == [f"{tmp_path}/client.log:2"]


def test_log_with_the_newest_line_first_is_turned_round(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    lines = [_google(at, text) for at, text in ((1, MESSAGES[0][1]), (5, LEAVE), (9, MESSAGES[1][1]))]
    (tmp_path / "client.log").write_text("\n".join(reversed(lines)))
    (verdict,) = diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)])).verdicts
    assert (verdict.cause, verdict.began_ms) == ("poll_delay", BEGAN_MS + 1_000)
    assert f"{tmp_path}/client.log:1" in [line.where for line in verdict.evidence]


def test_lines_without_timestamps_are_counted(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    (tmp_path / "server.log").write_text(BROKER)
    (tmp_path / "client.log").write_text(_log(_with_clock))
    diagnosis = diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)]))
    assert [verdict.sources for verdict in diagnosis.verdicts] == [("broker_log",)]
    ((file, lines, example),) = diagnosis.unrecognized
    assert file.endswith("/client.log")
    assert lines == len(MESSAGES)
    assert example.startswith("(no date and time that could be read) 10:00:01.000 ")


def _dumped(time_ms: int, key: str, value: str) -> str:
    return json.dumps({"partition": 0, "offset": time_ms, "timestamp": time_ms, "key": key, "value": value}) + "\n"


def test_record_with_invalid_base64_is_counted(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    (tmp_path / "server.log").write_text(BROKER)
    (tmp_path / "consumer_offsets.jsonl").write_text(_dumped(BEGAN_MS, "AAIA=WcAA", "AAAA="))
    diagnosis = diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)]))
    assert [verdict.group for verdict in diagnosis.verdicts] == ["g"]
    ((file, lines, _),) = diagnosis.unrecognized
    assert (file.rpartition("/")[2], lines) == ("consumer_offsets.jsonl", 1)


def test_first_commit_begins_the_history(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    key = base64.b64encode(encode_key(OffsetKey("g", "t", 0))).decode()
    value = base64.b64encode(encode_offset_value(OffsetValue(7, -1, "", BEGAN_MS))).decode()
    (tmp_path / "server.log").write_text(BROKER)
    (tmp_path / "consumer_offsets.jsonl").write_text(
        "".join(_dumped(BEGAN_MS - after, key, value) for after in (17_000, 5_000))
    )
    (verdict,) = diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)])).verdicts
    assert verdict.began_ms == BEGAN_MS - 17_000


def test_librdkafka_log_gets_its_group_from_the_offsets(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.spark.doctor.job import diagnose

    shutil.copytree(CORPUS / "r301" / "clients", tmp_path / "clients")
    shutil.copy(CORPUS / "r301" / "consumer_offsets.jsonl", tmp_path)
    verdicts = {verdict.group: verdict for verdict in diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)])).verdicts}
    assert "client_log" in verdicts["orders-301"].sources
    assert verdicts["orders-301"].cause == "poll_delay"


def test_failure_without_a_group_is_in_the_nameless_group(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.doctor.history.summaries import NAMELESS_GROUP
    from slackwater.spark.doctor.job import diagnose

    overrun = "Application maximum poll interval (6000ms) exceeded by 12ms (adjust it): leaving group"
    lines = [f"%4|1777629600.{at}00|MAXPOLL|app#consumer-{at}| [thrd:main]: {overrun}\n" for at in (1, 2)]
    (tmp_path / "client.log").write_text("".join(lines))
    (verdict,) = diagnose(spark, DiagnosisRequest(paths=[str(tmp_path)])).verdicts
    assert verdict.group == NAMELESS_GROUP == "(group not named in the log)"
