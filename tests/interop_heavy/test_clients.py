"""Sarama and KafkaJS: both programs take the same commands, so both run the same tests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import ConsumerGroupState

from tests.interop_heavy.client_process import PEERS, ROOT, ClientProcess, require_installed, wait_for
from tests.interop_heavy.conftest import Start
from tests.interop_heavy.reference_client import ReadRecord, ReferenceClient, by_partition, spread_over_partitions

PARTITIONS = 4
COUNT = 400
SESSION_MS = "3000"


class Client(NamedTuple):
    """A client's program, its arguments and its capabilities."""

    name: str
    command: tuple[str | Path, ...]
    before_command: tuple[str, ...]
    needs: tuple[Path, ...]
    environment: Mapping[str, str]
    codecs: tuple[str, ...]
    assignor: str


SARAMA = PEERS / "sarama"
KAFKAJS = PEERS / "kafkajs" / "node_modules"
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

CLIENTS = (
    Client("sarama-2.1", (SARAMA,), ("2.1.0",), (SARAMA,), {}, ALL_CODECS, "range"),
    Client("sarama-4.2", (SARAMA,), ("4.2.1",), (SARAMA,), {}, ALL_CODECS, "sticky"),
    Client(
        "kafkajs",
        ("node", ROOT / "interop" / "kafkajs" / "client.js"),
        (),
        (KAFKAJS,),
        {"NODE_PATH": str(KAFKAJS)},
        ("none", "gzip"),
        "roundrobin",
    ),
)

Run = Callable[..., ClientProcess]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn."""
    client: Client = request.param
    require_installed(client.name, *client.needs)
    return client


@pytest.fixture
def run(client: Client, start: Start, bootstrap: str) -> Run:
    """Starts the client's program with a command."""

    def with_command(*arguments: str) -> ClientProcess:
        return start(*client.command, bootstrap, *client.before_command, *arguments, **client.environment)

    return with_command


def records(process: ClientProcess) -> list[ReadRecord]:
    """The records read so far."""
    return [ReadRecord(*record) for record in process.values("record")]


def assigned(process: ClientProcess) -> set[int]:
    """The last assignment."""
    return set((process.values("assigned") or [[]])[-1])


def test_produced_records_are_stored_once_in_order(
    client: Client, run: Run, reference: ReferenceClient, unique: str
) -> None:
    for codec in client.codecs:
        topic = reference.create(f"produce-{codec}-{unique}", PARTITIONS)
        assert run("produce", topic, "v", str(COUNT), codec).result() == [{"acked": COUNT}]
        records_read = reference.records(topic)
        values = [f"v-{number}" for number in range(COUNT)]
        assert by_partition(records_read) == spread_over_partitions(values, PARTITIONS)
        assert all(
            record.key == f"key-{record.header}" and record.value == f"v-{record.header}" for record in records_read
        )


def test_reads_records_of_another_client(client: Client, run: Run, reference: ReferenceClient, unique: str) -> None:
    topic = reference.create(f"consume-{unique}", PARTITIONS)
    for codec in client.codecs:
        reference.produce(topic, [f"{codec}-{number}" for number in range(COUNT)], PARTITIONS, codec)
    reading = run("consume", topic, str(COUNT * len(client.codecs)))
    reading.result()
    assert sorted(records(reading)) == reference.records(topic)


def test_group_survives_a_killed_member(client: Client, run: Run, reference: ReferenceClient, unique: str) -> None:
    topic, group = reference.create(f"group-{unique}", PARTITIONS), f"group-{unique}"
    members = [run("member", group, topic, client.assignor, SESSION_MS) for _ in range(2)]
    all_partitions = set(range(PARTITIONS))
    wait_for(
        "two members with two partitions each",
        lambda: (
            [len(assigned(member)) for member in members] == [2, 2]
            and set.union(*map(assigned, members)) == all_partitions
        ),
        watch=members,
    )
    reference.produce(topic, [f"both-{number}" for number in range(COUNT)], PARTITIONS)
    wait_for("all records read", lambda: sum(len(records(member)) for member in members) >= COUNT, watch=members)
    assert sorted([*records(members[0]), *records(members[1])]) == reference.records(topic)
    ends = reference.ends(topic)
    wait_for("all offsets committed", lambda: reference.committed(group, topic) == ends, watch=members)

    killed, survivor = members
    killed.kill()
    reference.produce(topic, [f"one-{number}" for number in range(COUNT)], PARTITIONS)
    wait_for("all partitions owned by the survivor", lambda: assigned(survivor) == all_partitions, watch=[survivor])
    wait_for(
        "the rest read",
        lambda: sum(record.value.startswith("one-") for record in records(survivor)) >= COUNT,
        watch=[survivor],
    )
    assert sorted([*records(killed), *records(survivor)]) == reference.records(topic)
    ends = reference.ends(topic)
    wait_for("the rest committed", lambda: reference.committed(group, topic) == ends, watch=[survivor])
    assert reference.group(group) == (ConsumerGroupState.STABLE, 1)

    assert {"left": True} in survivor.finish()
    assert reference.group(group) == (ConsumerGroupState.EMPTY, 0)


def test_leaving_member_hands_over_at_once(client: Client, run: Run, reference: ReferenceClient, unique: str) -> None:
    topic, group = reference.create(f"leave-{unique}", PARTITIONS), f"leave-{unique}"
    never = "300000"  # longer than the test: only the leave can hand over
    leaver, stayer = (run("member", group, topic, client.assignor, never) for _ in range(2))
    both = [leaver, stayer]
    wait_for("two partitions for each member", lambda: [len(assigned(member)) for member in both] == [2, 2], watch=both)
    assert {"left": True} in leaver.finish()
    wait_for("all partitions for the remaining member", lambda: len(assigned(stayer)) == PARTITIONS, watch=[stayer])


def test_commit_and_seek(run: Run, reference: ReferenceClient, unique: str) -> None:
    topic, group = reference.create(f"seek-{unique}", 1), f"seek-{unique}"
    reference.produce(topic, [f"v-{number}" for number in range(50)], 1)
    assert run("commit", group, topic, "0", "40").result() == [{"committed": 40}]
    assert reference.committed(group, topic) == {0: 40}
    seeking = run("seek", group, topic, "0", "10", "5")
    assert {"left": True} in seeking.result()
    assert [record.offset for record in records(seeking)] == [10, 11, 12, 13, 14]
    assert [record.value for record in records(seeking)] == [f"v-{number}" for number in range(10, 15)]
    assert reference.committed(group, topic) == {0: 15}


def test_administration(run: Run, reference: ReferenceClient, unique: str) -> None:
    topic, group = f"admin-{unique}", f"admin-{unique}"
    steps = [line for line in run("admin", topic, group).result() if "step" in line]
    assert steps == [
        {"step": "create", "partitions": 2, "exists": True},
        {"step": "partitions", "partitions": 3},
        {"step": "configs", "before": "60000", "after": "120000"},
        {"step": "cluster", "brokers": 1},
        {"step": "groups", "listed": True, "state": "Empty", "offset": 7},
        {"step": "records", "low": 4, "high": 10},
        {"step": "delete", "group": False},
    ]
    wait_for("the deleted topic", lambda: topic not in reference.topics())
