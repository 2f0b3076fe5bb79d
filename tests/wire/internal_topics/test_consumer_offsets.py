"""The formats of `__consumer_offsets`, compared with real brokers' bytes and Kafka's classes, and invalid bytes."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics import consumer_offsets as consumer_offsets
from slackwater.wire.internal_topics.consumer_offsets import (
    GroupKey,
    GroupValue,
    MemberMetadata,
    OffsetKey,
    OffsetValue,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_offset_key,
    encode_offset_value,
    encode_offset_without_expiry,
)

DATA = Path(__file__).parents[2] / "data"
# Written by `org.apache.kafka.coordinator.group.generated` of Kafka 4.3.1, one entry per version.
JAVA: dict[str, str] = json.loads((DATA / "consumer_offsets_java.json").read_text())

OFFSET = OffsetValue(1234567890123, 7, "méta", 1700000000000, 1700000060000, bytes(range(1, 17)))
GROUP = GroupValue(
    "consumer",
    3,
    "range",
    "c-1",
    1700000000000,
    (
        MemberMetadata("c-1", "i", "c", "/10.0.0.1", 300_000, 45_000, b"\x01\x02", b""),
        MemberMetadata("d-2", None, "d", "/10.0.0.2", 6_000, 6_000, bytes(200), b"\x09"),
    ),
)


def offset_in(version: int) -> OffsetValue:
    """OFFSET with the fields of a version."""
    return OFFSET._replace(
        leader_epoch=OFFSET.leader_epoch if version >= 3 else -1,
        expire_timestamp_ms=OFFSET.expire_timestamp_ms if version == 1 else -1,
        topic_id=OFFSET.topic_id if version >= 4 else None,
    )


def group_in(version: int) -> GroupValue:
    """GROUP with the fields of a version."""
    return GROUP._replace(
        current_state_timestamp_ms=GROUP.current_state_timestamp_ms if version >= 2 else -1,
        members=tuple(
            member._replace(
                group_instance_id=member.group_instance_id if version >= 3 else None,
                rebalance_timeout_ms=member.rebalance_timeout_ms if version >= 1 else -1,
            )
            for member in GROUP.members
        ),
    )


@pytest.mark.parametrize("version", range(5))
def test_offset_has_kafkas_bytes_in_every_version(version: int) -> None:
    java = bytes.fromhex(JAVA[f"offset v{version}"])
    assert encode_offset_value(OFFSET, version) == java
    assert decode_offset_value(java) == offset_in(version)


@pytest.mark.parametrize("version", range(5))
def test_group_has_kafkas_bytes_in_every_version(version: int) -> None:
    java = bytes.fromhex(JAVA[f"group v{version}"])
    assert encode_group_value(GROUP, version) == java
    assert decode_group_value(java) == group_in(version)


def test_missing_fields() -> None:
    java = bytes.fromhex(JAVA["offset v4 without topic id"])
    assert decode_offset_value(java) == OffsetValue(5, -1, "", 1)
    assert encode_offset_value(OffsetValue(5, -1, "", 1), 4) == java
    java = bytes.fromhex(JAVA["group v4 empty"])
    assert decode_group_value(java) == GroupValue("", 4, None, None, -1, ())
    assert encode_group_value(GroupValue("", 4, None, None, -1, ()), 4) == java


def test_round_trip_of_real_brokers_records() -> None:
    seen: set[tuple[str, int]] = set()
    for line in (DATA / "consumer_offsets_sample.jsonl").read_text().splitlines():
        row = json.loads(line)
        data = b64decode(row["key"])
        key = decode_key(data)
        if isinstance(key, UnknownKey):
            assert key.version == int.from_bytes(data[:2], "big") > 2
            continue
        assert encode_key(key) == data
        if row["value"] is None:
            continue
        value = b64decode(row["value"])
        version = int.from_bytes(value[:2], "big")
        if isinstance(key, OffsetKey):
            assert encode_offset_value(decode_offset_value(value), version) == value
        else:
            assert encode_group_value(decode_group_value(value), version) == value
        seen.add((type(key).__name__, version))
    assert seen == {("OffsetKey", 3), ("OffsetKey", 4), ("GroupKey", 3)}


def test_key_of_version_0_is_an_offset() -> None:
    key = OffsetKey("g", "t", 3)
    assert decode_key(b"\x00\x00" + encode_key(key)[2:]) == key


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7, 8, 16, 23, -1, 32767])
def test_key_of_other_version_is_unknown(version: int) -> None:
    assert decode_key(version.to_bytes(2, "big", signed=True) + b"\xff") == UnknownKey(version)


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = bytes.fromhex(JAVA["offset v4 without topic id"])
    assert decode_offset_value(plain[:-1] + b"\x02\x05\x01x\x80\x01\x00") == OffsetValue(5, -1, "", 1)


def test_bytes_after_value_are_ignored() -> None:
    assert decode_offset_value(bytes.fromhex(JAVA["offset v3"]) + b"more") == offset_in(3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "key in __consumer_offsets: 2 bytes are announced at byte 0; 0 are left."),
        (b"\x00\x02\x00\x05abc", "5 bytes are announced at byte 4; 3 are left."),
        (b"\x00\x02\xff\xff", "group must not be null."),
        (b"\x00\x02\xff\xfe", "group has length -2."),
        (b"\x00\x02\x00\x01\xff", "group is not UTF-8"),
        (b"\x00\x01\x00\x01g\x00\x01t\x00", "4 bytes are announced at byte 8; 1 are left."),
    ],
)
def test_malformed_key(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_key(data)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x05" + bytes(40), "offset in __consumer_offsets: unsupported version 5; supported are 0 to 4."),
        (b"\xff\xff" + bytes(40), "unsupported version -1; supported are 0 to 4."),
        (b"\x00\x04" + bytes(12) + b"\x00" + bytes(9), "metadata must not be null."),
        (b"\x00\x04" + bytes(12) + b"\x01" + bytes(8) + b"\x01\x00\x02ab", "topic_id has 2 bytes, but must have 16."),
        (b"\x00\x04" + bytes(12) + b"\xff" * 5, "the varint that ends at byte 19 is longer than 5 bytes."),
    ],
)
def test_malformed_offset(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_offset_value(data)
    assert message in str(caught.value)


EMPTY = b"\x00\x03\x00\x00" + bytes(4) + b"\xff\xff\xff\xff" + bytes(8)
MEMBER = b"\x00\x00\xff\xff\x00\x00\x00\x00" + bytes(8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (EMPTY + b"\x7f\xff\xff\xff", "members announces 2147483647 elements; 0 bytes are left."),
        (EMPTY + b"\xff\xff\xff\xff", "members must not be null."),
        (EMPTY + b"\x00\x00\x00\x01" + MEMBER + b"\xff\xff\xff\xff", "subscription must not be null."),
    ],
)
def test_malformed_group(data: bytes, message: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_group_value(data)
    assert message in str(caught.value)


def test_value_that_cannot_be_encoded_is_rejected() -> None:
    with pytest.raises(WireError, match="group takes 40000 bytes; the maximum is 32767"):
        encode_key(GroupKey("g" * 40_000))
    with pytest.raises(WireError, match="group cannot be encoded as UTF-8"):
        encode_key(GroupKey("\ud800"))
    with pytest.raises(WireError, match="unsupported version 5; supported are 0 to 4"):
        encode_offset_value(OFFSET, 5)


@pytest.mark.parametrize("metadata", ["", "méta"])
def test_offset_without_expiry_has_same_bytes(metadata: str) -> None:
    assert encode_offset_key("g", "t", 3) == encode_key(OffsetKey("g", "t", 3))
    value = OffsetValue(1234567890123, -1, metadata, 1700000000000)
    assert encode_offset_without_expiry(*value[:4]) == encode_offset_value(value)


@pytest.mark.parametrize("client_id", ["", "orders-1", "bestellungen-ä", "x" * 2_000])
def test_fast_member_encoding_has_same_bytes(monkeypatch: pytest.MonkeyPatch, client_id: str) -> None:
    members = tuple(
        MemberMetadata(f"m-{number}", None, client_id, "/10.0.0.1", 60_000, 45_000, bytes(number), b"a" * 300)
        for number in range(3)
    )
    group = GROUP._replace(members=members)
    written = encode_group_value(group)
    assert decode_group_value(written) == group
    monkeypatch.setattr(consumer_offsets, "_encode_members_fast", lambda members: None)
    assert encode_group_value(group) == written
