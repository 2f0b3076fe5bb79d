"""Encoding and decoding of messages, and the errors for invalid bytes and values."""

import subprocess
import sys

import pytest

from slackwater.wire import codec
from slackwater.wire.codec import decode, encode
from slackwater.wire.decoder_generator import read_source
from slackwater.wire.encoder_generator import write_source
from slackwater.wire.errors import WireError
from slackwater.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from slackwater.wire.messages.describe_client_quotas import DescribeClientQuotasResponse, EntryData, ValueData
from slackwater.wire.messages.fetch import FetchRequest
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from slackwater.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from slackwater.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from slackwater.wire.schema import Message

JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    member_id="m",
    group_instance_id="i",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol("range", b"\x00\x01")],
)


def test_bytes_of_join_group_v5() -> None:
    assert encode(JOIN, 5).hex(" ") == (
        "00 01 67  00 00 af c8  00 04 93 e0  00 01 6d  00 01 69  00 08 63 6f 6e 73 75 6d 65 72"
        "  00 00 00 01  00 05 72 61 6e 67 65  00 00 00 02 00 01"
    ).replace("  ", " ")


def test_bytes_of_join_group_v6() -> None:
    assert encode(JOIN, 6).hex(" ") == (
        "02 67  00 00 af c8  00 04 93 e0  02 6d  02 69  09 63 6f 6e 73 75 6d 65 72"
        "  02  06 72 61 6e 67 65  03 00 01  00  00"
    ).replace("  ", " ")


def test_absent_fields_decode_as_defaults() -> None:
    assert decode(JoinGroupResponse, 0, encode(JoinGroupResponse(generation_id=3), 0)).protocol_type is None
    with pytest.raises(WireError, match="group_instance_id is 'i', but does not exist in this version"):
        encode(JOIN, 4)


def test_long_strings_and_arrays() -> None:
    for size in (126, 127, 128, 16_382, 16_383, 16_384, 32_767):
        message = HeartbeatRequest("g" * size, 1, "m" * size, "i" * size)
        assert decode(HeartbeatRequest, 4, encode(message, 4)) == message
        assert decode(HeartbeatRequest, 3, encode(message, 3)) == message
    many = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", list(range(1000)))] * 40)
    assert decode(OffsetFetchRequest, 6, encode(many, 6)) == many
    assert decode(OffsetFetchRequest, 5, encode(many, 5)) == many


def test_elements_of_a_request_are_limited_in_total() -> None:
    most = [OffsetFetchRequestTopic("t", list(range(9_999)))] * 5
    assert decode(OffsetFetchRequest, 6, encode(OffsetFetchRequest("g", most), 6)).topics == most
    for version in (5, 6):
        data = encode(OffsetFetchRequest("g", [*most, OffsetFetchRequestTopic("t", [])]), version)
        with pytest.raises(WireError, match=r"announces \d+ elements; a request may have 50000 elements in all arrays"):
            decode(OffsetFetchRequest, version, data)


def test_elements_of_a_response_are_not_limited() -> None:
    response = ListGroupsResponse(groups=[ListedGroup("g")] * 60_000)
    assert decode(ListGroupsResponse, 5, encode(response, 5)) == response


@pytest.mark.parametrize("count", [b"\xd1\x86\x03", b"\xff\xff\xff\xff\x0f"])
def test_tagged_fields_of_a_request_are_limited(count: bytes) -> None:
    for kind, request in ((HeartbeatRequest, HeartbeatRequest("g", 1, "m")), (FetchRequest, FetchRequest())):
        version = kind.API.latest_stable
        many = encode(request, version)[:-1] + count + b"\x63\x00" * 50_001
        with pytest.raises(WireError, match="a request may have 50000 elements"):
            decode(kind, version, many)


def test_a_malformed_request_is_explained_within_a_limit() -> None:
    topics = [OffsetFetchRequestTopic("t", [0])] * 20_000
    data = encode(OffsetFetchRequest("g", topics), 5)
    with pytest.raises(WireError, match="or a field after it is invalid"):
        decode(OffsetFetchRequest, 5, data[:-1])


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = encode(HeartbeatRequest("g", 1, "m"), 4)
    extra = plain[:-1] + b"\x02\x07\x00\x81\x01\x81\x01" + bytes(129)
    assert decode(HeartbeatRequest, 4, extra) == HeartbeatRequest("g", 1, "m")
    numbered = plain[:-1] + b"\x81\x00" + b"\x07\x00"  # a count in two bytes instead of one
    assert decode(HeartbeatRequest, 4, numbered) == HeartbeatRequest("g", 1, "m")


def test_decoding_starts_at_an_offset() -> None:
    assert decode(HeartbeatRequest, 4, b"header" + encode(HeartbeatRequest("g", 1, "m"), 4), 6).member_id == "m"


def test_code_is_generated_once() -> None:
    assert codec.decoder(HeartbeatRequest, 2) is codec.decoder(HeartbeatRequest, 2)


def test_generated_code_is_readable() -> None:
    assert read_source(HeartbeatRequest, 4)[0].startswith("def read(data, at):")
    assert write_source(HeartbeatRequest, 4)[0].startswith("def write(m0, out):")


def test_package_import_loads_no_messages() -> None:
    program = (
        "import sys, slackwater.wire.request_response;print([name for name in sys.modules if '.wire.messages' in name])"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("message", "version", "data", "error"),
    [
        (HeartbeatRequest, 4, "", "group_id takes 1 bytes at byte 0; 0 are left"),
        (HeartbeatRequest, 4, "00", "group_id must not be null"),
        (HeartbeatRequest, 4, "0567", "group_id takes 4 bytes at byte 1; 1 are left"),
        (HeartbeatRequest, 4, "ffffffffff0f", "group_id has a varint longer than 5 bytes, which ends at byte 5"),
        (HeartbeatRequest, 4, "ffffffff0f67", "group_id takes 4294967294 bytes; the maximum is 32767"),
        (HeartbeatRequest, 4, "818002" + 32_768 * "67", "group_id takes 32768 bytes; the maximum is 32767"),
        (HeartbeatRequest, 4, "0267 00000001 026d 818002" + 32_768 * "67", "group_instance_id takes 32768 bytes"),
        (HeartbeatRequest, 4, "800067", "group_id must not be null"),
        (HeartbeatRequest, 4, "02ff", "group_id is not UTF-8: 'utf-8' codec can't decode byte 0xff in position 0"),
        (HeartbeatRequest, 4, "0267 0000", "generation_id takes 4 bytes at byte 2; 2 are left"),
        (HeartbeatRequest, 4, "0267 00000001 026d 00", "tagged fields takes 1 bytes at byte 9; 0 are left"),
        (
            HeartbeatRequest,
            4,
            "0267 00000001 026d 00 01 07 05 00",
            "tagged field 7 takes 5 bytes at byte 12; 1 are",
        ),
        (HeartbeatResponse, 4, "00000000 0000 00 00", "1 bytes follow the end of the message at byte 7"),
        (HeartbeatRequest, 3, "ffff", "group_id must not be null"),
        (HeartbeatRequest, 3, "fffe", "group_id has length -2"),
        (HeartbeatRequest, 3, "0001 67 00000001 0001 6d fffe", "group_instance_id has length -2"),
        (MetadataRequest, 0, "ffffffff", "topics must not be null"),
        (
            MetadataRequest,
            1,
            "7fffffff",
            "topics announces 2147483647 elements of 2 bytes or more; 0 bytes are left",
        ),
        (MetadataRequest, 1, "00000002 0000 0005 6162", r"topics\[1\].name takes 5 bytes at byte 8; 2 are left"),
        (MetadataResponse, 0, "00000000 00000001 0000 0001 74 7fffffff", "topics.0..partitions announces 2147483647"),
        (JoinGroupRequest, 9, encode(JOIN, 9).hex()[:-2], "tagged fields takes 1 bytes"),
        (
            ConsumerGroupHeartbeatRequest,
            0,
            "0267 026d 00000001 00 00 ffffffff 00 00 05 00 00",
            "topic_partitions announces 4 elements of 18 bytes or more; 2 bytes are left",
        ),
    ],
)
def test_malformed_bytes_name_the_field(message: type[codec.M], version: int, data: str, error: str) -> None:
    with pytest.raises(WireError, match=error) as caught:
        decode(message, version, bytes.fromhex(data))
    assert str(caught.value).startswith(f"{message.__name__} v{version}: ")
    assert str(caught.value).endswith(".")


def quota(value: object) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(entries=[EntryData(values=[ValueData("rate", value)])])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "version", "error"),
    [
        (HeartbeatRequest(None), 4, "group_id is None, but must not be null"),  # type: ignore[arg-type]
        (HeartbeatRequest(b"g"), 4, "group_id is b'g', but must be a string"),  # type: ignore[arg-type]
        (HeartbeatRequest("g" * 32_768), 4, "group_id takes 32768 bytes; the maximum is 32767"),
        (HeartbeatRequest("g" * 32_768), 3, "group_id takes 32768 bytes; the maximum is 32767"),
        (HeartbeatRequest("\ud800"), 4, "group_id cannot be encoded as UTF-8"),
        (HeartbeatRequest(generation_id=2**31), 4, "generation_id is 2147483648, but must be of type int32"),
        (HeartbeatRequest(generation_id="1"), 4, "generation_id is '1', but must be of type int32"),  # type: ignore[arg-type]
        (MetadataRequest(topics=7), 1, "topics is 7, but must be a list"),  # type: ignore[arg-type]
        (MetadataRequest(topics=["t"]), 1, r"topics\[0\] is 't', but must be a MetadataRequestTopic"),  # type: ignore[list-item]
        (
            MetadataRequest([MetadataRequestTopic(b"short", "t")]),
            12,
            r"topics\[0\].topic_id has 5 bytes, but must have 16",
        ),
        (MetadataRequest([MetadataRequestTopic(name=None)]), 1, r"topics\[0\].name is None, but must not be null"),
        (MetadataRequest([MetadataRequestTopic(bytes(16), "\ud800")]), 12, r"topics\[0\].name cannot be encoded"),
        (SaslAuthenticateRequest("text"), 2, "auth_bytes is 'text', but must be bytes"),  # type: ignore[arg-type]
        (SaslAuthenticateRequest(7), 2, "auth_bytes is 7, but must be bytes"),  # type: ignore[arg-type]
        (quota(10**400), 1, r"entries\[0\].values\[0\].value is 1000+, but must be of type float64"),
    ],
)
def test_invalid_values_name_the_field(message: Message, version: int, error: str) -> None:
    with pytest.raises(WireError, match=error) as caught:
        encode(message, version)
    assert str(caught.value).startswith(f"{type(message).__name__} v{version}: ")


def test_failing_list_is_a_wire_error() -> None:
    class Broken(list[MetadataRequestTopic]):
        def __len__(self) -> int:
            raise ValueError

    with pytest.raises(WireError, match=r"MetadataRequest v1 cannot be encoded\."):
        encode(MetadataRequest(topics=Broken()), 1)
