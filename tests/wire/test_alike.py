"""Requests of a crowd: what is compared must come out as if it had been read."""

from dataclasses import replace

import pytest

from slackwater.wire.alike import MOST_BYTES, MOST_GROUPS, alike
from slackwater.wire.codec import decoder
from slackwater.wire.envelope import RequestHeader, RequestReader, decode_request, encode_request
from slackwater.wire.errors import WireError
from slackwater.wire.messages.heartbeat import HeartbeatRequest
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from slackwater.wire.schema import Message, Request

JOIN = JoinGroupRequest(
    "crowd", 45_000, 300_000, "m-1", None, "consumer", [JoinGroupRequestProtocol("range", b"topics")], None
)
SYNC = SyncGroupRequest("crowd", 3, "m-1", None, None, None, [])
BEAT = HeartbeatRequest("crowd", 3, "m-1")
REQUESTS = [*((JOIN, version) for version in range(6, 10)), (SYNC, 4), (SYNC, 5), (BEAT, 4)]
MEMBER_IDS = ["", "m-2", "m-22", "é€", "x" * 126, "x" * 127, "x" * 128, "x" * 300, "m-1"]


def _outcome(decode: object, frame: bytes) -> tuple[RequestHeader, Request] | str:
    try:
        return decode(frame)  # type: ignore[operator, no-any-return]
    except WireError as error:
        return str(error)


@pytest.mark.parametrize(("request_", "version"), REQUESTS)
def test_members_of_any_name_are_read_as_by_themselves(request_: Request, version: int) -> None:
    reader = RequestReader()
    for member_id in MEMBER_IDS * 2:
        frame = encode_request(replace(request_, member_id=member_id), version, 7, "client")[4:]  # type: ignore[type-var]
        assert reader.decode(frame) == decode_request(frame)


@pytest.mark.parametrize(("request_", "version"), REQUESTS)
def test_a_frame_that_is_changed_or_cut_anywhere_is_read_or_refused_as_by_itself(
    request_: Request, version: int
) -> None:
    whole = encode_request(request_, version, 7, "client")[4:]
    # A member id changes its length with the byte before it, and what is behind then stands elsewhere.
    frames = [whole[:end] for end in range(len(whole))] + [whole + b"more"]
    frames += [whole[:at] + bytes([byte]) + whole[at + 1 :] for at in range(len(whole)) for byte in (0, 1, 5, 127, 255)]
    for frame in frames:
        reader = RequestReader()
        reader.decode(whole)
        assert _outcome(reader.decode, frame) == _outcome(decode_request, frame)
        assert reader.decode(whole) == decode_request(whole)


def test_members_that_say_other_things_are_not_taken_for_one_another() -> None:
    reader = RequestReader()
    others = [
        replace(JOIN, group_id="crowds"),
        replace(JOIN, group_id=""),
        replace(JOIN, group_id="g" * 130),
        replace(JOIN, session_timeout_ms=10_000),
        replace(JOIN, rebalance_timeout_ms=1),
        replace(JOIN, group_instance_id="i"),
        replace(JOIN, protocols=[]),
        replace(JOIN, protocols=[JoinGroupRequestProtocol("range", bytes(MOST_BYTES + 1))]),
        replace(JOIN, reason="rebalance"),
    ]
    for other in others:
        for said in (JOIN, other, replace(other, member_id="m-2"), JOIN):
            frame = encode_request(said, 9, 7, "client")[4:]
            assert reader.decode(frame) == decode_request(frame)


def test_a_leader_among_followers() -> None:
    reader = RequestReader()
    assignments = [SyncGroupRequestAssignment(f"m-{number}", b"partitions") for number in range(100)]
    for said in (SYNC, replace(SYNC, member_id="m-0", assignments=assignments), replace(SYNC, member_id="m-2")):
        frame = encode_request(said, 5, 7, "client")[4:]
        assert reader.decode(frame) == decode_request(frame)


def test_most_of_a_crowd_is_compared_and_shares_what_it_says() -> None:
    read = decoder(JoinGroupRequest, 9)
    found: list[Message] = []

    def counted(data: bytes, at: int) -> Message:
        found.append(read(data, at))
        return found[-1]

    read_alike = alike(JoinGroupRequest, 9, counted)
    for number in range(100):
        joined = read_alike(_body(replace(JOIN, member_id=f"m-{number}")), 0)
        assert isinstance(joined, JoinGroupRequest)
        assert isinstance(found[0], JoinGroupRequest)
        assert joined.protocols is found[0].protocols
    assert len(found) == 1


def test_what_is_kept_is_bounded() -> None:
    read = decoder(JoinGroupRequest, 9)
    times = 0

    def counted(data: bytes, at: int) -> Message:
        nonlocal times
        times += 1
        return read(data, at)

    read_alike = alike(JoinGroupRequest, 9, counted)
    groups = [f"g-{number}" for number in range(MOST_GROUPS)]
    for group_id in [*groups, *groups]:
        read_alike(_body(replace(JOIN, group_id=group_id)), 0)
    assert times == MOST_GROUPS
    for group_id in ("one more", groups[0]):  # for which all others are forgotten
        read_alike(_body(replace(JOIN, group_id=group_id)), 0)
    assert times == MOST_GROUPS + 2


def _body(request: JoinGroupRequest) -> bytes:
    return encode_request(request, 9, 7, "")[4 + 11 :]
