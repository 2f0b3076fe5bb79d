"""Sarama and KafkaJS, unchanged: each client's program answers to the same commands, so both meet the same tests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import ConsumerGroupState

from tests.interop_heavy.conftest import Start
from tests.interop_heavy.guest import PEERS, ROOT, Guest, eventually, need
from tests.interop_heavy.referee import Referee, Seen, by_partition, round_the_partitions

PARTITIONS = 4
COUNT = 400
SESSION_MS = "3000"


class Client(NamedTuple):
    """How a client's program is called, and what the client can do."""

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

Run = Callable[..., Guest]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """One client after the other."""
    wanted: Client = request.param
    need(wanted.name, *wanted.needs)
    return wanted


@pytest.fixture
def run(client: Client, start: Start, bootstrap: str) -> Run:
    """Starts the client's program with a command."""

    def with_command(*words: str) -> Guest:
        return start(*client.command, bootstrap, *client.before_command, *words, **client.environment)

    return with_command


def records(guest: Guest) -> list[Seen]:
    """What a guest has read so far."""
    return [Seen(*record) for record in guest.told("record")]


def assigned(guest: Guest) -> set[int]:
    """What a guest was last assigned."""
    return set((guest.told("assigned") or [[]])[-1])


def test_what_it_produces_lies_there_once_and_in_order(client: Client, run: Run, referee: Referee, unique: str) -> None:
    for codec in client.codecs:
        topic = referee.create(f"produce-{codec}-{unique}", PARTITIONS)
        assert run("produce", topic, "v", str(COUNT), codec).result() == [{"acked": COUNT}]
        found = referee.records(topic)
        values = [f"v-{number}" for number in range(COUNT)]
        assert by_partition(found) == round_the_partitions(values, PARTITIONS)
        assert all(seen.key == f"key-{seen.header}" and seen.value == f"v-{seen.header}" for seen in found)


def test_it_reads_what_another_client_wrote(client: Client, run: Run, referee: Referee, unique: str) -> None:
    topic = referee.create(f"consume-{unique}", PARTITIONS)
    for codec in client.codecs:
        referee.produce(topic, [f"{codec}-{number}" for number in range(COUNT)], PARTITIONS, codec)
    reading = run("consume", topic, str(COUNT * len(client.codecs)))
    reading.result()
    assert sorted(records(reading)) == referee.records(topic)


def test_a_group_of_two_shares_the_work_and_outlives_a_kill(
    client: Client, run: Run, referee: Referee, unique: str
) -> None:
    topic, group = referee.create(f"group-{unique}", PARTITIONS), f"group-{unique}"
    members = [run("member", group, topic, client.assignor, SESSION_MS) for _ in range(2)]
    everything = set(range(PARTITIONS))
    eventually(
        "two members with two partitions each",
        lambda: [len(assigned(one)) for one in members] == [2, 2] and set.union(*map(assigned, members)) == everything,
        watch=members,
    )
    referee.produce(topic, [f"both-{number}" for number in range(COUNT)], PARTITIONS)
    eventually("everything read", lambda: sum(len(records(one)) for one in members) >= COUNT, watch=members)
    assert sorted([*records(members[0]), *records(members[1])]) == referee.records(topic)
    ends = referee.ends(topic)
    eventually("everything committed", lambda: referee.committed(group, topic) == ends, watch=members)

    killed, survivor = members
    killed.kill()
    referee.produce(topic, [f"one-{number}" for number in range(COUNT)], PARTITIONS)
    eventually("everything in one hand", lambda: assigned(survivor) == everything, watch=[survivor])
    eventually(
        "the rest read",
        lambda: sum(seen.value.startswith("one-") for seen in records(survivor)) >= COUNT,
        watch=[survivor],
    )
    assert sorted([*records(killed), *records(survivor)]) == referee.records(topic)
    ends = referee.ends(topic)
    eventually("the rest committed", lambda: referee.committed(group, topic) == ends, watch=[survivor])
    assert referee.group(group) == (ConsumerGroupState.STABLE, 1)

    assert {"left": True} in survivor.finish()
    assert referee.group(group) == (ConsumerGroupState.EMPTY, 0)


def test_a_member_that_leaves_hands_over_at_once(client: Client, run: Run, referee: Referee, unique: str) -> None:
    topic, group = referee.create(f"leave-{unique}", PARTITIONS), f"leave-{unique}"
    never = "300000"  # a session that cannot end within this test: only the leave can hand over
    leaver, stayer = (run("member", group, topic, client.assignor, never) for _ in range(2))
    both = [leaver, stayer]
    eventually("two with two each", lambda: [len(assigned(one)) for one in both] == [2, 2], watch=both)
    assert {"left": True} in leaver.finish()
    eventually("all four with the one that stayed", lambda: len(assigned(stayer)) == PARTITIONS, watch=[stayer])


def test_a_commit_holds_and_a_seek_overrides_it(run: Run, referee: Referee, unique: str) -> None:
    topic, group = referee.create(f"seek-{unique}", 1), f"seek-{unique}"
    referee.produce(topic, [f"v-{number}" for number in range(50)], 1)
    assert run("commit", group, topic, "0", "40").result() == [{"committed": 40}]
    assert referee.committed(group, topic) == {0: 40}
    seeking = run("seek", group, topic, "0", "10", "5")
    assert {"left": True} in seeking.result()
    assert [seen.offset for seen in records(seeking)] == [10, 11, 12, 13, 14]
    assert [seen.value for seen in records(seeking)] == [f"v-{number}" for number in range(10, 15)]
    assert referee.committed(group, topic) == {0: 15}


def test_what_it_administers_is_so(run: Run, referee: Referee, unique: str) -> None:
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
    eventually("the topic gone", lambda: topic not in referee.topics())
