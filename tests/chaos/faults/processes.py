"""Faults of the broker's process: it is killed, stopped, frozen, started twice."""

import random
import time
from subprocess import TimeoutExpired

from tests.broker.broker_process import BrokerProcess, StartFailed, kill_while_starting
from tests.chaos.episode import Episode
from tests.chaos.faults.registry import fault
from tests.chaos.oracles import Violation
from tests.chaos.oracles.log_lines import refusal

MAX_RUN_S = 2.0


@fault("process.kill", weight=4)
def kill(episode: Episode, rng: random.Random) -> str:
    """Kill the broker under load, a few times in a row."""
    kills = rng.choice((1, 1, 2, 3))
    for _ in range(kills):
        time.sleep(rng.uniform(0, MAX_RUN_S))
        episode.kill()
        episode.start()
    return f"{kills} times"


@fault("process.terminate")
def terminate(episode: Episode, rng: random.Random) -> str:
    """Stop the broker with SIGTERM under load."""
    time.sleep(rng.uniform(0, MAX_RUN_S))
    episode.stop()
    episode.start()
    return ""


@fault("process.freeze")
def freeze(episode: Episode, rng: random.Random) -> str:
    """Freeze the broker with SIGSTOP, often for longer than a session timeout."""
    seconds = rng.choice((0.2, 1.0, 7.0, 12.0)) * rng.uniform(0.8, 1.2)
    with episode.frozen():
        time.sleep(seconds)
    return f"{seconds:.1f} s"


@fault("process.kill_starting")
def kill_starting(episode: Episode, rng: random.Random) -> str:
    """Kill the broker again while it starts."""
    episode.kill()
    kills = rng.randint(1, 3)
    for _ in range(kills):
        kill_while_starting(episode.data, episode.settings, rng.uniform(0.05, 0.8))
    episode.start()
    return f"{kills} times"


@fault("process.kill_stopping")
def kill_stopping(episode: Episode, rng: random.Random) -> str:
    """Kill the broker while it stops."""
    seconds = rng.choice((0.0, 0.005, 0.02, 0.1)) * rng.random()
    episode.kill(after_terminate_s=seconds)
    episode.start()
    return f"{seconds * 1000:.0f} ms after SIGTERM"


@fault("process.second_broker", weight=1)
def second_broker(episode: Episode, rng: random.Random) -> str:
    """Start a second broker on the same data directory, which must refuse."""
    try:
        second = BrokerProcess(episode.data, episode.settings)
    except (StartFailed, TimeoutExpired) as failure:
        if isinstance(failure, TimeoutExpired):
            raise Violation("a second broker on the data directory neither started nor exited") from failure
        try:
            return refusal(failure.log, failure.exit_code, episode.data)
        except ValueError as error:
            raise Violation(f"a second broker on the data directory: {error}") from error
    second.kill()
    raise Violation("two brokers use one data directory")
