"""New incidents on a real Apache Kafka, diagnosed by the doctor.

Names, sizes and timings come from a seed (LAB_SEED). Six incidents run on two brokers, Kafka 4.3.1 and 3.9.2.
With all files the verdict must match the label. With one source the doctor may be unsure, but a confident verdict must
be correct.
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from scripts.apache_kafka import KAFKA, OLD_KAFKA, missing

from tests.interop_heavy.lab.environment import broker
from tests.interop_heavy.lab.runner import Incident, make_tools, run_waves, wrong_verdicts

SEED: Final = int(os.environ.get("LAB_SEED", "1"))
DELAYS: Final = {KAFKA: (300, 3000), OLD_KAFKA: (0, 300)}


def _incidents() -> list[list[Incident]]:
    """The incidents in two waves, with random parameters."""
    rng = random.Random(SEED)
    session = rng.choice((6000, 10_000))
    return [
        [
            Incident(
                "poll-delay",
                KAFKA,
                "poll_delay",
                "confluent-kafka",
                {"members": rng.randint(2, 4)},
                with_healthy_group=True,
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


WAVES: Final = _incidents()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, BaseException]]]:
    """The folder of all incidents, and the errors of incidents that failed."""
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
        yield home, run_waves(WAVES, brokers, home, tools, SEED)


@pytest.mark.parametrize(
    "incident", [incident for wave in WAVES for incident in wave], ids=lambda incident: incident.id
)
def test_doctor_finds_the_cause(results: tuple[Path, dict[str, BaseException]], incident: Incident) -> None:
    home, failed = results
    if error := failed.get(incident.id):
        raise error
    assert wrong_verdicts(home / incident.id) == []
