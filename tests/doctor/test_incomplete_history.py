"""With lines or a file missing, or with two incidents in one log, no verdict is wrong and sure."""

import pytest

from tests.doctor.corpus import incidents
from tests.doctor.incomplete import Judged, together, with_a_file_missing, with_lines_missing
from tests.doctor.scenario import Scenario

INCIDENTS = incidents()
SAMPLE = INCIDENTS[::6]
SEED = 1


def assert_none_is_wrong_and_sure(judged: list[Judged]) -> None:
    assert judged
    assert [(case.what, case.verdict.cause, case.verdict.confidence) for case in judged if case.is_wrong_and_sure] == []


@pytest.mark.parametrize("incident", [*SAMPLE, "r124", "r205", "r421"])
def test_missing_lines_lower_the_confidence(incident: str) -> None:
    assert_none_is_wrong_and_sure(list(with_lines_missing(incident, SEED)))


@pytest.mark.parametrize("incident", SAMPLE)
def test_missing_file_lowers_the_confidence(incident: str) -> None:
    assert_none_is_wrong_and_sure(list(with_a_file_missing(incident)))


@pytest.mark.parametrize(("first", "second"), [("r123", "r124"), ("r124", "r125"), ("r414", "r421")])
def test_incident_is_not_blamed_on_the_next_one(first: str, second: str) -> None:
    assert_none_is_wrong_and_sure(list(together(first, second)))


def test_member_that_disappears_without_a_line_is_not_healthy() -> None:
    scenario = Scenario()
    for name in ("a", "b", "c"):
        scenario.join(name, 0)
    scenario.form(1)
    scenario.current.pop("c")
    scenario.form(60)
    verdict = scenario.verdict()
    assert verdict.cause == "unknown"
    assert verdict.headline == "generation 2 has 2 members, the one before had 3; no line says who left"
