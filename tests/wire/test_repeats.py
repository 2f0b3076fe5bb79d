"""Frames that repeat: found by their bytes alone, and never where one says something else."""

import struct
from dataclasses import replace

import pytest

from slackwater.wire.envelope import encode_request
from slackwater.wire.messages.fetch import FetchRequest
from slackwater.wire.messages.heartbeat import HeartbeatRequest
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from slackwater.wire.repeats import CountedFrames, NumberedFrames, SameFrames

BEAT = HeartbeatRequest("g", 3, "member")
SIZE = 4


def beats(*ids: int, beat: HeartbeatRequest = BEAT) -> bytes:
    return b"".join(encode_request(beat, 4, one, "client") for one in ids)


def commit(numbers: list[tuple[int, int]], member_id: str = "member", metadata: str = "") -> OffsetCommitRequest:
    """Each pair is the offset and the leader epoch of a partition; they are spread over two topics."""
    partitions = [OffsetCommitRequestPartition(index, *pair, metadata) for index, pair in enumerate(numbers)]
    topics = [OffsetCommitRequestTopic(name, bytes(16), partitions[at::2]) for at, name in enumerate(("one", "two"))]
    return OffsetCommitRequest("g", 3, member_id, topics=topics)


def commits(version: int, *requests: OffsetCommitRequest) -> bytes:
    return b"".join(encode_request(one, version, number, "client") for number, one in enumerate(requests))


def learnt(version: int, request: OffsetCommitRequest) -> NumberedFrames:
    turned = commit([(~one.committed_offset, ~one.committed_leader_epoch) for one in in_order(request)])
    found = NumberedFrames.learn(
        commits(version, request)[SIZE:], commits(version, turned)[SIZE:], "qi" if version >= 6 else "q"
    )
    assert found is not None
    return found


def in_order(request: OffsetCommitRequest) -> list[OffsetCommitRequestPartition]:
    return sorted((one for topic in request.topics for one in topic.partitions), key=lambda one: one.partition_index)


def test_the_same_heartbeat_is_found_as_often_as_it_is_there() -> None:
    frames = SameFrames(beats(1)[SIZE:])
    data = beats(5, 6, 2**31 - 1)
    assert frames.cut(data) == [struct.pack(">i", one) for one in (5, 6, 2**31 - 1)]
    assert frames.size * 3 == len(data)


@pytest.mark.parametrize("rest", [1, 4, 20])
def test_what_is_not_whole_yet_is_left(rest: int) -> None:
    frames = SameFrames(beats(1)[SIZE:])
    assert len(frames.cut(beats(5, 6) + beats(7)[:rest])) == 2
    assert frames.cut(beats(7)[:rest]) == []


@pytest.mark.parametrize(
    "other", [replace(BEAT, generation_id=4), replace(BEAT, member_id="mumber"), replace(BEAT, group_id="longer")]
)
def test_nothing_is_taken_where_one_says_something_else(other: HeartbeatRequest) -> None:
    frames = SameFrames(beats(1)[SIZE:])
    assert frames.cut(beats(5) + beats(6, beat=other) + beats(7)) == []
    assert frames.cut(beats(6, beat=other)) == []


def test_a_frame_of_another_size_or_version_is_another_one() -> None:
    frames = SameFrames(beats(1)[SIZE:])
    data = bytearray(beats(5))
    for at in (3, 5, 7):
        data[at] ^= 1
        assert frames.cut(bytes(data)) == []
        data[at] ^= 1
    assert len(frames.cut(bytes(data))) == 1


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("count", [1, 2, 50])
def test_numbers_are_found_in_every_version(version: int, count: int) -> None:
    first = commit([(number, -1) for number in range(count)])
    frames = learnt(version, first)
    others = [
        commit([(10**12 + number, 7) for number in range(count)]),
        commit([(-1, 2**31 - 1)] * count),
        commit([(2**63 - 1, -1)] * count),
    ]
    found = frames.cut(commits(version, *others))
    assert frames.correlation_ids(found) == [struct.pack(">i", number) for number in range(3)]
    for one, request in zip(found, others, strict=True):
        asked = [part for topic in request.topics for part in topic.partitions]
        assert list(one[frames.numbers(0)]) == [part.committed_offset for part in asked]
        if version >= 6:
            assert list(one[frames.numbers(1)]) == [part.committed_leader_epoch for part in asked]


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_that_differs_in_anything_else_is_another_one(version: int) -> None:
    first = commit([(1, 1), (2, 2)])
    frames = learnt(version, first)
    data = commits(version, first)
    assert len(frames.cut(data)) == 1
    numbers = {at for at, (one, two) in enumerate(zip(data, turned_over(version, first), strict=True)) if one != two}
    for at in set(range(len(data))) - numbers - set(range(8, 12)):
        changed = bytearray(data)
        changed[at] ^= 1
        assert frames.cut(bytes(changed)) == []
        assert frames.cut(data + bytes(changed)) == []


def turned_over(version: int, request: OffsetCommitRequest) -> bytes:
    return commits(version, commit([(~one.committed_offset, ~one.committed_leader_epoch) for one in in_order(request)]))


def test_numbers_that_are_not_there_are_not_learnt() -> None:
    frame, longer = commits(9, commit([(1, 1)])), commits(9, commit([(1, 1)], metadata="x"))
    assert NumberedFrames.learn(frame, longer, "qi") is None
    assert NumberedFrames.learn(frame, commits(9, commit([(2, 1)])), "qi") is None


def fetch(version: int, epoch: int, correlation_id: int = 0, **changed: int) -> bytes:
    request = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=7, session_epoch=epoch)
    for name, number in changed.items():
        setattr(request, name, number)
    return encode_request(request, version, correlation_id, "client")


@pytest.mark.parametrize("version", [7, 11, 12, 17])
def test_a_counted_frame_is_known_by_its_number(version: int) -> None:
    frames = CountedFrames(fetch(version, 0), fetch(version, ~0))
    for number in (1, 2, 255, 2**31 - 1):
        assert frames.correlation_id(fetch(version, number, 77), number) == struct.pack(">i", 77)
        assert frames.correlation_id(fetch(version, number, 77), number - 1) is None


def test_whatever_else_differs_is_another_frame() -> None:
    frames = CountedFrames(fetch(17, 0), fetch(17, ~0))
    same = fetch(17, 5)
    others = [
        same[:-1],
        same + same,
        same + b"\x00",
        fetch(17, 5, max_wait_ms=501),
        fetch(17, 5, session_id=8),
        fetch(16, 5),
        fetch(17, 5, isolation_level=1),
        b"",
    ]
    assert frames.correlation_id(same, 5) is not None
    assert [frames.correlation_id(other, 5) for other in others] == [None] * len(others)


def test_frames_that_differ_in_more_than_a_number_have_none() -> None:
    with pytest.raises(ValueError, match="not one number"):
        CountedFrames(fetch(17, 0), fetch(17, ~0, max_wait_ms=400))
