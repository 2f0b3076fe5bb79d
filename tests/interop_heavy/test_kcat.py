"""kcat with librdkafka 2.0, as Debian ships it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState

from tests.interop_heavy.client_process import PEERS, ClientProcess, require_installed, wait_for
from tests.interop_heavy.conftest import Start
from tests.interop_heavy.reference_client import ReadRecord, ReferenceClient

KCAT = PEERS / "kcat" / "kcat"
PARTITIONS = 4
COUNT = 400

Run = Callable[..., ClientProcess]


@pytest.fixture
def kcat(start: Start, bootstrap: str) -> Run:
    """Starts kcat against the broker."""
    require_installed("kcat", KCAT)

    def with_options(*options: str | Path) -> ClientProcess:
        return start(KCAT, "-b", bootstrap, "-m", "20", *options)

    return with_options


def records(process: ClientProcess) -> list[ReadRecord]:
    """The records read so far; kcat prints a header as name and value."""
    return [
        ReadRecord(
            line["partition"],
            line["offset"],
            line["key"] or "",
            line["payload"] or "",
            (line.get("headers") or ["", ""])[1],
        )
        for line in process.lines
    ]


def assigned(process: ClientProcess) -> set[int]:
    """A member's assignment, from its rebalance lines."""
    owned: set[int] = set()
    for line in process.errors:
        match = re.match(r"% Group \S+ rebalanced(?P<how>.*?): (?:(?P<eager>assigned|revoked): )?(?P<what>.*)", line)
        if match is None:
            continue
        partitions = {int(number) for number in re.findall(r"\[(\d+)\]", match["what"])}
        if "incremental assignment" in line:
            owned |= partitions
        elif "incremental revoke" in line:
            owned -= partitions
        else:
            owned = partitions if "assigned: " in line else set()
    return owned


def produce(kcat: Run, topic: str, prefix: str, *options: str) -> None:
    """COUNT records with keys and a header."""
    producing = kcat("-P", "-t", topic, "-K", ":", "-H", "n=1", *options)
    producing.send("".join(f"key-{number}:{prefix}-{number}\n" for number in range(COUNT)))
    producing.result()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_records_are_stored_once_in_order(
    kcat: Run, reference: ReferenceClient, unique: str, codec: str
) -> None:
    topic = reference.create(f"kcat-{codec}-{unique}", PARTITIONS)
    produce(kcat, topic, "v", "-X", f"compression.codec={codec}", "-X", "enable.idempotence=true")
    stored = reference.records(topic)
    assert sorted(record.value for record in stored) == sorted(f"v-{number}" for number in range(COUNT))
    assert all(record.key == record.value.replace("v-", "key-") and record.header == "1" for record in stored)
    numbers: dict[int, list[int]] = {}
    for record in stored:
        numbers.setdefault(record.partition, []).append(int(record.value.removeprefix("v-")))
    assert len(numbers) == PARTITIONS
    assert all(values == sorted(values) for values in numbers.values())


def test_reads_from_any_offset(kcat: Run, reference: ReferenceClient, unique: str) -> None:
    topic = reference.create(f"kcat-read-{unique}", 1)
    produce(kcat, topic, "v", "-z", "snappy")
    stored = reference.records(topic)
    read = kcat("-C", "-J", "-t", topic, "-o", "beginning", "-e")
    read.result()
    assert records(read) == stored
    for where, expected in (("390", stored[390:]), ("-3", stored[-3:]), ("end", [])):
        part = kcat("-C", "-J", "-t", topic, "-p", "0", "-o", where, "-e")
        part.result()
        assert records(part) == expected

    times = [int(line["ts"]) for line in read.lines]
    start_ms = times[COUNT // 2]
    from_time = kcat("-C", "-J", "-t", topic, "-o", f"s@{start_ms}", "-e")
    from_time.result()
    assert records(from_time) == stored[first_at(times, start_ms) :]


def first_at(times: list[int], start_ms: int) -> int:
    """The first offset whose timestamp is not before `start_ms`."""
    return next(offset for offset, time in enumerate(times) if time >= start_ms)


def test_lists_cluster_and_offsets(kcat: Run, reference: ReferenceClient, unique: str, bootstrap: str) -> None:
    topic = reference.create(f"kcat-list-{unique}", PARTITIONS)
    produce(kcat, topic, "v", "-p", "2")
    (metadata,) = kcat("-L", "-J", "-t", topic).result()
    (broker,) = metadata["brokers"]
    assert broker["name"] == bootstrap
    assert metadata["controllerid"] == broker["id"]
    (described,) = metadata["topics"]
    assert described == {
        "topic": topic,
        "partitions": [partition(number, broker["id"]) for number in range(PARTITIONS)],
    }
    for time, offset in (("-2", 0), ("-1", COUNT)):
        query = kcat("-Q", "-t", f"{topic}:2:{time}")
        query.result()
        assert f"{topic} [2] offset {offset}" in query.errors  # `errors` has all lines that are not JSON


def partition(number: int, leader: int) -> dict[str, Any]:
    """A partition in kcat's JSON."""
    return {"partition": number, "leader": leader, "replicas": [{"id": leader}], "isrs": [{"id": leader}]}


def test_topic_is_created_by_use(kcat: Run, reference: ReferenceClient, unique: str) -> None:
    topic = f"kcat-auto-{unique}"
    produce(kcat, topic, "v")
    assert len(reference.records(topic)) == COUNT


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_group_survives_a_killed_member(kcat: Run, reference: ReferenceClient, unique: str, assignor: str) -> None:
    topic, group = reference.create(f"kcat-group-{unique}", PARTITIONS), f"kcat-group-{unique}"
    settings = {
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "300",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": "200",
    }
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    members = [kcat("-G", group, "-J", "-u", *options, topic) for _ in range(2)]
    all_partitions = set(range(PARTITIONS))
    wait_for(
        "two members with two partitions each",
        lambda: (
            [len(assigned(member)) for member in members] == [2, 2]
            and set.union(*map(assigned, members)) == all_partitions
        ),
        watch=members,
    )
    produce(kcat, topic, "both")
    wait_for("all records read", lambda: sum(len(member.lines) for member in members) >= COUNT, watch=members)
    assert sorted([*records(members[0]), *records(members[1])]) == reference.records(topic)
    ends = reference.ends(topic)
    wait_for("all offsets committed", lambda: reference.committed(group, topic) == ends, watch=members)

    killed, survivor = members
    killed.kill()
    produce(kcat, topic, "one")
    wait_for("all partitions owned by the survivor", lambda: assigned(survivor) == all_partitions, watch=[survivor])
    wait_for("the rest read", lambda: sum(len(member.lines) for member in members) >= 2 * COUNT, watch=[survivor])
    assert sorted([*records(killed), *records(survivor)]) == reference.records(topic)
    ends = reference.ends(topic)
    wait_for("the rest committed", lambda: reference.committed(group, topic) == ends, watch=[survivor])

    survivor.terminate()
    assert survivor.returncode == 0, survivor.stderr_tail()
    wait_for("an empty group", lambda: reference.group(group) == (ConsumerGroupState.EMPTY, 0))
