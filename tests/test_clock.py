"""The clock of timers that does not count stalls."""

from slackwater.clock import MAX_STEP_MS, StallTolerantClock


def test_stall_counts_as_one_step() -> None:
    elapsed_ms = 5_000
    clock = StallTolerantClock(lambda: elapsed_ms * 1_000_000)
    started_ms = clock.now_ms()
    for step_ms in (1, 500, MAX_STEP_MS):
        elapsed_ms += step_ms
        assert clock.now_ms() - started_ms == elapsed_ms - 5_000
    before_ms = clock.now_ms()
    elapsed_ms += 60_000
    assert clock.now_ms() - before_ms == MAX_STEP_MS
    elapsed_ms += 10
    assert clock.now_ms() - before_ms == MAX_STEP_MS + 10
