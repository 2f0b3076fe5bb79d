"""Lines read by the batch, compiled and plain: both find what the templates find in each line by itself."""

import re
from collections.abc import Sequence

import numpy as np
import pytest

from slackwater.doctor.templates.reasons import REASONS as REASON_FAMILY
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import Family, TemplateSet, compile_by_key
from slackwater.spark.doctor.history.kernels import Compiled, Kernels, Plain, Shelves, Texts
from slackwater.spark.doctor.history.patterns import UnknownPattern, compiled
from slackwater.spark.doctor.history.recognise import LINES as TEMPLATES
from slackwater.spark.doctor.history.recognise import WHY, Library, read, with_constants
from tests.doctor.lines import LINES, REASONS, consumer, java

OTHERS = [
    "nothing",
    "",
    "[GroupCoordinator 1]: Something that no version says (kafka.X)",
    java("Stabilized group größe 東京 generation 5 with 2 members."),
    java("Stabilized group g generation 99999999999999999999 with 2 members."),
    java("Stabilized group g generation x with 2 members."),
    consumer("Adding newly assigned partitions: "),
    "x" * 5000 + java("Preparing to rebalance group " + "g " * 3000),
]


@pytest.fixture(params=[Compiled, Plain])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    made: Kernels = request.param()
    return made


def as_texts(lines: Sequence[str]) -> Texts:
    """Lines one behind the other, and the constants behind them."""
    encoded = [line.encode() for line in lines]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return Texts(with_constants(data), ends[:-1].copy(), ends[1:].copy())


def found_in(lines: Sequence[str], made: Library, kernels: Kernels) -> list[dict[str, str] | None]:
    """Each line's values by slot, {} for one that is relevant and was not read, None for one that does not matter."""
    said = read(as_texts(lines), made, kernels)
    columns = {name: kernels.strings(said.slot(name)).to_pylist() for name in said.slots}
    rows = [{name: values[row] for name, values in columns.items() if values[row]} for row in range(len(lines))]
    return [row or ({} if unread else None) for row, unread in zip(rows, said.unread.tolist(), strict=True)]


def test_a_batch_of_lines_says_what_each_line_says(kernels: Kernels) -> None:
    lines = [*(line for line, _ in LINES), *OTHERS]
    alone = TemplateSet(FAMILIES)
    assert found_in(lines, TEMPLATES, kernels) == [alone.read(line) for line in lines]


def test_a_batch_of_reasons_says_what_each_reason_says(kernels: Kernels) -> None:
    reasons = [*(reason for reason, _ in REASONS), "of no kind that is known"]
    alone = TemplateSet((REASON_FAMILY,))
    assert found_in(reasons, WHY, kernels) == [alone.read(reason) for reason in reasons]


def test_numbers_are_whole_and_of_a_size_that_fits(kernels: Kernels) -> None:
    values, valid = kernels.numbers(as_texts(["7", "-12", "", "x", "1x", "-", "9" * 18, "9" * 19]))
    assert [int(value) if good else None for value, good in zip(values, valid, strict=True)] == [
        7,
        -12,
        None,
        None,
        None,
        None,
        10**18 - 1,
        None,
    ]


def test_the_numbers_of_a_layout_stand_where_it_has_zeros(kernels: Kernels) -> None:
    texts = as_texts(["<12:345>", "<00:001> and more", "<12:345", "<1a:345>", "(12:345>", ""])
    values, found = kernels.fields(texts, "<00:000>")
    assert found.tolist() == [True, True, False, False, False, False]
    assert values[:, found].tolist() == [[12, 0], [345, 1]]


@pytest.mark.parametrize("shortest", [3, 4, 5, 6, 9])
def test_a_word_is_found_wherever_it_stands_whatever_the_shortest_one_is(shortest: int) -> None:
    words = ["abcdefghijkl"[:shortest], "mnopqrstuvwx", "wxmnopqrst"]
    shelves = Shelves([[""]], [words], "mno pqr")
    lines = [
        fill * before + word + fill * after
        for word in words
        for fill in "-a"
        for before in range(9)
        for after in (0, 3)
    ]
    cut = [line[:-1] for line in lines]
    where = [Compiled().sort(as_texts([*lines, *cut]), shelves), Plain().sort(as_texts([*lines, *cut]), shelves)]
    assert where[0].tolist() == where[1].tolist()
    assert set(where[0][: len(lines)].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("family", [*FAMILIES, REASON_FAMILY], ids=[*(one.name for one in FAMILIES), "reason"])
def test_every_pattern_matches_where_python_says_it_does(family: Family) -> None:
    lines = [*(line for line, _ in LINES), *(reason for reason, _ in REASONS), *OTHERS[:-1]]
    texts = as_texts(lines)
    for made in (made for some in compile_by_key(family).values() for made in some):
        fast, slow = Compiled().match(texts, made.pattern), Plain().match(texts, made.pattern)
        assert fast.found.tolist() == slow.found.tolist(), made.pattern
        assert fast.places[fast.found].tolist() == slow.places[slow.found].tolist(), made.pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"a|bc|",
        r"(a|b)?(c)?d*e",
        r"x{2}y{1,3}(z?)",
        r"[^\]a-c]+?(\]|$)",
        r"(.*?)(.*)(b+)$",
        r"([a-z]+)([a-z]{2})c",
        r"(?:(a)|(b))(?:c|d)?[\s\S]*",
        r"\d*(\d\d)\W?(\w*?)e",
    ],
)
def test_the_dialect_means_what_python_means(pattern: str) -> None:
    letters = [
        "",
        *"abcdez",
        "xxyyyzz",
        "xxyyyyz",
        "aab]",
        "abbb",
        "abcabcab",
        "ad",
        "bd",
        "12345-abe",
        "a\nb",
        "ccdde",
    ]
    texts = as_texts([one + other for one in letters for other in letters])
    fast, slow = Compiled().match(texts, pattern), Plain().match(texts, pattern)
    assert fast.found.tolist() == slow.found.tolist()
    assert fast.found.any()
    assert fast.places[fast.found].tolist() == slow.places[slow.found].tolist()


@pytest.mark.parametrize("pattern", [r"(a)*", r"(?=a)b", r"a\b", r"(a", r"a)", r"[a", r"é", r"\1", r"(?P<n>a)", "a**"])
def test_what_is_not_of_the_dialect_is_refused(pattern: str) -> None:
    with pytest.raises(UnknownPattern, match=re.escape(repr(pattern))):
        compiled(pattern)


def test_a_text_that_would_take_for_ever_does_not_match() -> None:
    found, _ = Compiled().match(as_texts(["a" * 3000, "b"]), r"(.*)(.*)(.*)(.*)b$")
    assert found.tolist() == [False, True]
