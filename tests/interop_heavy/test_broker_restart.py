"""The broker is killed and restarted while clients are running."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.interop_heavy import test_clients, test_kcat
from tests.interop_heavy.broker_process import running_broker
from tests.interop_heavy.client_process import ClientProcess, require_installed, wait_for
from tests.interop_heavy.conftest import Start
from tests.interop_heavy.reference_client import ReadRecord, ReferenceClient
from tests.interop_heavy.test_clients import CLIENTS, PARTITIONS, Client
from tests.interop_heavy.test_kcat import KCAT

COUNT = 200
SESSION_MS = "10000"

Member = Callable[[str, str, str], ClientProcess]  # of a group, at an address, for a topic


@pytest.fixture(autouse=True)
def ours() -> None:
    """Only our own broker can be killed here."""
    if os.environ.get("INTEROP_BOOTSTRAP"):
        pytest.skip("INTEROP_BOOTSTRAP names a broker that this test may not kill")


@pytest.fixture
def kinds(start: Start) -> dict[str, Member]:
    """How a member of each kind is started."""
    require_installed("kcat", KCAT)
    for client in CLIENTS:
        require_installed(client.name, *client.needs)

    def kcat(group: str, address: str, topic: str) -> ClientProcess:
        options = ("-X", f"session.timeout.ms={SESSION_MS}", "-X", "auto.offset.reset=earliest")
        return start(KCAT, "-b", address, "-E", "-G", group, "-J", "-u", *options, topic)

    def member(client: Client, group: str, address: str, topic: str) -> ClientProcess:
        words = ("member", group, topic, client.assignor, SESSION_MS)
        return start(*client.command, address, *client.before_command, *words, **client.environment)

    return {"kcat": kcat, **{client.name: partial(member, client) for client in CLIENTS}}


def is_kcat(process: ClientProcess) -> bool:
    """kcat tells in its own words."""
    return process.name == KCAT.name


def assigned(process: ClientProcess) -> set[int]:
    """What a process was last assigned."""
    return test_kcat.assigned(process) if is_kcat(process) else test_clients.assigned(process)


def read(members: Sequence[ClientProcess]) -> set[ReadRecord]:
    """What the members of a group have read so far."""
    return {seen for one in members for seen in (test_kcat if is_kcat(one) else test_clients).records(one)}


def rebalances(members: Sequence[ClientProcess]) -> list[int]:
    """How often each member has seen the assignment change."""
    return [sum("rebalanced" in line for line in one.errors) for one in members]


def test_clients_survive_a_broker_restart(kinds: dict[str, Member], unique: str, tmp_path: Path) -> None:
    topic, data = f"restart-{unique}", tmp_path / "data"
    with running_broker(data) as first:
        address = first.wait_until_ready()
        ReferenceClient(address).create(topic, PARTITIONS)
        groups = {name: [member(name, address, topic) for _ in range(2)] for name, member in kinds.items()}
        everybody = [one for members in groups.values() for one in members]
        wait_for("two partitions for each", lambda: all(len(assigned(one)) == 2 for one in everybody), watch=everybody)
        ReferenceClient(address).produce(topic, [f"before-{number}" for number in range(COUNT)], PARTITIONS)
        written = set(ReferenceClient(address).records(topic))
        wait_for("all_partitions read", lambda: all(read(one) == written for one in groups.values()), watch=everybody)
        before = rebalances(groups["kcat"])
        first.kill()
        first.check_log()

    with running_broker(data, address) as second:
        assert second.wait_until_ready() == address
        reference = ReferenceClient(address)
        assert set(reference.records(topic)) == written, "the broker lost what it had acknowledged"
        reference.produce(topic, [f"after-{number}" for number in range(COUNT)], PARTITIONS)
        written = set(reference.records(topic))
        wait_for("all_partitions read", lambda: all(read(one) == written for one in groups.values()), watch=everybody)
        # librdkafka keeps its membership while it reconnects: it shows that the groups came back as they were.
        assert rebalances(groups["kcat"]) == before
        ends = reference.ends(topic)
        wait_for(
            "all_partitions committed",
            lambda: all(reference.committed(name, topic) == ends for name in groups),
            watch=everybody,
        )
        second.stop()
