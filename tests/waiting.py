"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

POLL_INTERVAL_S = 0.01
T = TypeVar("T")


def wait_until(condition: Callable[[], T], about: Callable[[], object], seconds: float) -> T:
    """Return the condition's first true value; fail with `about` after the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {about()}"
        time.sleep(POLL_INTERVAL_S)
    return value
