"""Faults of the broker's wall clock: it steps by hours, forward and back, also while the broker is stopped.

Clients have the correct time after a step, as after a correction by NTP.
"""

import random
import time

from tests.chaos.episode import Episode
from tests.chaos.faults.registry import fault

HOUR_S = 3600.0
MAX_OFFSET_S = 72 * HOUR_S  # below offsets.retention.minutes, after which a group without members loses its commits
STEPS_S = (0.5, 61.0, 1.5 * HOUR_S, 5 * HOUR_S, 30 * HOUR_S)


def _step(episode: Episode, rng: random.Random) -> str:
    assert episode.shim is not None
    step_s = rng.choice(STEPS_S) * rng.choice((1, -1)) * rng.uniform(0.8, 1.2)
    if abs(episode.shim.clock_offset_s + step_s) > MAX_OFFSET_S:
        step_s = -step_s
    episode.shim.clock_offset_s += step_s
    return f"{step_s / HOUR_S:+.2f} h"


@fault("clock.step", weight=4, needs_shim=True)
def step(episode: Episode, rng: random.Random) -> str:
    """Step the clock of the running broker."""
    steps = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        steps.append(_step(episode, rng))
        time.sleep(rng.uniform(0, 1))
    return ", ".join(steps)


@fault("clock.restart", needs_shim=True)
def restart(episode: Episode, rng: random.Random) -> str:
    """Stop or kill the broker, and start it at another time."""
    if rng.random() < 0.5:
        episode.kill()
    else:
        episode.stop()
    taken = _step(episode, rng)
    episode.start()
    return taken
