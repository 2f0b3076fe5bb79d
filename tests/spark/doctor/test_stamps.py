"""Times of lines, in the layouts that people have."""

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.spark.doctor.history.kernels import Compiled, Kernels, Plain
from slackwater.spark.doctor.history.log_events import Reader
from slackwater.spark.doctor.history.stamps import time_ms, zone_of
from tests.doctor.lines import consumer
from tests.spark.doctor.test_recognise import as_texts

NOON = 1_778_068_800_000
"""2026-05-06 12:00:00 UTC."""

HEADS = [
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


@pytest.fixture(params=[Compiled, Plain])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    made: Kernels = request.param()
    return made


def test_a_stamp_is_understood_in_every_layout(kernels: Kernels) -> None:
    heads = as_texts([head for head, _, _ in HEADS])
    times, known = time_ms(heads, np.array([zone for _, zone, _ in HEADS], np.object_), kernels)
    found = [int(time) if told else None for time, told in zip(times, known, strict=True)]
    assert dict(zip([head for head, _, _ in HEADS], found, strict=True)) == {head: ms for head, _, ms in HEADS}


def _read(texts: list[str], stamps: list[str | None], kernels: Kernels) -> list[int | None]:
    nothing = [None] * len(texts)
    lines = pa.record_batch(
        {
            "file": pa.array(["app.log"] * len(texts)),
            "position": pa.array(range(len(texts))),
            "text": pa.array(texts),
            "stamp": pa.array(stamps, pa.string()),
            "what": pa.array(nothing, pa.string()),
        }
    )
    rows = Reader({}, "UTC").rows(lines, kernels)
    times: list[int | None] = rows["time_ms"].to_pylist()
    return times


def test_a_wrappers_time_counts_where_the_line_has_none(kernels: Kernels) -> None:
    left = consumer("Member x sending LeaveGroup request to coordinator y")
    bare = left.partition("] ")[2]
    wrapped = "2026-05-06T12:00:00.5Z"
    assert _read([bare, "[2026-05-06 12:00:01,000] " + bare], [wrapped, wrapped], kernels) == [NOON + 500, NOON + 1000]


def test_a_line_without_a_time_has_that_of_the_line_before_or_else_of_the_one_after(kernels: Kernels) -> None:
    setting, line = (
        "\tclient.id = app-1",
        consumer("Member x sending LeaveGroup request to coordinator y").partition("] ")[2],
    )
    early, late = f"[2026-05-06 12:00:00,000] {line}", f"[2026-05-06 12:00:05,000] {line}"
    texts = [setting, early, setting, late, setting]
    assert _read(texts, [None] * 5, kernels) == [NOON, NOON, NOON, NOON + 5000, NOON + 5000]


def test_a_file_has_the_zone_of_the_first_part_that_is_in_its_path() -> None:
    zones = {"/eu/": "Europe/Berlin", "/eu/west/": "Europe/Lisbon"}
    assert zone_of("file:/logs/eu/west/a.log", zones) == "Europe/Berlin"
    assert zone_of("file:/logs/us/a.log", zones, "America/New_York") == "America/New_York"
