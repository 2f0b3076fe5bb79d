"""Times of lines, in the layouts that people have."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = 1_778_068_800_000
"""2026-05-06 12:00:00 UTC."""

HEADS = [
    ("[2026-05-06 12:00:00,123] INFO ", "UTC", NOON + 123),
    ("[2026-05-06 14:00:00,123] INFO ", "Europe/Berlin", NOON + 123),
    ("[2026-05-06 14:00:00,123] INFO ", "+02:00", NOON + 123),
    ("2026-05-06T12:00:00.123456789Z stdout F [2026-05-06 14:00:00,999] INFO ", "Europe/Berlin", NOON + 123),
    ("2026-05-06T14:00:00.1+02:00 INFO ", "UTC", NOON + 100),
    ("2026-05-06 14:00:00.123 +0200 INFO ", "UTC", NOON + 123),
    ("2026-05-06 12:00:00 INFO kafka.coordinator ", "UTC", NOON),
    ("[sarama] 2026/05/06 12:00:00.123456 ", "UTC", NOON + 123),
    ("06 May 2026 12:00:00,123 INFO ", "UTC", NOON + 123),
    ("06/May/2026:14:00:00 +0200 ", "UTC", NOON),
    ('{"level":"INFO","timestamp":"2026-05-06T12:00:00.123Z",', "Asia/Tokyo", NOON + 123),
    (f"%4|{NOON // 1000}.123|", "Asia/Tokyo", NOON + 123),
    (f"{NOON + 123} INFO ", "Asia/Tokyo", NOON + 123),
    (f"{NOON // 1000}.123456 INFO ", "Asia/Tokyo", NOON + 123),
    (f"{NOON // 1000} INFO ", "Asia/Tokyo", NOON),
    ("INFO ", "UTC", None),
    ("12:00:00,123 INFO ", "UTC", None),
    ("[2026-13-45 99:00:00,123] INFO ", "UTC", None),
    ("", "UTC", None),
]


@pytest.mark.parametrize("session_zone", ["UTC", "America/New_York"])
def test_a_stamp_is_understood_in_every_layout_whatever_the_sessions_zone(
    spark: "SparkSession", session_zone: str
) -> None:
    from slackwater.spark.history.stamps import time_ms

    rows = [(number, head, zone) for number, (head, zone, _) in enumerate(HEADS)]
    table = spark.createDataFrame(rows, "number INT, head STRING, zone STRING")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", session_zone)
    try:
        read = table.select("number", time_ms("head", "CAST(NULL AS string)", "zone").alias("ms"))
        found = {row.number: row.ms for row in read.collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert {head: found[number] for number, (head, _, _) in enumerate(HEADS)} == {head: ms for head, _, ms in HEADS}


def test_a_wrappers_time_counts_where_the_line_has_none(spark: "SparkSession") -> None:
    from slackwater.spark.history.stamps import time_ms

    wrapper = "'2026-05-06T12:00:00.5Z'"
    row = spark.range(1).select(
        time_ms("'INFO '", wrapper, "'UTC'").alias("without"),
        time_ms("'[2026-05-06 12:00:01,000] '", wrapper, "'UTC'").alias("with_one"),
    )
    assert row.first() == (NOON + 500, NOON + 1000)
