"""Every wording of section 14 is recognised, by the templates alone."""

import re

import pytest

from slackwater.doctor.events.table import COLUMNS, DETAIL, FactKind
from slackwater.doctor.templates.reasons import REASONS as REASON_FAMILY
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import SLOTS, Family, TemplateSet, compile_by_key
from slackwater.group.events import EventKind, Trigger
from tests.doctor.lines import LINES, REASONS, M

RECOGNISER = TemplateSet(FAMILIES)
FAMILY_NAMES = [family.name for family in FAMILIES]


@pytest.mark.parametrize(("line", "said"), LINES, ids=[line[-60:] for line, _ in LINES])
def test_a_line_of_the_catalogue_says_what_it_says(line: str, said: dict[str, str]) -> None:
    found = RECOGNISER.read(line)
    assert found, "no template reads this line"
    assert {slot: found.get(slot) for slot in said} == said
    assert bool(found.get("kind")) == bool(said), "a line that is no event has no kind"


@pytest.mark.parametrize(("reason", "trigger"), REASONS, ids=[reason[:50] for reason, _ in REASONS])
def test_a_reason_tells_its_trigger(reason: str, trigger: str) -> None:
    found = TemplateSet((REASON_FAMILY,)).read(reason)
    assert found is not None
    assert found["trigger"] == trigger
    assert trigger in set(Trigger)
    if M in reason:
        assert M in found.get("culprit", "") or M in found.get("member_ids", "")


@pytest.mark.parametrize("family", [*FAMILIES, REASON_FAMILY], ids=[*FAMILY_NAMES, "reason"])
def test_a_family_fills_only_columns_that_there_are(family: Family) -> None:
    known = {*COLUMNS, *DETAIL, "template", "kind", "source", "head"}
    assert set(SLOTS) <= known
    for key, absences in compile_by_key(family).items():
        for made in absences:
            assert {*made.groups, *made.constants} <= set(SLOTS)
            assert made.template.kind is None or made.template.kind in {*EventKind, *FactKind}
            assert key in made.template.wording or key in made.pattern or not key.isalpha()
            assert re.compile(made.pattern).groups >= max(made.groups.values(), default=0)


def test_unmatched_relevant_line_is_kept() -> None:
    assert RECOGNISER.read("[GroupCoordinator 1]: Something that no version says (kafka.X)") == {}


def test_lines_about_other_things_do_not_matter() -> None:
    assert (
        RECOGNISER.read("[2026-05-01 10:00:00,123] INFO [LogLoader partition=t-0] Loading (kafka.log.UnifiedLog$)")
        is None
    )
