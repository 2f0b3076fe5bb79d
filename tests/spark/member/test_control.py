"""The control server, and the listener that reports the progress of queries."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest

from slackwater.spark.member.control_server import ControlServer
from slackwater.spark.member.query_listener import QueryListener, keeps_state, parse_offset
from tests.waiting import wait_until

DEADLINE_S = 30.0


@pytest.fixture
def server() -> Iterator[ControlServer]:
    with closing(ControlServer()) as server:
        yield server


class Member:
    """The connection of a member, at the level of bytes."""

    def __init__(self, server: ControlServer) -> None:
        host, port, _ = server.address
        self.socket = socket.create_connection((host, port), timeout=DEADLINE_S)
        self._lines = self.socket.makefile("rb")

    def send_hello(self, **hello: object) -> None:
        self.socket.sendall(json.dumps({"hello": hello}).encode() + b"\n")

    def receive(self) -> object:
        line = self._lines.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@contextmanager
def member(server: ControlServer, **hello: object) -> Iterator[Member]:
    with closing(Member(server)) as connection:
        connection.send_hello(
            **{"secret": server.address.secret, "checkpoint_id": "t", "group": "g", "instance": None} | hello
        )
        yield connection


def test_member_gets_messages_of_its_query_only(server: ControlServer) -> None:
    with member(server, checkpoint_id="mine") as mine, member(server, checkpoint_id="other") as other:
        assert mine.receive() == {"welcome": {}}
        assert other.receive() == {"welcome": {}}
        server.batch_finished("mine", {"token": "mine", "seq": 3})
        server.task_ended("other")
        assert mine.receive() == {"finished": {"token": "mine", "seq": 3}}
        assert other.receive() == {"task": "other"}


def test_wrong_secret_is_rejected(server: ControlServer) -> None:
    with member(server, secret="guess") as unauthenticated:
        assert unauthenticated.receive() is None
    assert server.members == []


@pytest.mark.parametrize("line", [b"\n", b"GET / HTTP/1.1\r\n", b'{"hello": 7}\n', b'{"hello": {}}\n', b"[]\n"])
def test_invalid_hello_is_rejected(server: ControlServer, line: bytes) -> None:
    with closing(Member(server)) as unauthenticated:
        unauthenticated.socket.sendall(line)
        assert unauthenticated.receive() is None


def test_duplicate_instance_id_is_rejected(server: ControlServer) -> None:
    with (
        member(server, checkpoint_id="first", instance="pod-1") as first,
        member(server, checkpoint_id="second", instance="pod-2") as second,
    ):
        assert first.receive() == {"welcome": {}}
        assert second.receive() == {"welcome": {}}
        with member(server, checkpoint_id="third", instance="pod-1") as third:
            response = third.receive()
            assert isinstance(response, dict)
            assert "kafka.group.instance.id=pod-1" in response["refused"]
            assert third.receive() is None
        with member(server, checkpoint_id="third", instance="pod-1", group="another") as third:
            assert third.receive() == {"welcome": {}}


def test_instance_id_is_free_after_query_ends(server: ControlServer) -> None:
    with member(server, checkpoint_id="first", instance="pod-1") as first:
        assert first.receive() == {"welcome": {}}
    wait_until(lambda: not server.members, lambda: server.members, DEADLINE_S)
    with member(server, checkpoint_id="second", instance="pod-1") as second:
        assert second.receive() == {"welcome": {}}


def test_late_member_learns_that_query_is_stateful(server: ControlServer) -> None:
    server.set_stateful("t", True)
    with member(server) as late:
        assert late.receive() == {"welcome": {}}
        assert late.receive() == {"query": {"checkpoint_id": "t", "stateful": True}}


def test_disconnected_member_is_removed(server: ControlServer) -> None:
    with member(server) as gone:
        assert gone.receive() == {"welcome": {}}
    wait_until(lambda: not server.members, lambda: server.members, DEADLINE_S)
    server.batch_finished("t", {"token": "t"})


def test_close_disconnects_members(server: ControlServer) -> None:
    with member(server) as connection:
        assert connection.receive() == {"welcome": {}}
        server.close()
        assert connection.receive() is None


# --- the listener -----------------------------------------------------------------------------------------------------

OURS = json.dumps({"v": 1, "token": "t", "seq": 2, "ranges": {}})


@pytest.mark.parametrize("text", [None, "", "7", "{}", '{"orders":{"0":5}}', "not json", '{"token":"t"}'])
def test_offsets_of_other_sources_are_ignored(text: str | None) -> None:
    assert parse_offset(text) is None


def test_listener_reports_finished_batch(server: ControlServer) -> None:
    class NoWatch:
        def wake(self) -> None:
            return

    listener = QueryListener(server, NoWatch())  # type: ignore[arg-type]
    sources = [SimpleNamespace(endOffset='{"orders":{"0":5}}'), SimpleNamespace(endOffset=OURS)]
    progress = SimpleNamespace(sources=sources, stateOperators=[])
    with member(server) as connection:
        assert connection.receive() == {"welcome": {}}
        listener.onQueryProgress(SimpleNamespace(progress=progress))  # type: ignore[arg-type]
        assert connection.receive() == {"finished": json.loads(OURS)}


class Plan:
    """A logical plan with the methods that py4j calls."""

    def __init__(self, name: str, *children: "Plan", is_streaming: bool = False) -> None:
        self._name, self._children = name, children
        self._is_streaming = is_streaming or any(plan.isStreaming() for plan in children)

    def nodeName(self) -> str:
        return self._name

    def isStreaming(self) -> bool:
        return self._is_streaming

    def children(self) -> "Plan":
        return self

    def size(self) -> int:
        return len(self._children)

    def apply(self, at: int) -> "Plan":
        return self._children[at]


STREAM, TABLE = Plan("StreamingDataSourceV2ScanRelation", is_streaming=True), Plan("LocalRelation")


@pytest.mark.parametrize(
    ("plan", "stateful"),
    [
        (Plan("Project", STREAM), False),
        (Plan("Aggregate", STREAM), True),
        (Plan("Project", Plan("Deduplicate", STREAM)), True),
        (Plan("Join", STREAM, TABLE), False),
        (Plan("Join", STREAM, Plan("Aggregate", TABLE)), False),
        (Plan("Join", STREAM, STREAM), True),
        (Plan("Union", STREAM, STREAM), False),
    ],
)
def test_stateful_operators_on_streams(plan: Plan, stateful: bool) -> None:
    assert keeps_state(plan) is stateful
