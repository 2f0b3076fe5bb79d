"""Pipelined heartbeats and commits: processed together, with the responses of single requests."""

import random
import struct
from pathlib import Path

import pytest

from slackwater.broker.handlers import Handler, heartbeat, offset_commit
from slackwater.group.errors import Error
from slackwater.wire.apis import HEARTBEAT, OFFSET_COMMIT
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from slackwater.wire.request_response import decode_response, encode_request, encode_response
from slackwater.wire.schema import Request
from tests.broker.quiet_broker import QuietBroker, QuietClient

from .handlers.members import GROUP, join_stable_group


def frames(version: int, first_id: int, *requests: Request) -> bytes:
    """Encode requests with consecutive correlation ids."""
    encoded = [encode_request(request, version, first_id + at, "client") for at, request in enumerate(requests)]
    return b"".join(encoded)


def correlation_ids(client: QuietClient) -> list[int]:
    """The correlation ids of the responses since the last call."""
    return [struct.unpack(">i", frame[:4])[0] for frame in client.frames()]


def heartbeat_errors(client: QuietClient, version: int = 4) -> list[int]:
    return [decode_response(HeartbeatResponse, version, frame)[1].error_code for frame in client.frames()]


def commit_errors(client: QuietClient, version: int) -> list[list[int]]:
    """The partitions' errors of each response."""
    responses = [decode_response(OffsetCommitResponse, version, frame)[1] for frame in client.frames()]
    return [
        [partition.error_code for topic in response.topics for partition in topic.partitions] for response in responses
    ]


def commit(
    broker: QuietBroker, offsets: list[tuple[str, int, int]], *, member_id: str = "", metadata: str | None = ""
) -> OffsetCommitRequest:
    """A commit of these topics, partitions and offsets."""
    topics: list[OffsetCommitRequestTopic] = []
    for name, index, offset in offsets:
        if not topics or topics[-1].name != name:
            topic = broker.broker.topics.get(name)
            topics.append(OffsetCommitRequestTopic(name, bytes(16) if topic is None else topic.topic_id))
        topics[-1].partitions.append(OffsetCommitRequestPartition(index, offset, offset % 3 - 1, metadata))
    return OffsetCommitRequest(GROUP, 1 if member_id else -1, member_id, topics=topics)


def simple_commits(broker: QuietBroker, version: int, count: int, first: int = 0) -> bytes:
    requests = [commit(broker, [("t", 0, at), ("t", 2, at * 10**9), ("u", 0, 7)]) for at in range(first, first + count)]
    return frames(version, first, *requests)


@pytest.mark.parametrize("version", range(5))
def test_pipelined_heartbeats(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        valid = HeartbeatRequest(GROUP, 1, join_stable_group(broker.connect()))
        stale = HeartbeatRequest(GROUP, 2, valid.member_id)
        client.send_bytes(frames(version, 2, *[valid] * 20))
        assert heartbeat_errors(client, version) == [Error.NONE] * 20
        client.send_bytes(frames(version, 40, valid, valid, stale, valid))
        expected = [Error.NONE, Error.NONE, Error.ILLEGAL_GENERATION, Error.NONE]
        assert heartbeat_errors(client, version) == expected


@pytest.mark.parametrize("version", range(2, 11))
def test_pipelined_commits(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, {"flush": "os"}, t=3, u=1) as broker:
        client = broker.connect()
        client.send_bytes(simple_commits(broker, version, 20))
        client.send_bytes(frames(version, 30, commit(broker, [("t", 1, 5)])) + simple_commits(broker, version, 3, 31))
        assert commit_errors(client, version) == [[0, 0, 0]] * 20 + [[0]] + [[0, 0, 0]] * 3
        stored = broker.broker.group_coordinator.coordinator.groups[GROUP].offsets
        assert {partition: offset.offset for partition, offset in stored.items()} == {
            ("t", 0): 33,
            ("t", 1): 5,
            ("t", 2): 33 * 10**9,
            ("u", 0): 7,
        }
        assert {offset.leader_epoch for offset in stored.values()} == ({-1, 0, 1} if version >= 6 else {-1})


def test_commits_to_a_deleted_and_recreated_topic(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=3, u=1) as broker:
        client = broker.connect()
        topic = broker.broker.topics.get("u")
        assert topic is not None
        broker.broker.topics.delete(topic)
        client.send_bytes(simple_commits(broker, 8, 2))
        assert commit_errors(client, 8) == [[Error.UNKNOWN_TOPIC_OR_PARTITION, 0, 0]] * 2
        broker.broker.topics.create("u", 1)
        client.send_bytes(simple_commits(broker, 8, 2))
        assert commit_errors(client, 8) == [[0, 0, 0]] * 2


def test_heartbeats_during_a_rebalance_and_after_expiry(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client, joining = broker.connect(), broker.connect()
        request = HeartbeatRequest(GROUP, 1, join_stable_group(broker.connect()))
        joining.send_fields(
            "JoinGroup",
            9,
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            group_instance_id="other",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        client.send_bytes(frames(4, 0, request, request))
        assert heartbeat_errors(client) == [Error.REBALANCE_IN_PROGRESS] * 2
        broker.pass_ms(120_000)
        client.send_bytes(frames(4, 0, request, request))
        assert heartbeat_errors(client) == [Error.UNKNOWN_MEMBER_ID] * 2


def test_responses_are_in_order_for_any_split_of_the_bytes(tmp_path: Path) -> None:
    rng = random.Random(20)
    with QuietBroker(tmp_path, t=3) as broker:
        client = broker.connect()
        member_id = join_stable_group(broker.connect())
        data, number = b"", 0
        for _ in range(60):
            kind = rng.randrange(4)
            for _ in range(rng.randrange(1, 6)):
                number += 1
                if kind < 2:
                    data += frames(4, number, HeartbeatRequest(GROUP, 1, member_id))
                elif kind == 2:
                    data += frames(9, number, commit(broker, [("t", 1, number)], member_id=member_id))
                else:
                    offsets = [("t", 0, number), ("t", 1, number), ("t", 9, number)]
                    data += frames(8, number, commit(broker, offsets, member_id=member_id))
        ids: list[int] = []
        while data:
            size = rng.choice((1, 5, 20, 100, 600))
            client.send_bytes(data[:size])
            data = data[size:]
            ids += correlation_ids(client)
        assert ids == list(range(1, number + 1))


def test_responses_wait_for_the_write(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always"}, t=3, u=1) as broker:
        held = broker.hold_flushes()
        client = broker.connect()
        client.send_bytes(simple_commits(broker, 9, 2))
        held.release()
        assert len(client.frames()) == 2
        client.send_bytes(simple_commits(broker, 9, 4, 2))
        client.send_bytes(simple_commits(broker, 9, 4, 6))
        assert client.frames() == []
        assert client.pending_requests == 8
        held.release()
        assert correlation_ids(client) == list(range(2, 10))
        assert client.pending_requests == 0


def test_client_with_too_many_requests_is_not_read(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always", "queued.max.requests": 5}, t=3, u=1) as broker:
        held = broker.hold_flushes()
        client = broker.connect()
        client.send_bytes(simple_commits(broker, 9, 2))
        is_read = []
        for first in (2, 7):
            held.release()
            is_read.append(client.is_read)
            client.send_bytes(simple_commits(broker, 9, 5, first))
            is_read.append(client.is_read)
        assert is_read == [True, False] * 2


def test_replaced_handler_gets_every_request(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        request = HeartbeatRequest(GROUP, 1, join_stable_group(client))
        seen: list[int] = []
        original = broker.server.handlers.get(HEARTBEAT.key) or broker.server.handler(HEARTBEAT.key)

        def record(broker, context, request) -> None:  # type: ignore[no-untyped-def]
            seen.append(context.correlation_id)
            original.handle(broker, context, request)

        broker.server.handlers[HEARTBEAT.key] = Handler(original.api, record, original.error_response)
        client.send_bytes(frames(4, 10, request, request, request))
        assert seen == [10, 11, 12]
        broker.server.handlers[HEARTBEAT.key] = original
        client.send_bytes(frames(4, 20, request, request))
        assert seen == [10, 11, 12]
        assert len(client.frames()) == 5


def test_failed_requests_get_an_error_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with QuietBroker(tmp_path, t=3, u=1) as broker:
        client = broker.connect()
        request = HeartbeatRequest(GROUP, 1, join_stable_group(broker.connect()))

        def fail(*_args: object) -> None:
            raise RuntimeError("injected by the test")

        with monkeypatch.context() as patch:
            patch.setattr(broker.broker.group_coordinator, "submit", fail)
            client.send_bytes(frames(4, 0, request, request))
            client.send_bytes(simple_commits(broker, 9, 2))
        commit_request, error = commit(broker, [("t", 0, 0), ("t", 2, 0), ("u", 0, 7)]), Error.UNKNOWN_SERVER_ERROR
        expected = [encode_response(heartbeat.error_response(request, 4, error), 4, number) for number in range(2)]
        expected += [
            encode_response(offset_commit.error_response(commit_request, 9, error), 9, number) for number in range(2)
        ]
        assert client.frames() == [frame[4:] for frame in expected]
        client.send_bytes(frames(4, 0, request, request))
        assert heartbeat_errors(client) == [Error.NONE] * 2


def test_pipelined_requests_are_counted_individually(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=3, u=1) as broker:
        client = broker.connect()
        request = HeartbeatRequest(GROUP, 1, join_stable_group(broker.connect()))
        for _ in range(4):
            client.send_bytes(frames(4, 0, *[request] * 5))
            client.send_bytes(simple_commits(broker, 9, 5))
        requests = broker.broker.metrics.requests
        assert (requests[HEARTBEAT.key].count, requests[OFFSET_COMMIT.key].count) == (20, 20)
