"""Play incidents drawn at random, and say what the doctor makes of them: `python -m tests.interop_heavy.lab OUT`.

`--seed` repeats a draw, `--count` says how many, `--kinds` which. The folders stay in OUT, laid out like the corpus, so
that `slackwater doctor --clusters OUT` reads them too.
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
from tests.interop_heavy.lab.runner import Incident, faults, make_tools, play_all

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
"""Which clients an incident can be played with."""
AT_ONCE: Final = 4


def draw(rng: random.Random, number: int, kinds: list[str]) -> Incident:
    """An incident with numbers of its own."""
    kind = rng.choice(kinds)
    library = rng.choice(LIBRARIES[kind])
    more: dict[str, Any] = {"session": rng.choice((3000, 6000, 10_000))}
    if kind == "herd":
        more["members"] = rng.randint(8, 10)
    elif kind != "shared":
        more["members"] = rng.randint(2, 3 if library == "java" else 5)
    if kind in ("poll_delay", "cascade", "shared"):
        del more["session"]
    match kind:
        case "metadata":
            more["change"] = rng.choice(("grew", "created", "deleted"))
        case "scaling":
            more |= rng.choice(({"out": rng.randint(1, 3)}, {"down": 1}))
        case "crash_loop":
            more["how"] = rng.choice(("exit", "throw")) if library != "kafkajs" else "exit"
        case "rolling":
            more |= rng.choice(({}, {"static": True}, {"static": True, "down": more["session"] / 1000 + 2}))
    version = rng.choice((KAFKA, OLD_KAFKA))
    return Incident(f"x{number:02d}-{kind}-{library}", version, kind, library, more, company=rng.random() < 0.3)


def main() -> int:
    """Play, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--kinds", nargs="+", choices=sorted(LIBRARIES), default=sorted(LIBRARIES))
    wanted = parser.parse_args()
    rng = random.Random(wanted.seed)
    drawn = [draw(rng, number, wanted.kinds) for number in range(wanted.count)]
    waves = [drawn[at : at + AT_ONCE] for at in range(0, len(drawn), AT_ONCE)]
    home = wanted.out.resolve()
    tools = make_tools(home / ".tools", go=any(one.library == "sarama" for one in drawn))
    with ExitStack() as stack:
        brokers = {}
        for version in (KAFKA, OLD_KAFKA):
            (home / ".tools" / version).mkdir(exist_ok=True)
            delay = rng.choice((0, 300, 3000))
            brokers[version] = stack.enter_context(broker(version, home / ".tools" / version, delay))
        failed = play_all(waves, brokers, home, tools, wanted.seed)
    wrong = 0
    for one in drawn:
        said = [f"could not be played: {failed[one.id]}"] if one.id in failed else faults(home / one.id)
        wrong += len(said)
        print(f"{one.id} on {one.version} {dict(one.parameters)}: {'as it was' if not said else ''}")
        for text in said:
            print(f"    {text}")
    print(f"seed {wanted.seed}: {wrong} faults in {len(drawn)} incidents")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
