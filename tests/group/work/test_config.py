"""The scheduler's settings: validation and backoff."""

import pytest

from slackwater.group.errors import UsageError
from slackwater.group.work.config import WorkConfig


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: WorkConfig(workers=0), "workers = 0"),
        (lambda: WorkConfig(low_water_records=10, high_water_records=10), "low_water_records = 10 must be"),
        (lambda: WorkConfig(low_water_records=-1), "low_water_records = -1 must be"),
        (lambda: WorkConfig(total_low_water_records=60_000), "total_low_water_records = 60000"),
        (lambda: WorkConfig(total_high_water_bytes=1), "total_low_water_bytes"),
        (lambda: WorkConfig(max_uncommitted_records=999), "max_uncommitted_records = 999 is below high_water_records"),
        (lambda: WorkConfig(max_attempts=0), "max_attempts = 0"),
        (lambda: WorkConfig(retry_backoff_ms=2_000), "retry_backoff_ms = 2000"),
        (lambda: WorkConfig(retry_backoff_ms=-1), "retry_backoff_ms = -1"),
        (lambda: WorkConfig(retry_backoff_jitter=1.0), "retry_backoff_jitter = 1.0"),
        (lambda: WorkConfig(auto_commit_interval_ms=0), "auto_commit_interval_ms = 0"),
    ],
)
def test_invalid_setting_is_named_in_the_error(build: type[WorkConfig], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build()


def test_backoff_doubles_up_to_maximum() -> None:
    config = WorkConfig(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    assert [config.backoff_ms(failures, 0.5) for failures in (1, 2, 3, 4, 5, 6)] == [100, 200, 400, 800, 1_000, 1_000]


def test_backoff_stays_at_maximum() -> None:
    assert WorkConfig(retry_backoff_max_ms=60_000).backoff_ms(1_000_000, 0.5) == 60_000


def test_jitter_varies_backoff_in_both_directions() -> None:
    config = WorkConfig(retry_backoff_ms=100, retry_backoff_jitter=0.2)
    assert config.backoff_ms(1, 0.0) == 80
    assert config.backoff_ms(1, 1.0) == 120


def test_zero_backoff_stays_zero() -> None:
    assert WorkConfig(retry_backoff_ms=0, retry_backoff_max_ms=0).backoff_ms(7, 0.9) == 0
