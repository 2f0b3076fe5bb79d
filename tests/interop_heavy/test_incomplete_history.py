"""All labelled incidents without a tenth of their lines, without a file, and in pairs (a sample is in make test)."""

from itertools import pairwise

import pytest

from tests.doctor.corpus import incidents
from tests.doctor.incomplete import SOURCE_SETS, together, with_a_file_missing, with_lines_missing
from tests.doctor.test_incomplete_history import assert_none_is_wrong_and_sure

INCIDENTS = incidents()


@pytest.mark.parametrize("seed", [1, 2, 5, 9])
def test_no_seed_makes_a_verdict_wrong_and_sure(seed: int) -> None:
    assert_none_is_wrong_and_sure([judged for incident in INCIDENTS for judged in with_lines_missing(incident, seed)])


def test_no_missing_file_makes_a_verdict_wrong_and_sure() -> None:
    assert_none_is_wrong_and_sure([judged for incident in INCIDENTS for judged in with_a_file_missing(incident)])


def test_no_second_incident_makes_a_verdict_wrong_and_sure() -> None:
    pairs = pairwise(INCIDENTS)
    judged = [case for first, second in pairs for sources in SOURCE_SETS for case in together(first, second, sources)]
    assert_none_is_wrong_and_sure(judged)
