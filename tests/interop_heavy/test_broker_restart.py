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

Member = Callable[[str, str, str], ClientProcess]  # takes group, address and topic


@pytest.fixture(autouse=True)
def ours() -> None:
    """Skip for a foreign broker: these tests kill the broker."""
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
        arguments = ("member", group, topic, client.assignor, SESSION_MS)
        return start(*client.command, address, *client.before_command, *arguments, **client.environment)

    return {"kcat": kcat, **{client.name: partial(member, client) for client in CLIENTS}}


def is_kcat(process: ClientProcess) -> bool:
    """Whether the process is kcat, whose output has its own format."""
    return process.name == KCAT.name


def assigned(process: ClientProcess) -> set[int]:
    """The last assignment of a process."""
    return test_kcat.assigned(process) if is_kcat(process) else test_clients.assigned(process)


def read(members: Sequence[ClientProcess]) -> set[ReadRecord]:
    """The records that the members of a group have read so far."""
    return {record for member in members for record in (test_kcat if is_kcat(member) else test_clients).records(member)}


def rebalances(members: Sequence[ClientProcess]) -> list[int]:
    """The number of rebalances that each member has printed."""
    return [sum("rebalanced" in line for line in member.errors) for member in members]


def test_clients_survive_a_broker_restart(kinds: dict[str, Member], unique: str, tmp_path: Path) -> None:
    topic, data = f"restart-{unique}", tmp_path / "data"
    with running_broker(data) as first:
        address = first.wait_until_ready()
        ReferenceClient(address).create(topic, PARTITIONS)
        groups = {name: [member(name, address, topic) for _ in range(2)] for name, member in kinds.items()}
        processes = [member for members in groups.values() for member in members]
        wait_for(
            "two partitions for each member",
            lambda: all(len(assigned(member)) == 2 for member in processes),
            watch=processes,
        )
        ReferenceClient(address).produce(topic, [f"before-{number}" for number in range(COUNT)], PARTITIONS)
        written = set(ReferenceClient(address).records(topic))
        wait_for(
            "all records read",
            lambda: all(read(members) == written for members in groups.values()),
            watch=processes,
        )
        before = rebalances(groups["kcat"])
        first.kill()
        first.check_log()

    with running_broker(data, address) as second:
        assert second.wait_until_ready() == address
        reference = ReferenceClient(address)
        assert set(reference.records(topic)) == written, "the broker lost acknowledged records"
        reference.produce(topic, [f"after-{number}" for number in range(COUNT)], PARTITIONS)
        written = set(reference.records(topic))
        wait_for(
            "all records read",
            lambda: all(read(members) == written for members in groups.values()),
            watch=processes,
        )
        # librdkafka keeps its membership while it reconnects, so the broker must have restored the groups.
        assert rebalances(groups["kcat"]) == before
        ends = reference.ends(topic)
        wait_for(
            "all offsets committed",
            lambda: all(reference.committed(name, topic) == ends for name in groups),
            watch=processes,
        )
        second.stop()
