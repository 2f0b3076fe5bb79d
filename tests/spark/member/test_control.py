"""The control server, and the listener that reports the progress of queries."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace

import pytest

from slackwater.client.errors import NetworkError
from slackwater.client.group_metadata import ConsumerGroupMetadata
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.member.control_server import MAX_QUEUED_MESSAGES, MAX_UNAUTHENTICATED, ControlServer, RunningBatch
from slackwater.spark.member.query_listener import QueryListener, keeps_state, parse_offset
from slackwater.spark.sink.input_offsets import InputsRefusedError, request_inputs
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
        assert other.receive() == {"task_ended": {"checkpoint_id": "other"}}


def test_wrong_secret_is_rejected(server: ControlServer) -> None:
    with member(server, secret="guess") as unauthenticated:
        assert unauthenticated.receive() is None
    assert server.members == []


@pytest.mark.parametrize("line", [b"\n", b"GET / HTTP/1.1\r\n", b'{"hello": 7}\n', b'{"hello": {}}\n', b"[]\n"])
def test_invalid_hello_is_rejected(server: ControlServer, line: bytes) -> None:
    with closing(Member(server)) as unauthenticated:
        unauthenticated.socket.sendall(line)
        assert unauthenticated.receive() is None


@pytest.mark.parametrize("start", [b"[", b'{"hello":', b'{"hello": {"secret": ['])
def test_deeply_nested_hello_is_rejected(server: ControlServer, start: bytes) -> None:
    with closing(Member(server)) as unauthenticated:
        unauthenticated.socket.sendall(start + b"[" * 50_000 + b"\n")
        assert unauthenticated.receive() is None
    with member(server) as next_member:
        assert next_member.receive() == {"welcome": {}}


def test_slow_hello_is_rejected_at_its_total_timeout() -> None:
    with closing(ControlServer(hello_timeout_s=0.2)) as server, closing(Member(server)) as slow:
        slow.socket.settimeout(0.01)

        def is_disconnected() -> bool:
            try:
                slow.socket.sendall(b" ")  # each byte arrives well within the timeout
                return slow.socket.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(is_disconnected, lambda: "still connected", DEADLINE_S)


def test_silent_clients_are_limited(server: ControlServer) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(Member(server))) for _ in range(MAX_UNAUTHENTICATED)]
        with closing(Member(server)) as one_more:
            assert one_more.receive() is None
        silent[0].close()

        def is_welcome() -> bool:
            with closing(Member(server)) as another:
                try:
                    another.send_hello(secret=server.address.secret, checkpoint_id="t")
                    return another.receive() == {"welcome": {}}
                except OSError:
                    return False

        wait_until(is_welcome, lambda: "rejected", DEADLINE_S)


def test_member_that_does_not_read_delays_no_other(server: ControlServer) -> None:
    with member(server, checkpoint_id="deaf") as deaf, member(server, checkpoint_id="other") as other:
        assert deaf.receive() == {"welcome": {}}
        assert other.receive() == {"welcome": {}}
        for _ in range(20):
            server.batch_finished("deaf", {"token": "x" * 1_000_000})  # more than the buffers of the sockets hold
        server.task_ended("other")
        assert other.receive() == {"task_ended": {"checkpoint_id": "other"}}
        assert "deaf" in {connected.checkpoint_id for connected in server.members}  # no send has timed out yet


def test_member_with_full_queue_is_disconnected(server: ControlServer) -> None:
    with member(server, checkpoint_id="deaf") as deaf:
        assert deaf.receive() == {"welcome": {}}
        server.batch_finished("deaf", {"token": "x" * 20_000_000})
        for _ in range(2 * MAX_QUEUED_MESSAGES):
            server.task_ended("deaf")
        assert server.members == []


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


class FakeQuery:
    """A query that runs batch 4, and reads one source in a group."""

    def __init__(self, server: ControlServer) -> None:
        server.add_session(lambda query_id: RunningBatch(4, [("mine", 9)]) if query_id == "query" else None)


INPUTS = {"group": "g", "generation": 3, "member": "m", "instance": None, "offsets": [["t", 1, 20, "marker"]]}


def answer(connection: Member, **response: object) -> None:
    """Answer the question that the server asks next."""
    question = connection.receive()
    assert isinstance(question, dict)
    assert question["prepare"]["seq"] == 9
    connection.socket.sendall(json.dumps({"prepared": {"id": question["prepare"]["id"], **response}}).encode() + b"\n")


def test_sink_gets_the_input_offsets_from_the_member(server: ControlServer) -> None:
    FakeQuery(server)
    with member(server, checkpoint_id="mine") as mine, ThreadPoolExecutor() as pool:
        assert mine.receive() == {"welcome": {}}
        asked = pool.submit(request_inputs, server.address, "query", 4)
        answer(mine, inputs=INPUTS)
        (inputs,) = asked.result(DEADLINE_S)
        assert inputs.member == ConsumerGroupMetadata("g", 3, "m")
        assert inputs.offsets == {TopicPartition("t", 1): OffsetAndMetadata(20, metadata="marker")}

        asked = pool.submit(request_inputs, server.address, "query", 4)
        answer(mine, refused="t-1 is lost.")
        with pytest.raises(InputsRefusedError, match=r"Batch 4 was not committed: t-1 is lost\."):
            asked.result(DEADLINE_S)

        asked = pool.submit(request_inputs, server.address, "query", 4)
        assert mine.receive()
        mine.close()  # the process of the source dies
        with pytest.raises(InputsRefusedError, match="The group member of batch 4 does not answer"):
            asked.result(DEADLINE_S)


@pytest.mark.parametrize(
    ("query_id", "batch_id", "reason"),
    [
        ("query", 5, "Batch 5 is not the running batch of query query."),
        ("other", 4, "Batch 4 is not the running batch of query other."),
        ("query", 4, "The group member of batch 4 does not answer."),
    ],
)
def test_sink_is_refused(server: ControlServer, query_id: str, batch_id: int, reason: str) -> None:
    FakeQuery(server)
    with pytest.raises(InputsRefusedError, match=reason):
        request_inputs(server.address, query_id, batch_id)


def test_sink_needs_the_secret_and_a_server(server: ControlServer) -> None:
    with pytest.raises(NetworkError, match="The driver cannot ask for the input offsets of batch 4"):
        request_inputs(server.address._replace(secret="guess"), "query", 4)
    server.close()
    with pytest.raises(NetworkError, match="The driver cannot ask for the input offsets of batch 4"):
        request_inputs(server.address, "query", 4)
