"""Patterns of ListTransactions: valid ones match whole ids, and slow ones are invalid."""

import pytest

from slackwater.broker.transactions.id_pattern import MAX_ID_CHARACTERS, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("app-.*", "app-1", "my-app-1"),
        ("app-[0-9]+", "app-12", "app-1x"),
        (".*-(blue|green)", "a-green", "a-red"),
        (r"a\.b", "a.b", "axb"),
        (r"[*+?|(){}]+\*", "(*+?*", "a*"),
        ("(?i)APP", "app", "ap"),
        ("(?:a|b)c", "bc", "c"),
        ("(?P<part>a)b?", "ab", "b"),
        (r"\w{2,3}", "abc", "a"),
        (r"app\-[0-9a-f]{8}-[0-9]+-[0-9]+-[0-9]+-[0-9]+", "app-0123abcd-1-2-3-4", "app-0123abc-1-2-3-4"),
        ("", "", "a"),
    ],
)
def test_pattern_matches_whole_ids(pattern: str, matching: str, other: str) -> None:
    matches = compile_pattern(pattern)

    assert matches is not None
    assert matches(matching)
    assert not matches(other)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "*",
        "(a+)+b",
        "(a|a)*b",
        "((a|b)c)+",
        "(a?){9}",
        "(a{2}){2}",
        "a*a*a*a*a*b",
        "a?" * 9,
        r"(a)\1",
        "(?=a)a",
        "(?<!a)b",
        "(?P=name)",
    ],
)
def test_invalid_or_slow_patterns(pattern: str) -> None:
    assert compile_pattern(pattern) is None


def test_long_ids_do_not_match() -> None:
    matches = compile_pattern("a.*")

    assert matches is not None
    assert matches("a" * MAX_ID_CHARACTERS)
    assert not matches("a" * (MAX_ID_CHARACTERS + 1))
