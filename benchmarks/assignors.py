"""Sticky assignors compared with Apache Kafka's on the same inputs in one run.

    python benchmarks/assignors.py [LS-01 …] [--runs N]

For every scenario of the catalogue (LS-01 … LS-05) and both sticky assignors: milliseconds of one `assign`, from
decoded subscriptions to assignments ready to encode; then from bytes to bytes, which adds decoding every subscription
and encoding every assignment. Figures are medians of the runs after JVM warm-up; from bytes to bytes Java runs large
scenarios only once. For scenarios with many rounds (LS-05), figures are per round.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results import add_result
from tests.group.assignors.groups import GroupModel, MemberModel
from tests.group.assignors.oracle import Oracle, scenario
from tests.java import have_jars

from slackwater.group.assignors import MemberSubscription, TopicInfo, get_assignor
from slackwater.group.assignors.consumer_protocol import (
    _decode_subscription,
    encode_assignment,
    encode_subscription,
)

Round = tuple[dict[str, TopicInfo], dict[str, MemberSubscription]]


def rounds_of(group: GroupModel, leaving: list[str]) -> Iterator[tuple[str, list[Round]]]:
    """The first assignment, and the one after some members left."""
    yield "first", [(group.cluster, group.subscriptions)]
    group.rebalance()
    for member_id in leaving:
        del group.members[member_id]
    yield f"{len(leaving)} left", [(group.cluster, group.subscriptions)]


def ls_01(name: str) -> Iterator[tuple[str, list[Round]]]:
    """2,000 members, 500 topics of 2,000 partitions, all with the same subscription."""
    topics = {f"topic-{at:03}": 2000 for at in range(500)}
    members = {f"consumer-{at:04}": MemberModel(tuple(topics)) for at in range(2000)}
    yield from rounds_of(GroupModel(name, topics, members), ["consumer-1000"])


def ls_02(name: str) -> Iterator[tuple[str, list[Round]]]:
    """The same, but one member subscribes to one topic only."""
    topics = {f"topic-{at:03}": 2000 for at in range(500)}
    members = {f"consumer-{at:04}": MemberModel(tuple(topics)) for at in range(1999)}
    members["consumer-1999"] = MemberModel(("topic-000",))
    yield from rounds_of(GroupModel(name, topics, members), ["consumer-1000"])


def ls_03(name: str) -> Iterator[tuple[str, list[Round]]]:
    """500 members, 100 topics of 200 partitions, in two disjoint halves."""
    names = [f"topic-{at:03}" for at in range(100)]
    halves = tuple(names[:50]), tuple(names[50:])
    members = {f"consumer-{at:04}": MemberModel(halves[at >= 250]) for at in range(500)}
    yield from rounds_of(GroupModel(name, dict.fromkeys(names, 200), members), ["consumer-0100"])


def ls_04(name: str) -> Iterator[tuple[str, list[Round]]]:
    """200 members, 40 topics of 1 to 10 partitions, random subscriptions, 50 leave."""
    random = Random(4)
    topics = {f"topic-{at:02}": random.randint(1, 10) for at in range(40)}
    names = list(topics)
    members = {
        f"consumer-{at:03}": MemberModel(tuple(sorted(random.sample(names, random.randint(1, 20)))))
        for at in range(200)
    }
    yield from rounds_of(GroupModel(name, topics, members), sorted(random.sample(sorted(members), 50)))


def ls_05(name: str) -> Iterator[tuple[str, list[Round]]]:
    """100 random groups of 20 to 40 members and 10 to 20 topics; members join and leave."""
    random = Random(5)
    first: list[Round] = []
    second: list[Round] = []
    for _ in range(100):
        topics = {f"topic-{at:02}": random.randint(1, 10) for at in range(random.randint(10, 20))}
        names = list(topics)

        def new_member(names: list[str] = names) -> MemberModel:
            return MemberModel(tuple(sorted(random.sample(names, random.randint(1, len(names))))))

        count = random.randint(20, 40)
        group = GroupModel(name, topics, {f"consumer-{at:03}": new_member() for at in range(count)})
        first.append((group.cluster, group.subscriptions))
        group.rebalance()
        for member_id in random.sample(sorted(group.members), random.randint(0, 10)):
            del group.members[member_id]
        for at in range(random.randint(0, 10)):
            group.members[f"consumer-{count + at:03}"] = new_member()
        second.append((group.cluster, group.subscriptions))
    yield "first", first
    yield "changed", second


SCENARIOS: Mapping[str, Callable[[str], Iterator[tuple[str, list[Round]]]]] = {
    "LS-01": ls_01,
    "LS-02": ls_02,
    "LS-03": ls_03,
    "LS-04": ls_04,
    "LS-05": ls_05,
}


def ours_ns(name: str, rounds: list[Round], runs: int) -> tuple[float, float]:
    """Median nanoseconds per round: of assign alone, and from bytes to bytes."""
    inputs = [
        (cluster, [(one, m.group_instance_id, encode_subscription(m.subscription)) for one, m in members.items()])
        for cluster, members in rounds
    ]
    assign_ns: list[float] = []
    whole_ns: list[float] = []
    gc.collect()
    gc.freeze()
    for _ in range(runs):
        gc.collect()
        spent_assigning = spent = 0
        for cluster, listed in inputs:
            start = time.perf_counter_ns()
            members = {
                member_id: MemberSubscription(instance, _decode_subscription(data))
                for member_id, instance, data in listed
            }
            decoded = time.perf_counter_ns()
            assignments = get_assignor(name).assign(cluster, members)
            assigned = time.perf_counter_ns()
            for assignment in assignments.values():
                encode_assignment(assignment)
            spent += time.perf_counter_ns() - start
            spent_assigning += assigned - decoded
        assign_ns.append(spent_assigning / len(rounds))
        whole_ns.append(spent / len(rounds))
    gc.unfreeze()
    return median(assign_ns), median(whole_ns)


def java_ns(oracle: Oracle, name: str, rounds: list[Round], runs: int) -> tuple[float, float]:
    """The same for Kafka's assignor, after a warm-up."""
    small = sum(info.partitions for cluster, _ in rounds for info in cluster.values()) < 20_000
    warm_up = 40 if small else 3
    whole_runs = runs if small else 1
    measurements = oracle.run(
        scenario(name, cluster, members, warm_up + runs, warm_up * small + whole_runs) for cluster, members in rounds
    )
    assign = [mean(measurement["assign_ns"][-run] for measurement in measurements) for run in range(1, runs + 1)]
    whole = [
        mean(measurement["bytes_to_bytes_ns"][-run] for measurement in measurements) for run in range(1, whole_runs + 1)
    ]
    return median(assign), median(whole)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS), metavar="LS-0n")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if not have_jars():
        sys.exit("benchmarks/assignors.py: Kafka's jars are missing; run `make jars` first.")
    columns = f"{'Java':>10}{'ours':>10}{'ratio':>8}"
    print(f"{'':38}{'assign, ms':^28}  {'bytes to bytes, ms':^28}")
    print(f"{'scenario':10}{'assignor':20}{'':8}{columns}  {columns}")
    with Oracle() as oracle:
        for number in options.scenarios:
            for name in ("sticky", "cooperative-sticky"):
                for what, rounds in SCENARIOS[number](name):
                    theirs = java_ns(oracle, name, rounds, options.runs)
                    ours = ours_ns(name, rounds, options.runs)
                    figures = "  ".join(
                        f"{java / 1e6:10.2f}{mine / 1e6:10.2f}{mine / java:8.2f}"
                        for java, mine in zip(theirs, ours, strict=True)
                    )
                    print(f"{number:10}{name:20}{what:8}{figures}", flush=True)
                    ratio = ours[0] / theirs[0]
                    add_result(
                        f"{number}, {name}, {what.strip()}, ms",
                        peer=f"{theirs[0] / 1e6:,.1f}",
                        ours=f"{ours[0] / 1e6:,.1f}",
                        ratio=ratio,
                        target="≤ 1" if number == "LS-01" else "",
                    )


if __name__ == "__main__":
    main()
