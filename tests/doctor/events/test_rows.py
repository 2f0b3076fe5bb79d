"""What a row knows of itself."""

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
    ],
)
def test_label_is_the_file_name_without_suffix(file: str, label: str) -> None:
    assert Row(0, "kind", "client_log", file=file).label == label


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_one_millisecond_keep_file_order(seed: int) -> None:
    chance = random.Random(seed)
    sources = [EventSource.CLIENT_LOG, EventSource.BROKER_LOG, EventSource.OFFSETS_TOPIC, "other"]
    rows = [
        Row(chance.randrange(1 + seed), "kind", chance.choice(sources), file=chance.choice("ab"), position=position)
        for position in range(chance.randrange(30))
    ]
    chance.shuffle(rows)
    rank: dict[str, int] = {EventSource.BROKER_LOG: 0, EventSource.OFFSETS_TOPIC: 1, EventSource.CLIENT_LOG: 2}
    expected = sorted(rows, key=lambda one: (one.time_ms, rank.get(one.source, 3), one.file, one.position))
    assert in_order(rows) == expected


def test_rules_use_no_unsent_fields() -> None:
    asked = re.compile(r"\.detail_(?:text|number|names|value)\(\s*['\"](\w+)['\"]")
    sources = Path(doctor.__path__[0]).rglob("*.py")
    names = {name for source in sources for name in asked.findall(source.read_text())}
    assert {"reason", "old_generation", "member_ids", "group_protocol"} <= names
    assert not names & UNUSED_BY_RULES
