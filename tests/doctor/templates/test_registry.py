"""The templates recognise every wording of section 14."""

import re

import pytest

from slackwater.doctor.events.table import COLUMNS, DETAIL, OtherEventKind
from slackwater.doctor.templates.reasons import REASONS as REASON_FAMILY
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import SLOTS, Family, TemplateSet, compile_by_key
from slackwater.group.events import EventKind, Trigger
from tests.doctor.lines import LINES, REASONS, M

TEMPLATES = TemplateSet(FAMILIES)
FAMILY_NAMES = [family.name for family in FAMILIES]


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line[-60:] for line, _ in LINES])
def test_catalogue_line_is_parsed(line: str, expected: dict[str, str]) -> None:
    values = TEMPLATES.read(line)
    assert values, "no template matches this line"
    assert {slot: values.get(slot) for slot in expected} == expected
    assert bool(values.get("kind")) == bool(expected), "a line that is no event has no kind"


@pytest.mark.parametrize(("reason", "trigger"), REASONS, ids=[reason[:50] for reason, _ in REASONS])
def test_reason_gives_its_trigger(reason: str, trigger: str) -> None:
    values = TemplateSet((REASON_FAMILY,)).read(reason)
    assert values is not None
    assert values["trigger"] == trigger
    assert trigger in set(Trigger)
    if M in reason:
        assert M in values.get("culprit", "") or M in values.get("member_ids", "")


@pytest.mark.parametrize("family", [*FAMILIES, REASON_FAMILY], ids=[*FAMILY_NAMES, "reason"])
def test_family_fills_only_known_columns(family: Family) -> None:
    known = {*COLUMNS, *DETAIL, "template", "kind", "source", "head"}
    assert set(SLOTS) <= known
    for key, compiled_templates in compile_by_key(family).items():
        for compiled in compiled_templates:
            assert {*compiled.groups, *compiled.constants} <= set(SLOTS)
            assert compiled.template.kind is None or compiled.template.kind in {*EventKind, *OtherEventKind}
            assert key in compiled.template.wording or key in compiled.pattern or not key.isalpha()
            assert re.compile(compiled.pattern).groups >= max(compiled.groups.values(), default=0)


def test_unmatched_relevant_line_is_kept() -> None:
    assert TEMPLATES.read("[GroupCoordinator 1]: A message of no known version (kafka.X)") == {}


def test_unrelated_line_is_ignored() -> None:
    assert (
        TEMPLATES.read("[2026-05-01 10:00:00,123] INFO [LogLoader partition=t-0] Loading (kafka.log.UnifiedLog$)")
        is None
    )
