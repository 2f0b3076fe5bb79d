"""The one way in which a test waits: for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

LOOK_AGAIN_S = 0.01
T = TypeVar("T")


def wait_until(condition: Callable[[], T], about: Callable[[], object], seconds: float) -> T:
    """The condition's first true value; a failure that tells `about` if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {about()}"
        time.sleep(LOOK_AGAIN_S)
    return value
