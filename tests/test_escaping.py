"""Control characters are escaped in values, lines, JSON, and in every line that this package logs."""

import importlib
import io
import json
import logging
import pkgutil
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater
from slackwater.escaping import escape, escape_json, escape_line, get_logger, unescape
from tests.properties.test_log_line_escapes import UNSAFE


@given(st.text(st.one_of(st.sampled_from(UNSAFE), st.characters(exclude_categories=["Cs"]), st.sampled_from("\\xu01"))))
def test_escape_can_be_undone(value: str) -> None:
    escaped = escape(value)

    assert unescape(escaped) == value
    assert not set(escaped) & set(UNSAFE)
    assert escape_line(escaped) == escaped


@pytest.mark.parametrize(
    "value", ["orders-1", "größe 東京", "DOMAIN\\user", "C:\\new\\xavier", "نمی‌خواهم", "a b", "[bold]"]
)
def test_ordinary_ids_stay_as_they_are(value: str) -> None:
    assert escape(value) == escape_line(value) == unescape(value) == value


def test_escapes_show_the_code_of_the_character() -> None:
    assert escape("a\n\x1b[1m\x7f\x9b\u202e\ud800\\x0a") == "a\\x0a\\x1b[1m\\x7f\\u009b\\u202e\\ud800\\x5cx0a"
    assert escape_line("a\n\\x0a") == "a\\x0a\\x0a"
    assert escape_json('{"a": "\u009b\ud800é"}') == '{"a": "\\u009b\\ud800é"}'


@given(st.text(st.one_of(st.sampled_from(UNSAFE), st.characters(exclude_categories=["Cs"]))))
def test_escaped_json_is_the_same_document(value: str) -> None:
    document = escape_json(json.dumps([value], ensure_ascii=False))

    assert json.loads(document) == [value]
    assert not set(document) & set(UNSAFE)


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What an application's own handler writes."""
    handler, root = logging.StreamHandler(out := io.StringIO()), logging.getLogger()
    root.addHandler(handler)
    yield out
    root.removeHandler(handler)


def test_log_line_is_escaped_for_every_handler(output: io.StringIO) -> None:
    get_logger("slackwater.test").warning("Topic %s has %d partitions: %s", "a\nb\x1b[2J", 3, ValueError("c\rd"))

    assert output.getvalue() == "Topic a\\x0ab\\x1b[2J has 3 partitions: c\\x0dd\n"


def test_ordinary_log_record_keeps_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("slackwater.test").warning("Topic %s has %d partitions.", "größe", 3)

    assert (caplog.records[0].msg, caplog.records[0].args) == ("Topic %s has %d partitions.", ("größe", 3))


def test_traceback_has_no_line_of_an_exception_message(output: io.StringIO) -> None:
    try:
        try:
            raise KeyError("cause")
        except KeyError as error:
            raise ValueError("a\n[GroupCoordinator id=1] forged\x1b[2J") from error
    except ValueError:
        get_logger("slackwater.test").exception("It failed.")

    lines = output.getvalue().split("\n")
    assert lines[0] == "It failed."
    assert "KeyError: 'cause'" in lines
    assert "ValueError: a\\x0a[GroupCoordinator id=1] forged\\x1b[2J" in lines


def test_every_logger_of_the_package_escapes() -> None:
    plain = get_logger("slackwater.test").filters
    for found in pkgutil.walk_packages(slackwater.__path__, "slackwater."):
        if found.name.rpartition(".")[2] == "__main__":
            continue
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, logging.Logger):
                assert value.filters == plain, found.name
