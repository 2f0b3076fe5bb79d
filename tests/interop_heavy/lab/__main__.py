"""Run random incidents and compare the doctor's verdicts with their labels: `python -m tests.interop_heavy.lab OUT`.

`--seed` repeats a run, `--count` sets the number of incidents, `--kinds` their kinds. OUT keeps the incidents' folders
in the layout of the corpus, so `slackwater doctor --clusters OUT` reads them too.
"""

import argparse
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from scripts.apache_kafka import KAFKA, OLD_KAFKA

from tests.interop_heavy.lab.environment import broker
from tests.interop_heavy.lab.runner import Incident, make_tools, run_waves, wrong_verdicts

PYTHON: Final = ("confluent-kafka", "kafka-python", "aiokafka", "slackwater")
ALL: Final = (*PYTHON, "java", "kafkajs", "sarama")
LIBRARIES: Final[dict[str, tuple[str, ...]]] = {
    "healthy": ALL,
    "poll_delay": (*PYTHON, "java", "kafkajs"),
    "cascade": ("confluent-kafka", "kafka-python", "java"),
    "session_expiry": ALL,
    "crash": ALL,
    "crash_loop": ALL,
    "rolling": ALL,
    "scaling": ALL,
    "turnover": PYTHON,
    "flapping": PYTHON,
    "subscription": (*PYTHON, "java"),
    "metadata": (*PYTHON, "java"),
    "conflict": ("kafka-python", "aiokafka", "java"),
    "inconsistent": ("kafka-python", "aiokafka", "java"),
    "migration": ("java", "slackwater"),
    "herd": PYTHON,
    "shared": PYTHON,
}
"""The clients that can run each kind of incident."""
MAX_CONCURRENT: Final = 4


def random_incident(rng: random.Random, number: int, kinds: list[str]) -> Incident:
    """An incident with random parameters."""
    kind = rng.choice(kinds)
    library = rng.choice(LIBRARIES[kind])
    parameters: dict[str, Any] = {"session": rng.choice((3000, 6000, 10_000))}
    if kind == "herd":
        parameters["members"] = rng.randint(8, 10)
    elif kind != "shared":
        parameters["members"] = rng.randint(2, 3 if library == "java" else 5)
    if kind in ("poll_delay", "cascade", "shared"):
        del parameters["session"]
    match kind:
        case "metadata":
            parameters["change"] = rng.choice(("grew", "created", "deleted"))
        case "scaling":
            parameters |= rng.choice(({"out": rng.randint(1, 3)}, {"down": 1}))
        case "crash_loop":
            parameters["how"] = rng.choice(("exit", "throw")) if library != "kafkajs" else "exit"
        case "rolling":
            parameters |= rng.choice(({}, {"static": True}, {"static": True, "down": parameters["session"] / 1000 + 2}))
    version = rng.choice((KAFKA, OLD_KAFKA))
    name = f"x{number:02d}-{kind}-{library}"
    return Incident(name, version, kind, library, parameters, with_healthy_group=rng.random() < 0.3)


def main() -> int:
    """Run the incidents and print the result of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--kinds", nargs="+", choices=sorted(LIBRARIES), default=sorted(LIBRARIES))
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    incidents = [random_incident(rng, number, arguments.kinds) for number in range(arguments.count)]
    waves = [incidents[at : at + MAX_CONCURRENT] for at in range(0, len(incidents), MAX_CONCURRENT)]
    home = arguments.out.resolve()
    tools = make_tools(home / ".tools", go=any(incident.library == "sarama" for incident in incidents))
    with ExitStack() as stack:
        brokers = {}
        for version in (KAFKA, OLD_KAFKA):
            (home / ".tools" / version).mkdir(exist_ok=True)
            delay = rng.choice((0, 300, 3000))
            brokers[version] = stack.enter_context(broker(version, home / ".tools" / version, delay))
        failed = run_waves(waves, brokers, home, tools, arguments.seed)
    wrong = 0
    for incident in incidents:
        error = failed.get(incident.id)
        problems = [f"the incident failed: {error}"] if error else wrong_verdicts(home / incident.id)
        wrong += len(problems)
        print(f"{incident.id} on {incident.version} {dict(incident.parameters)}: {'wrong' if problems else 'correct'}")
        for problem in problems:
            print(f"    {problem}")
    print(f"seed {arguments.seed}: {wrong} problems in {len(incidents)} incidents")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
