"""Whole requests and answers: size, header, body."""

import pytest

from slackwater.wire.envelope import (
    AnswerAlike,
    PreencodedResponse,
    RequestHeader,
    RequestReader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    response_pieces,
)
from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader
from slackwater.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.join_group import JoinGroupResponse
from slackwater.wire.messages.sync_group import SyncGroupResponse

BEAT = HeartbeatRequest("g", 3, "m")


def test_a_request_goes_out_as_a_frame_and_comes_in_as_it_was() -> None:
    for version in range(5):
        (frame,) = FrameReader().feed(encode_request(BEAT, version, 7, "client"))
        assert decode_request(frame) == (RequestHeader(12, version, 7, "client"), BEAT)


def test_an_answer_goes_out_as_a_frame_and_comes_in_as_it_was() -> None:
    for version in range(5):
        (frame,) = FrameReader().feed(encode_response(HeartbeatResponse(error_code=27), version, 7))
        assert decode_response(HeartbeatResponse, version, frame) == (7, HeartbeatResponse(error_code=27))


def test_a_request_byte_by_byte() -> None:
    assert encode_request(BEAT, 0, 7, None).hex(" ") == (
        "00 00 00 14 00 0c 00 00 00 00 00 07 ff ff 00 01 67 00 00 00 03 00 01 6d"
    )
    assert encode_request(BEAT, 4, 7, "c").hex(" ") == (
        "00 00 00 16 00 0c 00 04 00 00 00 07 00 01 63 00 02 67 00 00 00 03 02 6d 00 00"
    )


def test_an_empty_client_id_is_not_an_absent_one() -> None:
    for client_id in ("", None):
        header, _ = decode_request(encode_request(BEAT, 4, 7, client_id)[4:])
        assert header.client_id == client_id


def test_unknown_tagged_fields_of_headers_are_skipped() -> None:
    request = encode_request(BEAT, 4, 7, None)[4:]
    assert decode_request(request[:10] + b"\x01\x05\x02hi" + request[11:])[1] == BEAT
    answer = encode_response(HeartbeatResponse(), 4, 7)[4:]
    assert decode_response(HeartbeatResponse, 4, answer[:4] + b"\x01\x05\x02hi" + answer[5:]) == (
        7,
        HeartbeatResponse(),
    )


def test_a_reader_reads_what_decode_request_reads_whatever_came_before() -> None:
    reader = RequestReader()
    other = HeartbeatRequest("h", 4, "n")
    requests = [
        (BEAT, 4, 7, "client"),
        (other, 4, -8, "client"),
        (BEAT, 4, 9, "clienT"),
        (BEAT, 4, 10, None),
        (BEAT, 4, 11, ""),
        (BEAT, 3, 12, ""),
        (BEAT, 3, 13, ""),
        (ApiVersionsRequest(), 0, 14, ""),
    ]
    for request, version, number, client_id in requests:
        frame = encode_request(request, version, number, client_id)[4:]
        assert reader.decode(frame) == decode_request(frame)


def test_a_reader_refuses_what_decode_request_refuses_and_reads_on() -> None:
    whole = encode_request(BEAT, 4, 7, "client")[4:]
    for before in (b"", whole):
        for end in range(len(whole)):
            reader = RequestReader()
            if before:
                reader.decode(before)
            with pytest.raises(WireError):
                reader.decode(whole[:end])
            assert reader.decode(whole) == decode_request(whole)


def test_a_fixed_answer_is_the_same_frame() -> None:
    for version in range(5):
        fixed = PreencodedResponse(HeartbeatResponse(error_code=27), version)
        for number in (0, 7, -1):
            assert fixed.frame(number) == encode_response(HeartbeatResponse(error_code=27), version, number)


def test_answers_that_differ_in_a_string_are_the_same_frames() -> None:
    for version in range(10):
        joined = JoinGroupResponse(0, 0, 3, None, "range", "leader", False, "", [])
        alike = AnswerAlike(joined, version, "member_id")
        for member_id in ("", "m", "é", "m" * 126, "m" * 127, "m" * 128, "m" * 300, "m" * 32_767):
            joined.member_id = member_id
            assert alike.frame(-7, member_id.encode()) == encode_response(joined, version, -7)
        with pytest.raises(WireError, match=f"JoinGroupResponse v{version}: member_id takes 32768 bytes, which is too"):
            alike.frame(7, b"m" * 32_768)


def test_answers_that_differ_in_bytes_are_the_same_frames() -> None:
    for version in range(6):
        synced = SyncGroupResponse(0, 27, None, "range", b"") if version >= 5 else SyncGroupResponse(0, 27)
        alike = AnswerAlike(synced, version, "assignment")
        for length in (0, 1, 126, 127, 128, 16_383, 40_000):
            synced.assignment = bytes(length)
            assert alike.frame(7, synced.assignment) == encode_response(synced, version, 7)


def test_headers_are_told_apart_by_all_that_is_in_them() -> None:
    client_ids = ["", "c", "cc", "x" * 127, "x" * 128, "x" * 255, "x" * 256, "x" * 257, "x" * 512, None, "ü"]
    readers = [RequestReader(), RequestReader()]
    for _ in range(2):
        for client_id in client_ids:
            for version in range(5):
                frame = encode_request(BEAT, version, 7, client_id)[4:]
                tagged = (
                    frame[:10] + (client_id or "").encode() + b"\x01\x05\x02hi" + frame[11 + len(client_id or "") :]
                )
                for reader in readers:
                    assert reader.decode(frame) == decode_request(frame)
                    if version == 4 and client_id != "ü":
                        assert reader.decode(tagged) == decode_request(tagged)


def test_the_pieces_of_an_answer_hold_its_records_uncopied() -> None:
    records = bytes(1000)
    answer = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=records)])])
    pieces = response_pieces(answer, 12, 7)
    assert b"".join(pieces) == encode_response(answer, 12, 7)
    assert any(piece is records for piece in pieces)


def test_records_are_read_as_a_view_of_the_frame() -> None:
    answer = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=b"batch")])])
    frame = encode_response(answer, 12, 7)[4:]
    _, read = decode_response(FetchResponse, 12, frame)
    records = read.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert read == answer


class TestANewerClientAsksForApiVersions:
    def test_the_request_is_read_as_an_empty_one_under_its_own_version(self) -> None:
        newer = bytes.fromhex("0012 0063 00000007 0001 63 00") + b"whatever v99 may hold"
        assert decode_request(newer) == (RequestHeader(18, 99, 7, "c"), ApiVersionsRequest())

    def test_the_answer_is_written_in_v0(self) -> None:
        answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)])
        assert encode_response(answer, 99, 7) == encode_response(answer, 0, 7)
        assert b"".join(response_pieces(answer, 99, 7)) == encode_response(answer, 0, 7)

    def test_the_client_knows_it_by_its_error(self) -> None:
        answer = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)])
        frame = encode_response(answer, 0, 7)[4:]
        assert decode_response(ApiVersionsResponse, 4, frame) == (7, answer)


class TestMalformed:
    @pytest.mark.parametrize(
        ("frame", "why"),
        [
            ("", "header takes 10 bytes, and the frame has 0"),
            ("000c 0004 00000007", "header takes 10 bytes, and the frame has 8"),
            ("03e7 0000 00000007 ffff", "API key 999 is unknown"),
            ("000c 0005 00000007 ffff", "HeartbeatRequest v5 is unknown; the versions are 0 to 4"),
            ("000c ffff 00000007 ffff", "HeartbeatRequest v-1 is unknown"),
            ("000c 0004 00000007 fffe", "client_id has length -2"),
            ("000c 0004 00000007 0005 6162", "client_id takes 5 bytes, and 2 are left"),
            ("000c 0004 00000007 0001 ff 00", "client_id is not UTF-8"),
            ("000c 0004 00000007 ffff", "tagged fields at byte 10 are cut off"),
            ("000c 0004 00000007 ffff 01 00 05", "tagged fields end at byte 18, and the frame has 13"),
            ("000c 0004 00000007 ffff ffffffffffff", "tagged fields at byte 10 are cut off or malformed"),
        ],
    )
    def test_requests(self, frame: str, why: str) -> None:
        with pytest.raises(WireError, match=why):
            decode_request(bytes.fromhex(frame))

    def test_bytes_behind_a_request_are_not_looked_at(self) -> None:
        """Kafka answers such requests, and librdkafka 2.16 sends them."""
        frame = bytes.fromhex("000c 0004 00000007 ffff 00 0267 00000003 026d 00 00")
        assert decode_request(frame + b"\xab\xcd") == decode_request(frame)

    @pytest.mark.parametrize(
        ("frame", "why"),
        [
            ("000007", "header takes 4 bytes, and the frame has 3"),
            ("00000007", "Response header: its tagged fields at byte 4"),
            ("00000007 00 00000000", "HeartbeatResponse v4: error_code takes 2 bytes at byte 9, and 0 are left"),
        ],
    )
    def test_answers(self, frame: str, why: str) -> None:
        with pytest.raises(WireError, match=why):
            decode_response(HeartbeatResponse, 4, bytes.fromhex(frame))

    def test_a_client_id_that_cannot_be_written(self) -> None:
        with pytest.raises(WireError, match="client_id takes 40000 bytes, and may take 32767"):
            encode_request(BEAT, 4, 7, "x" * 40_000)
        with pytest.raises(WireError, match="client_id cannot be written as UTF-8"):
            encode_request(BEAT, 4, 7, "\ud800")

    def test_an_answer_in_an_unknown_version(self) -> None:
        with pytest.raises(WireError, match="HeartbeatResponse v9 is unknown"):
            encode_response(HeartbeatResponse(), 9, 7)


def test_a_heartbeat_that_says_the_same_is_given_out_again_under_its_own_correlation_id() -> None:
    reader = RequestReader()
    first = encode_request(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 4, 7, "c")[4:]
    again = encode_request(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 4, 8, "c")[4:]
    other = encode_request(HeartbeatRequest(group_id="g", member_id="m", generation_id=2), 4, 9, "c")[4:]
    (one, told), (two, same), (three, changed) = map(reader.decode, (first, again, other))
    assert (one.correlation_id, two.correlation_id, three.correlation_id) == (7, 8, 9)
    assert same is told
    assert (told, changed) == (decode_request(first)[1], decode_request(other)[1])
    in_v3 = encode_request(HeartbeatRequest(group_id="g", member_id="m", generation_id=2), 3, 10, "c")[4:]
    header, request = reader.decode(in_v3)
    assert (header.api_version, request) == (3, changed)
    with pytest.raises(WireError):
        reader.decode(other[:-4])
