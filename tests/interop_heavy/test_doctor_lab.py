"""Incidents that nobody has seen before, played on a real Apache Kafka and given to the doctor.

The labelled corpus is always the same; these have other names, numbers and timings, drawn from a seed (LAB_SEED). Six
are played side by side on two brokers, of Kafka 4.3.1 and of 3.9.2. From all files the whole label must be right. From
one source alone the doctor may be unsure; what it is sure of must be so.
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from scripts.apache_kafka import KAFKA, OLD_KAFKA, missing

from tests.interop_heavy.lab.play import Incident, faults, make_tools, play_all
from tests.interop_heavy.lab.stage import broker

SEED: Final = int(os.environ.get("LAB_SEED", "1"))
DELAYS: Final = {KAFKA: (300, 3000), OLD_KAFKA: (0, 300)}


def _drawn() -> list[list[Incident]]:
    """The incidents, with numbers of their own."""
    rng = random.Random(SEED)
    session = rng.choice((6000, 10_000))
    return [
        [
            Incident(
                "poll-delay", KAFKA, "poll_delay", "confluent-kafka", {"members": rng.randint(2, 4)}, company=True
            ),
            Incident(
                "pause", OLD_KAFKA, "session_expiry", "aiokafka", {"session": session, "times": rng.randint(1, 2)}
            ),
            Incident("crash-loop", KAFKA, "crash_loop", "slackwater", {"session": session, "times": rng.randint(3, 4)}),
        ],
        [
            Incident(
                "static-restart",
                OLD_KAFKA,
                "rolling",
                "confluent-kafka",
                {"static": True, "session": 20_000, "members": rng.randint(2, 3), "down": rng.uniform(0.5, 2)},
            ),
            Incident("subscription", KAFKA, "subscription", "confluent-kafka", {"members": rng.randint(2, 4)}),
            Incident("new-topic", OLD_KAFKA, "metadata", "confluent-kafka", {"change": "created"}),
        ],
    ]


WAVES: Final = _drawn()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, BaseException]]]:
    """The folders of all incidents, and what could not be played."""
    for version in (KAFKA, OLD_KAFKA):
        if reason := missing(version):
            pytest.skip(reason)
    home = tmp_path_factory.mktemp("lab")
    rng = random.Random(SEED)
    with ExitStack() as stack:
        brokers = {}
        for version, delays in DELAYS.items():
            (home / version).mkdir()
            brokers[version] = stack.enter_context(broker(version, home / version, rng.choice(delays)))
        tools = make_tools(home / "tools", java=False)
        yield home, play_all(WAVES, brokers, home, tools, SEED)


@pytest.mark.parametrize("incident", [one for wave in WAVES for one in wave], ids=lambda one: one.id)
def test_the_doctor_tells_what_was_done(played: tuple[Path, dict[str, BaseException]], incident: Incident) -> None:
    home, failed = played
    if error := failed.get(incident.id):
        raise error
    assert faults(home / incident.id) == []
