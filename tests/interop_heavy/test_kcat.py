"""kcat, unchanged: librdkafka 2.0 as Debian ships it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState

from tests.interop_heavy.conftest import Start
from tests.interop_heavy.guest import PEERS, Guest, eventually, need
from tests.interop_heavy.referee import Referee, Seen

KCAT = PEERS / "kcat" / "kcat"
PARTITIONS = 4
COUNT = 400

Run = Callable[..., Guest]


@pytest.fixture
def kcat(start: Start, bootstrap: str) -> Run:
    """Starts kcat against the broker."""
    need("kcat", KCAT)

    def with_options(*options: str | Path) -> Guest:
        return start(KCAT, "-b", bootstrap, "-m", "20", *options)

    return with_options


def records(guest: Guest) -> list[Seen]:
    """What a guest has read so far; a header stands as a name and a value."""
    return [
        Seen(
            line["partition"],
            line["offset"],
            line["key"] or "",
            line["payload"] or "",
            (line.get("headers") or ["", ""])[1],
        )
        for line in guest.lines
    ]


def assigned(guest: Guest) -> set[int]:
    """What a member holds, as its rebalance lines tell."""
    holds: set[int] = set()
    for line in guest.errors:
        found = re.match(r"% Group \S+ rebalanced(?P<how>.*?): (?:(?P<eager>assigned|revoked): )?(?P<what>.*)", line)
        if found is None:
            continue
        partitions = {int(number) for number in re.findall(r"\[(\d+)\]", found["what"])}
        if "incremental assignment" in line:
            holds |= partitions
        elif "incremental revoke" in line:
            holds -= partitions
        else:
            holds = partitions if "assigned: " in line else set()
    return holds


def produce(kcat: Run, topic: str, prefix: str, *options: str) -> None:
    """COUNT records with keys and a header."""
    producing = kcat("-P", "-t", topic, "-K", ":", "-H", "n=1", *options)
    producing.tell("".join(f"key-{number}:{prefix}-{number}\n" for number in range(COUNT)))
    producing.result()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_it_produces_lies_there_once_and_in_order(kcat: Run, referee: Referee, unique: str, codec: str) -> None:
    topic = referee.create(f"kcat-{codec}-{unique}", PARTITIONS)
    produce(kcat, topic, "v", "-X", f"compression.codec={codec}", "-X", "enable.idempotence=true")
    found = referee.records(topic)
    assert sorted(seen.value for seen in found) == sorted(f"v-{number}" for number in range(COUNT))
    assert all(seen.key == seen.value.replace("v-", "key-") and seen.header == "1" for seen in found)
    numbers: dict[int, list[int]] = {}
    for seen in found:
        numbers.setdefault(seen.partition, []).append(int(seen.value.removeprefix("v-")))
    assert len(numbers) == PARTITIONS
    assert all(one == sorted(one) for one in numbers.values())


def test_it_reads_from_wherever_it_is_told(kcat: Run, referee: Referee, unique: str) -> None:
    topic = referee.create(f"kcat-read-{unique}", 1)
    produce(kcat, topic, "v", "-z", "snappy")
    everything = referee.records(topic)
    read = kcat("-C", "-J", "-t", topic, "-o", "beginning", "-e")
    read.result()
    assert records(read) == everything
    for where, expected in (("390", everything[390:]), ("-3", everything[-3:]), ("end", [])):
        part = kcat("-C", "-J", "-t", topic, "-p", "0", "-o", where, "-e")
        part.result()
        assert records(part) == expected

    times = [int(line["ts"]) for line in read.lines]
    asked = times[COUNT // 2]
    from_time = kcat("-C", "-J", "-t", topic, "-o", f"s@{asked}", "-e")
    from_time.result()
    assert records(from_time) == everything[first_at(times, asked) :]


def first_at(times: list[int], asked: int) -> int:
    """The first offset whose timestamp is not before this."""
    return next(offset for offset, time in enumerate(times) if time >= asked)


def test_it_lists_the_cluster_and_asks_for_offsets(kcat: Run, referee: Referee, unique: str, bootstrap: str) -> None:
    topic = referee.create(f"kcat-list-{unique}", PARTITIONS)
    produce(kcat, topic, "v", "-p", "2")
    (metadata,) = kcat("-L", "-J", "-t", topic).result()
    (broker,) = metadata["brokers"]
    assert broker["name"] == bootstrap
    assert metadata["controllerid"] == broker["id"]
    (found,) = metadata["topics"]
    assert found == {"topic": topic, "partitions": [partition(number, broker["id"]) for number in range(PARTITIONS)]}
    for asked, offset in (("-2", 0), ("-1", COUNT)):
        query = kcat("-Q", "-t", f"{topic}:2:{asked}")
        query.result()
        assert f"{topic} [2] offset {offset}" in query.errors  # it is no JSON, so it is kept there


def partition(number: int, leader: int) -> dict[str, Any]:
    """A partition in kcat's words."""
    return {"partition": number, "leader": leader, "replicas": [{"id": leader}], "isrs": [{"id": leader}]}


def test_a_topic_is_made_by_being_used(kcat: Run, referee: Referee, unique: str) -> None:
    topic = f"kcat-auto-{unique}"
    produce(kcat, topic, "v")
    assert len(referee.records(topic)) == COUNT


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_of_two_shares_the_work_and_outlives_a_kill(
    kcat: Run, referee: Referee, unique: str, assignor: str
) -> None:
    topic, group = referee.create(f"kcat-group-{unique}", PARTITIONS), f"kcat-group-{unique}"
    settings = {
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "300",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": "200",
    }
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    members = [kcat("-G", group, "-J", "-u", *options, topic) for _ in range(2)]
    everything = set(range(PARTITIONS))
    eventually(
        "two members with two partitions each",
        lambda: [len(assigned(one)) for one in members] == [2, 2] and set.union(*map(assigned, members)) == everything,
        watch=members,
    )
    produce(kcat, topic, "both")
    eventually("everything read", lambda: sum(len(one.lines) for one in members) >= COUNT, watch=members)
    assert sorted([*records(members[0]), *records(members[1])]) == referee.records(topic)
    ends = referee.ends(topic)
    eventually("everything committed", lambda: referee.committed(group, topic) == ends, watch=members)

    killed, survivor = members
    killed.kill()
    produce(kcat, topic, "one")
    eventually("everything in one hand", lambda: assigned(survivor) == everything, watch=[survivor])
    eventually("the rest read", lambda: sum(len(one.lines) for one in members) >= 2 * COUNT, watch=[survivor])
    assert sorted([*records(killed), *records(survivor)]) == referee.records(topic)
    ends = referee.ends(topic)
    eventually("the rest committed", lambda: referee.committed(group, topic) == ends, watch=[survivor])

    survivor.terminate()
    assert survivor.returncode == 0, survivor.last_words()
    eventually("an empty group", lambda: referee.group(group) == (ConsumerGroupState.EMPTY, 0))
