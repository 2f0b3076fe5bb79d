"""The fields of a row, and the order of rows."""

import random
import re
from pathlib import Path

import pytest

from slackwater import doctor
from slackwater.doctor.events.rows import Row, in_order
from slackwater.doctor.events.table import UNUSED_BY_RULES
from slackwater.group.events import EventSource


@pytest.mark.parametrize(
    ("file", "label"),
    [
        ("/var/log/orders.log", "orders"),
        ("orders.log.3", "orders"),
        ("orders.log.2026-11-16-08.gz", "orders"),
        ("orders.out", "orders"),
        ("logs/eu.west.3.log", "eu.west.3"),
        ("eu.west", "eu.west"),
        ("orders.gz", "orders"),
        ("/tmp/log.txt", "the client in log.txt"),
        ("stdout.log.2026-11-16-08.gz", "the client in stdout.log"),
        ("logs/3.log", "the client in 3.log"),
        ("stdin", "the client in standard input"),
    ],
)
def test_label_is_the_file_name_without_suffix(file: str, label: str) -> None:
    assert Row(0, "kind", "client_log", file=file).label == label


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_one_millisecond_keep_file_order(seed: int) -> None:
    random_source = random.Random(seed)
    sources = [EventSource.CLIENT_LOG, EventSource.BROKER_LOG, EventSource.OFFSETS_TOPIC, "other"]
    rows = [
        Row(
            random_source.randrange(1 + seed),
            "kind",
            random_source.choice(sources),
            file=random_source.choice("ab"),
            position=position,
        )
        for position in range(random_source.randrange(30))
    ]
    random_source.shuffle(rows)
    rank: dict[str, int] = {EventSource.BROKER_LOG: 0, EventSource.OFFSETS_TOPIC: 1, EventSource.CLIENT_LOG: 2}
    expected = sorted(rows, key=lambda row: (row.time_ms, rank.get(row.source, 3), row.file, row.position))
    assert in_order(rows) == expected


def test_rules_use_no_unsent_fields() -> None:
    field_access = re.compile(r"\.detail_(?:text|number|names|value)\(\s*['\"](\w+)['\"]")
    sources = Path(doctor.__path__[0]).rglob("*.py")
    names = {name for source in sources for name in field_access.findall(source.read_text())}
    assert {"reason", "old_generation", "member_ids", "group_protocol"} <= names
    assert not names & UNUSED_BY_RULES
