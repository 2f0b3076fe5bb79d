"""Times and durations on a command line."""

import pytest

from slackwater.cli.times import datetime_ms, duration_ms
from slackwater.group.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("PT1H30M", 5_400_000),
        ("P1DT0.5S", 86_400_500),
        ("1.5s", 1_500),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text, "--by-duration") == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "5", "h", "1h x", "-1h"])
def test_invalid_duration(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a duration\. Use 90s, 1h30m, 2d or PT1H30M"):
        duration_ms(text, "--by-duration")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:10", 10_000),
        ("1970-01-01T00:00:10.500Z", 10_500),
        ("1970-01-01T01:00:10+01:00", 10_000),
        ("1970-01-02", 86_400_000),
    ],
)
def test_times_default_to_utc(text: str, expected: int) -> None:
    assert datetime_ms(text, "--to-datetime") == expected


def test_invalid_time() -> None:
    with pytest.raises(UsageError, match="--to-datetime noon is not a time"):
        datetime_ms("noon", "--to-datetime")
