"""Patterns of ListTransactions match whole ids, in linear time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.broker.slices import run_to_completion
from slackwater.broker.transactions.id_pattern import compile_pattern

PARTS = [
    *"abA.|()*+?^$",
    *("[ab]", "[^a]", "[a-c]", r"\.", r"\d", r"\w", "(?:", "(?i:", "a{2}", "b{1,2}", "[ab]{0,2}", "b{2,}", "*?"),
]


def matches(pattern: str, name: str) -> bool:
    compiled = compile_pattern(pattern)
    assert compiled is not None
    return run_to_completion(compiled.matches(name))


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("app-.*", "app-1", "my-app-1"),
        ("app-[0-9]+", "app-12", "app-1x"),
        (".*-(blue|green)", "a-green", "a-red"),
        (r"a\.b", "a.b", "axb"),
        (r"[*+?|(){}]+\*", "(*+?*", "a*"),
        ("(?i)APP", "app", "ap"),
        ("(?i:A)B", "aB", "ab"),
        ("(?:a|b)c", "bc", "c"),
        ("(?P<part>a)b?", "ab", "b"),
        ("(?<part>a)b?", "a", "b"),
        (r"\w{2,3}", "abc", "a"),
        (r"\x41+", "AA", "a"),
        ("^a.c$", "abc", "a\nc"),
        ("(?s)a.c", "a\nc", "ac"),
        (r"app\-[0-9a-f]{8}-[0-9]+-[0-9]+-[0-9]+-[0-9]+", "app-0123abcd-1-2-3-4", "app-0123abc-1-2-3-4"),
        ("", "", "a"),
    ],
)
def test_pattern_matches_whole_ids(pattern: str, matching: str, other: str) -> None:
    assert matches(pattern, matching)
    assert not matches(pattern, other)


@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join), st.text("abAB1.-", max_size=6))
def test_pattern_matches_the_same_ids_as_re(pattern: str, name: str) -> None:
    compiled = compile_pattern(pattern)
    if compiled is not None:
        try:
            expected = re.compile(pattern).fullmatch(name) is not None
        except re.error:  # RE2 accepts `^*`
            return
        assert run_to_completion(compiled.matches(name)) is expected


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("(((a+)+)+)+b", "a" * 5_000),
        ("(a|a)" * 30 + "b", "a" * 30),
        ("a?a?a?a?a?a?a?a?a*a*a*a*b", "a" * 500),
        ("(a*)*b", "a" * 5_000),
        ("(a{0,20}){0,20}b", "a" * 400),
    ],
    ids=["nested", "alternatives", "optional", "empty", "counted"],
)
def test_time_is_linear(pattern: str, name: str) -> None:
    """`re` takes minutes for each of them, and `complete` of an exponential search would not end."""
    assert not matches(pattern, name)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[a",
        "*",
        "a**",
        "a++",
        "a{3,2}",
        "(?i)*",
        r"(a)\1",
        r"\ba",
        r"\Aa",
        "(?=a)a",
        "(?<!a)b",
        "(?P=name)",
        "[[:alpha:]]",
        "[b-a]",
        "(a{1000}){1000}",
        "(" * 40 + ")" * 40,
        "a" * 1_001,
        "\\",
        "((((){999}){999}){999}){999}",  # a million million copies of nothing
    ],
)
def test_invalid_patterns(pattern: str) -> None:
    assert compile_pattern(pattern) is None
