"""Tests of the encoding of the coordinator's records."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from slackwater.broker.groups.offsets_records import decode_record, encode_record
from slackwater.group.coordinator.records import (
    CommittedOffset,
    CoordinatorRecord,
    GroupMetadata,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.consumer_offsets import (
    GroupKey,
    GroupValue,
    MemberMetadata,
    encode_group_value,
    encode_key,
)

SAMPLE = Path(__file__).parents[2] / "data" / "consumer_offsets_sample.jsonl"
MEMBER = StoredMember("c-1", "i", "c", "/10.0.0.1", 45_000, 300_000, b"sub", b"ass")


@pytest.mark.parametrize(
    "record",
    [
        GroupMetadata("g", None),
        GroupMetadata("g", StoredGroup("", 0, None, None, 5, ())),
        GroupMetadata("g", StoredGroup("consumer", 3, "range", "c-1", 5, (MEMBER,))),
        CommittedOffset("g", "t", 1, None),
        CommittedOffset("g", "t", 1, StoredOffset(42, 7, "meta", 5)),
        CommittedOffset("g", "t", 1, StoredOffset(42, -1, "", 5, 99)),
    ],
)
def test_record_is_decoded_as_encoded(record: CoordinatorRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_expiring_offset_has_no_leader_epoch() -> None:
    written = CommittedOffset("g", "t", 1, StoredOffset(42, 7, "", 5, 99))
    assert decode_record(*encode_record(written)) == CommittedOffset("g", "t", 1, StoredOffset(42, -1, "", 5, 99))


@pytest.mark.proves("JG-27")
def test_missing_rebalance_timeout_is_session_timeout() -> None:
    member = MemberMetadata("c-1", None, "c", "/10.0.0.1", -1, 45_000, b"", b"")
    data = encode_group_value(GroupValue("consumer", 3, "range", "c-1", -1, (member,)), 0)
    record = decode_record(encode_key(GroupKey("g")), data)
    assert isinstance(record, GroupMetadata)
    assert record.value is not None
    assert record.value.members[0].rebalance_timeout_ms == 45_000


def test_records_of_real_brokers_are_decoded() -> None:
    skipped = offsets = groups = tombstones = 0
    for line in SAMPLE.read_text().splitlines():
        row = json.loads(line)
        key = b64decode(row["key"])
        value = None if row["value"] is None else b64decode(row["value"])
        match decode_record(key, value):
            case None:
                skipped += 1
            case CommittedOffset(_, _, _, None):
                tombstones += 1
            case CommittedOffset() as record:
                offsets += 1
                assert value is not None
                if value[:2] == b"\x00\x03":
                    assert encode_record(record) == (key, value)
            case GroupMetadata() as record:
                groups += 1
                assert encode_record(record) == (key, value)
    assert min(skipped, offsets, groups, tombstones) > 0


def test_invalid_bytes_raise() -> None:
    with pytest.raises(WireError):
        decode_record(encode_key(GroupKey("g")), b"\x00\x03")
