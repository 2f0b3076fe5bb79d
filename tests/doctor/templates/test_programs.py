"""Lines of further programs, in the heads that their loggers write: Connect, Streams, clients in Go, Erlang, Ruby, …

`program_lines.txt` has one record per case: the lines, and after `=>` the values of the first event.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.history.test_log_events import rows


def _cases() -> Iterator[tuple[str, str]]:
    for record in Path(__file__).with_name("program_lines.txt").read_text().split("\n\n"):
        lines, arrow, expected = record.partition("\n=> ")
        if arrow:
            yield lines.strip("\n"), expected


@pytest.mark.parametrize(("lines", "expected"), list(_cases()))
def test_line_of_a_program_is_read(lines: str, expected: str) -> None:
    values = json.loads(expected)
    event = rows(lines)[0]
    assert {name: event.get(name) for name in values} == values
