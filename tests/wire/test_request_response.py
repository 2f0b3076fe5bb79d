"""Requests and responses as frames: size, header, body."""

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.frames import FrameReader
from slackwater.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.request_response import (
    PreencodedResponse,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    response_pieces,
)

HEARTBEAT = HeartbeatRequest("g", 3, "m")


def test_request_round_trip() -> None:
    for version in range(5):
        (frame,) = FrameReader().feed(encode_request(HEARTBEAT, version, 7, "client"))
        assert decode_request(frame) == (RequestHeader(12, version, 7, "client"), HEARTBEAT)


def test_response_round_trip() -> None:
    for version in range(5):
        (frame,) = FrameReader().feed(encode_response(HeartbeatResponse(error_code=27), version, 7))
        assert decode_response(HeartbeatResponse, version, frame) == (7, HeartbeatResponse(error_code=27))


def test_bytes_of_a_request() -> None:
    assert encode_request(HEARTBEAT, 0, 7, None).hex(" ") == (
        "00 00 00 14 00 0c 00 00 00 00 00 07 ff ff 00 01 67 00 00 00 03 00 01 6d"
    )
    assert encode_request(HEARTBEAT, 4, 7, "c").hex(" ") == (
        "00 00 00 16 00 0c 00 04 00 00 00 07 00 01 63 00 02 67 00 00 00 03 02 6d 00 00"
    )


def test_empty_client_id_differs_from_null() -> None:
    for client_id in ("", None):
        header, _ = decode_request(encode_request(HEARTBEAT, 4, 7, client_id)[4:])
        assert header.client_id == client_id


def test_unknown_tagged_header_fields_are_skipped() -> None:
    request = encode_request(HEARTBEAT, 4, 7, None)[4:]
    assert decode_request(request[:10] + b"\x01\x05\x02hi" + request[11:])[1] == HEARTBEAT
    response = encode_response(HeartbeatResponse(), 4, 7)[4:]
    assert decode_response(HeartbeatResponse, 4, response[:4] + b"\x01\x05\x02hi" + response[5:]) == (
        7,
        HeartbeatResponse(),
    )


def test_preencoded_response_equals_the_encoded_frame() -> None:
    for version in range(5):
        preencoded = PreencodedResponse(HeartbeatResponse(error_code=27), version)
        for number in (0, 7, -1):
            assert preencoded.frame(number) == encode_response(HeartbeatResponse(error_code=27), version, number)


def test_response_pieces_contain_records_uncopied() -> None:
    records = bytes(1000)
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=records)])])
    pieces = response_pieces(response, 12, 7)
    assert b"".join(pieces) == encode_response(response, 12, 7)
    assert any(piece is records for piece in pieces)


def test_records_are_decoded_as_a_view_of_the_frame() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(records=b"batch")])])
    frame = encode_response(response, 12, 7)[4:]
    _, decoded = decode_response(FetchResponse, 12, frame)
    records = decoded.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert decoded == response


class TestUnsupportedApiVersionsRequest:
    def test_request_decodes_as_empty_with_its_version(self) -> None:
        newer = bytes.fromhex("0012 0063 00000007 0001 63 00") + b"unknown fields of v99"
        assert decode_request(newer) == (RequestHeader(18, 99, 7, "c"), ApiVersionsRequest())

    def test_response_is_encoded_in_v0(self) -> None:
        response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)])
        assert encode_response(response, 99, 7) == encode_response(response, 0, 7)
        assert b"".join(response_pieces(response, 99, 7)) == encode_response(response, 0, 7)

    def test_client_recognizes_the_error(self) -> None:
        response = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)])
        frame = encode_response(response, 0, 7)[4:]
        assert decode_response(ApiVersionsResponse, 4, frame) == (7, response)


class TestMalformed:
    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            ("", "header takes 10 bytes; the frame has 0"),
            ("000c 0004 00000007", "header takes 10 bytes; the frame has 8"),
            ("03e7 0000 00000007 ffff", "API key 999 is unknown"),
            ("000c 0005 00000007 ffff", "HeartbeatRequest v5 is unknown; the versions are 0 to 4"),
            ("000c ffff 00000007 ffff", "HeartbeatRequest v-1 is unknown"),
            ("000c 0004 00000007 fffe", "client_id has length -2"),
            ("000c 0004 00000007 0005 6162", "client_id takes 5 bytes; 2 are left"),
            ("000c 0004 00000007 0001 ff 00", "client_id is not UTF-8"),
            ("000c 0004 00000007 ffff", "tagged fields at byte 10 are truncated"),
            ("000c 0004 00000007 ffff 01 00 05", "tagged fields end at byte 18; the frame has 13"),
            ("000c 0004 00000007 ffff ffffffffffff", "tagged fields at byte 10 are truncated or malformed"),
        ],
    )
    def test_requests(self, frame: str, message: str) -> None:
        with pytest.raises(WireError, match=message):
            decode_request(bytes.fromhex(frame))

    def test_bytes_after_a_request_are_ignored(self) -> None:
        """Kafka accepts them, and librdkafka 2.16 sends them."""
        frame = bytes.fromhex("000c 0004 00000007 ffff 00 0267 00000003 026d 00 00")
        assert decode_request(frame + b"\xab\xcd") == decode_request(frame)

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            ("000007", "header takes 4 bytes; the frame has 3"),
            ("00000007", "Response header: its tagged fields at byte 4"),
            ("00000007 00 00000000", "HeartbeatResponse v4: error_code takes 2 bytes at byte 9; 0 are left"),
        ],
    )
    def test_responses(self, frame: str, message: str) -> None:
        with pytest.raises(WireError, match=message):
            decode_response(HeartbeatResponse, 4, bytes.fromhex(frame))

    def test_client_id_that_cannot_be_encoded(self) -> None:
        with pytest.raises(WireError, match="client_id takes 40000 bytes; the maximum is 32767"):
            encode_request(HEARTBEAT, 4, 7, "x" * 40_000)
        with pytest.raises(WireError, match="client_id cannot be encoded as UTF-8"):
            encode_request(HEARTBEAT, 4, 7, "\ud800")

    def test_response_in_an_unknown_version(self) -> None:
        with pytest.raises(WireError, match="HeartbeatResponse v9 is unknown"):
            encode_response(HeartbeatResponse(), 9, 7)
