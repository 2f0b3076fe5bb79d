"""Known lines in random combinations of heads, tails, colours, JSON and cuts have the same events."""

import json
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from slackwater.doctor.history.lines import find_lines
from slackwater.doctor.history.log_events import LogReader
from tests.doctor.lines import LINES

Wrapper = Callable[[str], str]
KNOWN: Final = [
    line for line, values in LINES if values.get("kind") and not line.startswith(("{", "\t", "kafka.errors"))
]
STAMP: Final = "2026-05-01T10:00:00.123Z"
HEADS: Final = (
    "worker-1  | ",
    "\x1b[36mworker-1  |\x1b[0m ",
    f"{STAMP} stdout F ",
    "> ",
    ">> ",
    "Aug  9 02:47:44 host1 app[12]: ",
    "INFO  ",
    "10:00:00.123 [main] WARN  a.b.C - ",
    "2026-05-01 10:00:00,123 [12] INFO  App.Kafka (null) - ",
    "[INFO] [05/01/2026 10:00:00.123] [system-akka.actor.default-dispatcher-5] ",
    f"{STAMP}\t",
)
KAFKA_TAILS: Final = ("", " [main]", " [data-plane-kafka-request-handler-10]", " - app=connect, server=0")
"""What stands after the logger in Kafka's layout."""
FIELDS: Final = ("message", "msg", "event", "log", "textPayload")


def _head(head: str) -> Wrapper:
    return lambda line: head + line


def _tail(tail: str) -> Wrapper:
    return lambda line: line + tail if " (kafka." in line or " (org.apache." in line else line


def _numbered(line: str) -> str:
    """The logger with a line number, as Confluent's images log it."""
    return line[:-1] + ":476)" if line.endswith(("Coordinator)", "X)", "Manager)")) else line


def _coloured(line: str) -> str:
    return f"\x1b[1m\x1b[33m{line}\x1b[0m"


def _bold(line: str) -> str:
    return f"**{line}**"


def _json(field: str, before: bool, cut: int) -> Wrapper:
    """An object with the line in a field, cut off after it."""

    def wrap(line: str) -> str:
        others = {"level": "INFO", "logger_name": "a.b.C"}
        fields = {**others, field: line} if before else {field: line, **others}
        text = json.dumps(fields)
        end = text.index(json.dumps(line)) + len(json.dumps(line))
        return text[: max(end, len(text) - cut)]

    return wrap


inner: Final = st.lists(st.sampled_from(KAFKA_TAILS).map(_tail) | st.just(_numbered), max_size=1)
plain: Final = st.lists(
    st.sampled_from(HEADS).map(_head) | st.sampled_from([_coloured, _bold]), max_size=3, unique_by=lambda wrap: wrap
)
objects: Final = st.lists(
    st.builds(_json, st.sampled_from(FIELDS), st.booleans(), st.integers(0, 40)), min_size=1, max_size=1
)
outer: Final = st.lists(st.sampled_from(HEADS).map(_head), max_size=1)


def _events(line: str) -> list[dict[str, Any]]:
    rows = LogReader({}, "UTC").read("app.log", find_lines(line.encode())).to_pylist()
    ignored = ("time_ms", "position", "text", "file", "client")
    return [{name: value for name, value in row.items() if value is not None and name not in ignored} for row in rows]


@given(st.sampled_from(KNOWN), inner, plain)
def test_wrapped_line_keeps_its_event(line: str, near: Sequence[Wrapper], around: Sequence[Wrapper]) -> None:
    assert _events(reduce(lambda text, wrap: wrap(text), [*near, *around], line)) == _events(line)


@given(st.sampled_from(KNOWN), inner, objects, outer)
def test_line_in_json_keeps_its_event(
    line: str, near: Sequence[Wrapper], json_object: Sequence[Wrapper], before: Sequence[Wrapper]
) -> None:
    assert _events(reduce(lambda text, wrap: wrap(text), [*near, *json_object, *before], line)) == _events(line)


@given(st.sampled_from(KNOWN), plain)
def test_wrapped_line_keeps_a_time(line: str, around: Sequence[Wrapper]) -> None:
    wrapped = reduce(lambda text, wrap: wrap(text), around, line)
    (row, *_) = LogReader({}, "UTC").read("app.log", find_lines(wrapped.encode())).to_pylist()
    assert row["time_ms"] is not None
