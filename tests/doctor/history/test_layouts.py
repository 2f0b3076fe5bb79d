"""Heads, tails, colours and quoting around a message do not change its event."""

import json
from collections.abc import Callable

import pytest

from slackwater.doctor.history.layouts import normalize
from tests.doctor.history.test_log_events import rows
from tests.doctor.lines import consumer, kafkajs, rdkafka

LINE = consumer("Request joining group due to: group is already rebalancing")
WRAPPERS: dict[str, Callable[[str], str]] = {
    "colour": lambda line: f"\x1b[36mworker_1 |\x1b[0m {line}",
    "compose": lambda line: f"worker_1  | {line}",
    "container": lambda line: f"2026-05-01T10:00:00.123Z stdout F {line}",
    "quote": lambda line: f"> {line}",
    "bold": lambda line: f"**{line}**",
    "code": lambda line: f"`{line}`",
    "thread": lambda line: f"{line} [main]",
    "line number": lambda line: line[:-1] + ":476)",
    "structlog": lambda line: json.dumps({"event": line, "level": "info"}),
    "logstash": lambda line: json.dumps({"@timestamp": "2026-05-01T10:00:00.123Z", "message": line}),
    "syslog json": lambda line: "Aug  9 02:47:44 host1: " + json.dumps({"level": "INFO", "message": line}),
}


def _event(line: str) -> dict[str, object]:
    (row,) = rows(line)
    return {name: value for name, value in row.items() if name not in ("text", "position")}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped_line_has_the_same_event(name: str) -> None:
    assert _event(WRAPPERS[name](LINE)) == _event(LINE)


def test_journal_in_json_has_its_time() -> None:
    message = "[Consumer clientId=a, groupId=g] Request joining group due to: group is already rebalancing"
    entry = {"__REALTIME_TIMESTAMP": "1777629600123456", "MESSAGE": message}
    event = _event(json.dumps(entry))
    assert (event["time_ms"], event["group"]) == (1777629600123, "g")


@pytest.mark.parametrize("head", ["EVENT_LOG-4-MAXPOLL: ", "LOG-4-MAXPOLL: ", "10:00 app MAXPOLL: "])
def test_librdkafka_line_of_a_callback_is_read(head: str) -> None:
    message = "Application maximum poll interval (6000ms) exceeded by 12ms (adjust it): leaving group"
    event = _event(f"{head}[thrd:main]: {message}")
    assert (event["kind"], event["limit_ms"], event["over_ms"]) == ("poll_overrun", 6000, 12)
    assert "client" not in event
    assert normalize(rdkafka("MAXPOLL", message)) == rdkafka("MAXPOLL", message)


def test_kafkajs_line_of_an_own_log_creator_is_read() -> None:
    timestamp = '"timestamp":"2026-05-01T10:00:00.123Z"'
    own = f'INFO [Consumer] Starting: {{{timestamp},"logger":"kafkajs","groupId":"g"}}'
    assert _event(own) == _event(kafkajs("[Consumer] Starting", '"groupId":"g"'))
