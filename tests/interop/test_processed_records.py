"""Which records each client commits when a program leaves its loop: the table in docs/consumer.md."""

import re
from collections.abc import Callable
from typing import Final

import pytest

from slackwater import Admin, Producer
from slackwater.group.topic_partition import TopicPartition
from tests.interop.clients import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON, OURS, ROOT, Client
from tests.interop.conftest import Start

COUNT: Final = 10
COLUMNS: Final = (OURS, KAFKA_PYTHON, AIOKAFKA, CONFLUENT, JAVA)
MARKS: Final = {OURS: [], JAVA: [pytest.mark.java]}  # of the clients of every run
ROWS: Final = {
    ("single", "break"): "`break` in the fourth record, then `close()`",
    ("single", "raise"): "an exception in the fourth record, then `close()`",
    ("single", "hold"): "the fourth record takes longer than `auto.commit.interval.ms`, then a crash",
    ("single", "commit"): "`commit()` in the fourth record, then a crash",
    ("batch", "break"): "poll of ten records, `break` in the fourth, then `close()`",
    ("batch", "raise"): "poll of ten records, an exception in the fourth, then `close()`",
    ("batch", "hold"): "poll of ten records, the fourth takes longer than `auto.commit.interval.ms`, then a crash",
    ("batch", "commit"): "poll of ten records, `commit()` in the fourth, then a crash",
}


def documented(row: str) -> list[str]:
    """The cells of a row of the table, without its title."""
    page = (ROOT / "docs" / "consumer.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", page, re.MULTILINE)
    assert match is not None, f"docs/consumer.md has no row {row!r}"
    return [cell.strip() for cell in match[1].split("|")]


@pytest.mark.parametrize(
    "client",
    [pytest.param(client, marks=MARKS.get(client, [pytest.mark.repetition]), id=str(client)) for client in COLUMNS],
)
def test_committed_offsets_are_those_of_the_table(
    client: Client, running: Start, bootstrap: str, name: Callable[[str], str]
) -> None:
    driver = running(client)
    measured, expected = {}, {}
    for (style, end), row in ROWS.items():
        cell = documented(row)[COLUMNS.index(client)]
        if cell == "–":
            continue
        topic = name(f"loop-{client}-{style}-{end}")
        with Admin({"bootstrap.servers": bootstrap}) as admin:
            admin.create_topic(topic, 1)
            with Producer({"bootstrap.servers": bootstrap}) as producer:
                for number in range(COUNT):
                    producer.send(topic, b"%d" % number)
            driver.call("loop", topic=topic, group=topic, style=style, end=end)
            commit = admin.committed(topic).get(TopicPartition(topic, 0))
        expected[row] = cell
        measured[row] = "nothing" if commit is None else str(commit.offset)
    assert measured == expected
