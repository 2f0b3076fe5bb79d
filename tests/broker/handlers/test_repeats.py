"""Requests that say what the last one said: answered as if each had been read by itself.

Every story is told twice, once by a broker that remembers and once by one that reads every frame.
"""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.broker import connection, repeats
from slackwater.broker.handlers import Handler, heartbeat, offset_commit
from slackwater.group.coordinator import StoredOffset
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.apis import HEARTBEAT, OFFSET_COMMIT
from slackwater.wire.envelope import encode_request, encode_response
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from slackwater.wire.schema import Request
from tests.broker.quiet_broker import QuietBroker, QuietClient

from .members import GROUP, settle

Offsets = dict[TopicPartition, StoredOffset]


class Told(list[list[bytes]]):
    """The answers to each piece that was sent."""

    repeated = 0  # how many bytes were taken without being read


Story = Callable[[QuietBroker, Callable[[bytes], None]], None]


def tell(directory: Path, story: Story, monkeypatch: pytest.MonkeyPatch, *, remember: bool) -> tuple[Told, Offsets]:
    told = Told()
    with monkeypatch.context() as patch, QuietBroker(directory, {"flush": "os"}, t=3, u=1) as broker:
        if not remember:
            patch.setattr(connection, "MOST_WASTED", 0)
        client = broker.connect()
        handle = broker.server.handle_repeats

        def counted(*args: object) -> int:
            taken = handle(*args)  # type: ignore[arg-type]
            told.repeated += taken
            return taken

        patch.setattr(broker.server, "handle_repeats", counted)

        def send(data: bytes) -> None:
            client.send_bytes(data)
            told.append([without_ids(broker, one) for one in client.frames()])

        story(broker, send)
        group = broker.broker.groups.coordinator.groups.get(GROUP)
        return told, dict(group.offsets) if group is not None else {}


def without_ids(broker: QuietBroker, frame: bytes) -> bytes:
    """The same with a topic's name in the place of its id, which no two brokers share."""
    for topic in broker.broker.topics:
        frame = frame.replace(topic.topic_id, topic.name.encode().ljust(16))
    return frame


def told_alike(directory: Path, story: Story, monkeypatch: pytest.MonkeyPatch) -> tuple[Told, Offsets]:
    """Tell it twice; what was answered and stored is the same, and the first time most of it was not read."""
    told, stored = tell(directory / "one", story, monkeypatch, remember=True)
    plainly, stored_plainly = tell(directory / "two", story, monkeypatch, remember=False)
    assert told == plainly
    assert stored == stored_plainly
    assert plainly.repeated == 0
    assert told.repeated > 0
    return told, stored


def frames(version: int, first_id: int, *requests: Request) -> bytes:
    return b"".join(encode_request(one, version, first_id + at, "client") for at, one in enumerate(requests))


def commit(
    broker: QuietBroker, offsets: list[tuple[str, int, int]], *, member_id: str = "", metadata: str | None = ""
) -> OffsetCommitRequest:
    """A commit of these: topic, partition, offset."""
    topics: list[OffsetCommitRequestTopic] = []
    for name, index, offset in offsets:
        if not topics or topics[-1].name != name:
            topic = broker.broker.topics.get(name)
            topics.append(OffsetCommitRequestTopic(name, bytes(16) if topic is None else topic.topic_id))
        topics[-1].partitions.append(OffsetCommitRequestPartition(index, offset, offset % 3 - 1, metadata))
    return OffsetCommitRequest(GROUP, 1 if member_id else -1, member_id, topics=topics)


def simple_commits(broker: QuietBroker, version: int, count: int, first: int = 0) -> bytes:
    wanted = [commit(broker, [("t", 0, at), ("t", 2, at * 10**9), ("u", 0, 7)]) for at in range(first, first + count)]
    return frames(version, first, *wanted)


@pytest.mark.parametrize("version", range(5))
def test_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    def story(broker: QuietBroker, send: Callable[[bytes], None]) -> None:
        beat = HeartbeatRequest(GROUP, 1, settle(broker.connect()))
        other = HeartbeatRequest(GROUP, 2, beat.member_id)
        send(frames(version, 0, beat, beat))
        send(frames(version, 2, *[beat] * 20))
        send(frames(version, 30, beat))
        send(frames(version, 40, beat, beat, other, beat))
        send(frames(version, 50, *[other] * 3))
        send(frames(version, 60, *[other] * 3))
        send(frames(version, 70, *[beat] * 3))
        send(frames(version, 80, *[beat] * 3))

    told, _ = told_alike(tmp_path, story, monkeypatch)
    assert [len(each) for each in told] == [2, 20, 1, 4, 3, 3, 3, 3]


@pytest.mark.parametrize("version", range(2, 11))
def test_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    def story(broker: QuietBroker, send: Callable[[bytes], None]) -> None:
        send(simple_commits(broker, version, 2))
        send(simple_commits(broker, version, 20, 2))
        send(simple_commits(broker, version, 1, 22))
        send(frames(version, 30, commit(broker, [("t", 1, 5)])) + simple_commits(broker, version, 3, 31))
        send(simple_commits(broker, version, 3, 34))

    told, stored = told_alike(tmp_path, story, monkeypatch)
    assert [len(each) for each in told] == [2, 20, 1, 4, 3]
    assert {at: one.offset for at, one in stored.items()} == {
        ("t", 0): 36,
        ("t", 1): 5,
        ("t", 2): 36 * 10**9,
        ("u", 0): 7,
    }
    assert {one.leader_epoch for one in stored.values()} == ({-1, 0, 1} if version >= 6 else {-1})


@pytest.mark.parametrize("metadata", ["", "note", None, "x" * 5_000])
def test_metadata_of_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: str | None) -> None:
    def story(broker: QuietBroker, send: Callable[[bytes], None]) -> None:
        member_id = settle(broker.connect())
        for first in range(0, 40, 8):
            wanted = [commit(broker, [("t", 0, at)], member_id=member_id, metadata=metadata) for at in range(8)]
            send(frames(9, first, *wanted))

    _, stored = told_alike(tmp_path, story, monkeypatch)
    wanted = {} if metadata == "x" * 5_000 else {("t", 0): (7, metadata or "")}
    assert {at: (one.offset, one.metadata) for at, one in stored.items()} == wanted


def test_commits_to_a_topic_that_goes_and_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(broker: QuietBroker, send: Callable[[bytes], None]) -> None:
        send(simple_commits(broker, 8, 2))
        send(simple_commits(broker, 8, 2, 2))
        topic = broker.broker.topics.get("u")
        assert topic is not None
        broker.broker.topics.delete(topic)
        send(simple_commits(broker, 8, 2, 4))
        send(simple_commits(broker, 8, 2, 6))
        broker.broker.topics.create("u", 1)
        send(simple_commits(broker, 8, 2, 8))
        send(simple_commits(broker, 8, 2, 10))

    told_alike(tmp_path, story, monkeypatch)


def test_a_member_that_is_one_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(broker: QuietBroker, send: Callable[[bytes], None]) -> None:
        member_id = settle(broker.connect())
        beat = HeartbeatRequest(GROUP, 1, member_id)

        def send_both(first: int) -> None:
            wanted = [commit(broker, [("t", 0, first + at)], member_id=member_id) for at in range(3)]
            send(frames(9, first, *wanted))
            send(frames(4, first + 10, *[beat] * 3))

        for first in (0, 20, 40):
            send_both(first)
        join_and_wait(broker.connect(), instance="other")
        send_both(60)
        broker.pass_ms(120_000)
        send_both(80)

    told, _ = told_alike(tmp_path, story, monkeypatch)
    beats = [struct.unpack(">h", each[-1][-3:-1])[0] for each in told[1::2]]
    assert beats == [Error.NONE] * 3 + [Error.REBALANCE_IN_PROGRESS, Error.UNKNOWN_MEMBER_ID]


def join_and_wait(client: QuietClient, *, instance: str) -> None:
    """Begin a rebalance, and wait in it."""
    client.send_fields(
        "JoinGroup",
        9,
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


def test_whatever_comes_in_whatever_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(20)
    kinds = [dice.randrange(6) for _ in range(60)]
    counts = [dice.randrange(1, 6) for _ in kinds]
    cuts = [dice.random() for _ in range(400)]

    def story(broker: QuietBroker, send: Callable[[bytes], None]) -> None:
        member_id = settle(broker.connect())
        beat = HeartbeatRequest(GROUP, 1, member_id)
        number = 0
        data = b""
        for kind, count in zip(kinds, counts, strict=True):
            for _ in range(count):
                number += 1
                if kind < 2:
                    data += frames(4, number, beat)
                elif kind < 4:
                    data += frames(9, number, commit(broker, [("t", 1, number)], member_id=member_id))
                elif kind == 4:
                    offsets = [("t", 0, number), ("t", 1, number), ("t", 9, number)]
                    data += frames(8, number, commit(broker, offsets, member_id=member_id))
                else:
                    data += frames(8, number, commit(broker, [("t", 2, number)], member_id="nobody"))
        for cut in cuts:
            size = int(cut * 600) if cut > 0.5 else int(cut * 20)
            send(data[:size])
            data = data[size:]
        send(data)

    told, _ = told_alike(tmp_path, story, monkeypatch)
    ids = [struct.unpack(">i", one[:4])[0] for each in told for one in each]
    assert ids == list(range(1, sum(counts) + 1))


def test_answers_wait_for_the_write(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always"}, t=3, u=1) as broker:
        held = broker.hold_flushes()
        client = broker.connect()
        client.send_bytes(simple_commits(broker, 9, 2))
        held.release()
        assert len(client.frames()) == 2
        client.send_bytes(simple_commits(broker, 9, 4, 2))
        client.send_bytes(simple_commits(broker, 9, 4, 6))
        assert client.frames() == []
        assert client._connection.waiting == 8
        held.release()
        assert [struct.unpack(">i", one[:4])[0] for one in client.frames()] == list(range(2, 10))
        assert client._connection.waiting == 0


def test_a_client_with_too_many_commits_under_way_is_not_read(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"flush": "always", "queued.max.requests": 5}, t=3, u=1) as broker:
        held = broker.hold_flushes()
        client = broker.connect()
        client.send_bytes(simple_commits(broker, 9, 2))
        reads = []
        for first in (2, 7):
            held.release()
            reads.append(client._connection._reading)
            client.send_bytes(simple_commits(broker, 9, 5, first))
            reads.append(client._connection._reading)
        assert reads == [True, False] * 2


def test_who_takes_the_place_of_a_handler_sees_every_request(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect()
        beat = HeartbeatRequest(GROUP, 1, settle(client))
        for first in (0, 2):
            client.send_bytes(frames(4, first, beat, beat))
        client.frames()
        seen: list[int] = []
        usual = broker.server.handlers[HEARTBEAT.key]

        def watch(node, call, request) -> None:  # type: ignore[no-untyped-def]
            seen.append(call.correlation_id)
            usual.handle(node, call, request)

        broker.server.handlers[HEARTBEAT.key] = Handler(usual.api, watch, usual.error_response)
        client.send_bytes(frames(4, 10, beat, beat, beat))
        assert seen == [10, 11, 12]
        broker.server.handlers[HEARTBEAT.key] = usual
        client.send_bytes(frames(4, 20, beat, beat))
        assert seen == [10, 11, 12]
        assert len(client.frames()) == 5


def test_what_fails_is_answered_and_the_next_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with QuietBroker(tmp_path, t=3, u=1) as broker:
        client = broker.connect()
        beat = HeartbeatRequest(GROUP, 1, settle(broker.connect()))
        for first in (0, 2):
            client.send_bytes(frames(4, first, beat, beat) + simple_commits(broker, 9, 2, first + 10))
            client.send_bytes(frames(4, first, beat, beat))
            client.send_bytes(simple_commits(broker, 9, 2, first + 10))
        client.frames()

        def fail(*_args: object) -> None:
            raise RuntimeError("as the test wants it")

        with monkeypatch.context() as patch:
            patch.setattr(broker.broker.groups, "ask_all", fail)
            client.send_bytes(frames(4, 0, beat, beat))
            client.send_bytes(simple_commits(broker, 9, 2))
        asked, error = commit(broker, [("t", 0, 0), ("t", 2, 0), ("u", 0, 7)]), Error.UNKNOWN_SERVER_ERROR
        refused = [encode_response(heartbeat.error_response(beat, 4, error), 4, one) for one in range(2)]
        refused += [encode_response(offset_commit.error_response(asked, 9, error), 9, one) for one in range(2)]
        assert client.frames() == [one[4:] for one in refused]
        client.send_bytes(frames(4, 0, beat, beat))
        assert [struct.unpack(">h", one[-3:-1])[0] for one in client.frames()] == [Error.NONE] * 2


def test_repeats_are_counted_one_by_one(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=3, u=1) as broker:
        client = broker.connect()
        beat = HeartbeatRequest(GROUP, 1, settle(broker.connect()))
        for _ in range(4):
            client.send_bytes(frames(4, 0, *[beat] * 5))
            client.send_bytes(simple_commits(broker, 9, 5))
        requests = broker.broker.metrics.requests
        assert (requests[HEARTBEAT.key].count, requests[OFFSET_COMMIT.key].count) == (20, 20)


def test_what_never_comes_again_is_soon_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with QuietBroker(tmp_path, t=3) as broker:
        client = broker.connect()
        learnt = 0
        learn = broker.server.repeats

        def counted(*args: object) -> object:
            nonlocal learnt
            learnt += 1
            return learn(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(broker.server, "repeats", counted)
        for number in range(100):
            noted = [commit(broker, [("t", 0, 1)], metadata=f"{number:04}{at}") for at in range(2)]
            client.send_bytes(frames(9, number, *noted))
        assert learnt == repeats.MOST_WASTED
        assert len(client.frames()) == 200


def test_requests_that_come_alone_are_not_remembered(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=3) as broker:
        client = broker.connect()
        for number in range(5):
            client.send_bytes(frames(9, number, commit(broker, [("t", 0, number)])))
        assert not client._connection._remembered


def test_the_answers_are_those_of_the_codec(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, t=3, u=1) as broker:
        client = broker.connect()
        beat = HeartbeatRequest(GROUP, 1, settle(broker.connect()))
        for _ in range(3):
            assert client.ask(beat, HeartbeatResponse).error_code == Error.NONE
            answer = client.ask(commit(broker, [("t", 1, 4)]), OffsetCommitResponse, 9)
            assert [one.error_code for one in answer.topics[0].partitions] == [Error.UNKNOWN_MEMBER_ID]
