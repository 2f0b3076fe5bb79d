"""Timestamps of lines, in the layouts that loggers use."""

import pytest

from slackwater.doctor.history.timestamps import parse_timestamp, zone_of
from tests.doctor.history.test_log_events import rows
from tests.doctor.lines import consumer

NOON = 1_778_068_800_000
"""2026-05-06 12:00:00 UTC."""

TIMESTAMPS = [
    ("[2026-05-06 12:00:00,123] INFO ", "UTC", NOON + 123),
    ("[2026-05-06 14:00:00,123] INFO ", "Europe/Berlin", NOON + 123),
    ("[2026-05-06 14:00:00,123] INFO ", "+02:00", NOON + 123),
    ("[2026-05-06 12:00:00,1239] INFO ", "UTC", NOON + 123),
    ("[2026-05-06 14:00:00,123+0200] INFO ", "UTC", NOON + 123),
    ("[2026-05-06 12:00:00,123", "UTC", NOON + 123),
    ("2026-05-06T12:00:00.123456789Z stdout F [2026-05-06 14:00:00,999] INFO ", "Europe/Berlin", NOON + 123),
    ("2026-05-06T14:00:00.1+02:00 INFO ", "UTC", NOON + 100),
    ("2026-05-06 14:00:00.123 +0200 INFO ", "UTC", NOON + 123),
    ("2026-05-06 12:00:00 INFO kafka.coordinator ", "UTC", NOON),
    ("26/05/06 12:00:00 INFO ConsumerCoordinator: ", "UTC", NOON),
    ("26/05/06 14:00:00.123 WARN ", "Europe/Berlin", NOON + 123),
    (f'{{"epochSecond":{NOON // 1000},"nanoOfSecond":5000000}}', "Asia/Tokyo", NOON + 5),
    ("26/13/06 12:00:00 INFO ", "UTC", None),
    ("[sarama] 2026/05/06 12:00:00.123456 ", "UTC", NOON + 123),
    ("06 May 2026 12:00:00,123 INFO ", "UTC", NOON + 123),
    ("06/May/2026:14:00:00 +0200 ", "UTC", NOON),
    ('{"level":"INFO","timestamp":"2026-05-06T12:00:00.123Z",', "Asia/Tokyo", NOON + 123),
    (f"%4|{NOON // 1000}.123|", "Asia/Tokyo", NOON + 123),
    (f"{NOON + 123} INFO ", "Asia/Tokyo", NOON + 123),
    (f"{NOON // 1000}.123456 INFO ", "Asia/Tokyo", NOON + 123),
    (f"{NOON // 1000} INFO ", "Asia/Tokyo", NOON),
    ("[2026-03-29 02:30:00,000] INFO ", "Europe/Berlin", 1_774_747_800_000),
    ("[2026-10-25 02:30:00,000] INFO ", "Europe/Berlin", 1_792_888_200_000),
    ("[2024-02-29 00:00:00,000] INFO ", "UTC", 1_709_164_800_000),
    ("[2026-02-29 00:00:00,000] INFO ", "UTC", None),
    ("INFO ", "UTC", None),
    ("12:00:00,123 INFO ", "UTC", None),
    ("[2026-13-45 99:00:00,123] INFO ", "UTC", None),
    ("", "UTC", None),
]
LEFT = consumer("Member x sending LeaveGroup request to coordinator y").partition("] ")[2]


@pytest.mark.parametrize(("text", "zone", "time_ms"), TIMESTAMPS)
def test_layout_is_parsed(text: str, zone: str, time_ms: int | None) -> None:
    assert parse_timestamp(text, zone) == time_ms


def test_wrapper_timestamp_counts_where_the_line_has_none() -> None:
    wrapped = '{"time": "2026-05-06T12:00:00.5Z", "message": "%s"}'
    parsed = rows("\n".join([wrapped % LEFT, wrapped % f"[2026-05-06 12:00:01,000] {LEFT}"]))
    assert [row["time_ms"] for row in parsed] == [NOON + 500, NOON + 1000]


def test_wrapper_timestamp_may_be_an_object() -> None:
    instant = f'{{"epochSecond":{NOON // 1000},"nanoOfSecond":5000000}}'
    (row,) = rows(f'{{"instant":{instant},"level":"INFO","message":"{LEFT}"}}')
    assert row["time_ms"] == NOON + 5


def test_line_without_timestamp_has_the_time_of_its_neighbour() -> None:
    setting = "\tclient.id = app-1"
    early, late = f"[2026-05-06 12:00:00,000] {LEFT}", f"[2026-05-06 12:00:05,000] {LEFT}"
    parsed = rows("\n".join([setting, early, setting, late, setting]))
    assert [row["time_ms"] for row in parsed] == [NOON, NOON, NOON, NOON + 5000, NOON + 5000]


def test_file_has_the_zone_of_the_first_matching_path_part() -> None:
    zones = {"/eu/": "Europe/Berlin", "/eu/west/": "Europe/Lisbon"}
    assert zone_of("file:/logs/eu/west/a.log", zones) == "Europe/Berlin"
    assert zone_of("file:/logs/us/a.log", zones, "America/New_York") == "America/New_York"
