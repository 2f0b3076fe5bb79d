"""Lines to rows: for a block of lines, prefilter and templates give the same values as for each single line."""

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.doctor.events.table import COLUMNS, DETAIL, LIST, LONG
from slackwater.doctor.history.lines import MAX_LINE_LENGTH, LinePrefilter, find_lines
from slackwater.doctor.history.log_events import LogReader
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import TemplateSet
from tests.doctor.lines import LINES, M, N, consumer, java

LONG_LINE = "x" * 5000 + java("Preparing to rebalance group " + "g " * 3000)
OTHER_LINES = [
    "nothing",
    "[GroupCoordinator 1]: A message of no known version (kafka.X)",
    java("Stabilized group größe 東京 generation 5 with 2 members."),
    java("Stabilized group g generation x with 2 members."),
    consumer("Adding newly assigned partitions: "),
    LONG_LINE,
]


def read(text: str | bytes, file: str = "app.log") -> pa.Table:
    """Read a block of lines."""
    data = text if isinstance(text, bytes) else text.encode()
    return LogReader({}, "UTC").read(file, find_lines(data))


def rows(text: str | bytes) -> list[dict[str, object]]:
    """Return the rows of a block, without nulls."""
    return [{name: value for name, value in row.items() if value is not None} for row in read(text).to_pylist()]


def _texts(values: dict[str, str]) -> dict[str, str]:
    """Return the text values, which a row contains unchanged."""
    changed = ("group", "assignor", "instance", "trigger", "member", "culprit", "client_reason", "member_ids")
    kinds = COLUMNS | DETAIL
    return {
        name: value
        for name, value in values.items()
        if name not in (*changed, "head") and kinds.get(name) not in (LONG, LIST, "boolean")
    }


def test_block_has_the_values_of_its_single_lines() -> None:
    lines = [line for line, _ in LINES if not line.startswith("{")] + OTHER_LINES
    templates = TemplateSet(FAMILIES)
    row_by_text: dict[str, dict[str, object]] = {}
    for event in rows("\n".join(lines)):
        row_by_text.setdefault(str(event["text"]), event)
    for line in lines:
        values = templates.read(line)
        row = row_by_text.get(line.rstrip(" "))
        if values is None or (values and not values.get("kind")):
            assert row is None, line
        else:
            assert row is not None, line
            if "error" in values:  # its code is added
                assert str(row["error"]).endswith(values.pop("error")), line
            assert {name: row.get(name) for name in _texts(values)} == _texts(values)


def test_line_of_the_catalogue_has_its_position() -> None:
    lines = [line for line, values in LINES if values and not line.startswith(("{", "\t"))]
    block = "\n".join(["other", *lines])
    for row in read(block).to_pylist():
        assert block.encode()[row["position"] :].startswith(str(row["text"]).encode()[:20])


def test_line_with_invalid_utf8_is_read_with_replacements() -> None:
    (row,) = rows(b"\xff" + java("Stabilized group g\xff generation 5 with 2 members.").encode("latin-1") + b"\n")
    assert (row["group"], row["generation"]) == ("g\ufffd", 5)


def test_number_that_does_not_fit_is_left_out() -> None:
    (row,) = rows(java(f"Stabilized group g generation {'9' * 20} with 2 members."))
    assert (row["members"], row.get("generation")) == (2, None)


def test_too_long_line_is_reported_as_unread() -> None:
    long = java("Stabilized group " + "g" * MAX_LINE_LENGTH + " generation 5 with 2 members.")
    short = java("Stabilized group g generation 5 with 2 members.")
    first, second = rows(f"{long}\n{short}")
    assert "template" not in first
    assert str(first["text"]).startswith(f"(line of {len(long)} characters, longer than {MAX_LINE_LENGTH}) [2026")
    assert (second["template"], second["position"]) == ("stabilized", len(long) + 1)


def test_long_line_without_a_marker_is_not_reported() -> None:
    assert rows("x" * (2 * MAX_LINE_LENGTH)) == []


def test_line_that_almost_matches_many_times_is_unread() -> None:
    (row,) = rows(java("Preparing to rebalance group g in state Stable " + "with old generation " * 1000))
    assert "template" not in row


def test_removed_members_become_one_row_each() -> None:
    removed = rows(java(f"Group g removed dynamic members who haven't joined: [{M}, {N}]"))
    assert [row["member"] for row in removed] == [M, N]


@pytest.mark.parametrize("before", ["", "-", "ab" * 50])
def test_prefilter_finds_literals_anywhere_in_a_line(before: str) -> None:
    prefilter = LinePrefilter(["abc", "bcd", "{"])
    block = f"none\n{before}abcd\nab\ncd\n{before}abc{{\n".encode()
    lines = [(block[start:end].decode(), literals) for start, end, literals in prefilter.scan(block)]
    assert lines == [(f"{before}abcd", 0b011), (f"{before}abc{{", 0b101)]
    assert prefilter.literals_in("xbcd{") == 0b110
