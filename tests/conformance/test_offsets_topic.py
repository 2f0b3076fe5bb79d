"""Section 8 of the catalogue: the record format of `__consumer_offsets`."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from slackwater.broker.groups.offsets_records import decode_record, encode_record
from slackwater.group.coordinator.records import CommittedOffset, GroupMetadata, StoredGroup, StoredOffset
from slackwater.wire.internal_topics.consumer_offsets import decode_key

SAMPLE = Path(__file__).parent.parent / "data" / "consumer_offsets_sample.jsonl"


@pytest.mark.proves("CO-11")
@pytest.mark.parametrize("version", [3, 4, 5, 6, 7, 8, 9, 16, 32767, -1])
def test_record_with_unknown_key_version_is_skipped(version: int) -> None:
    key = version.to_bytes(2, "big", signed=True) + b"\x00\x01g"
    assert decode_record(key, b"\x00\x00value") is None
    assert decode_record(key, None) is None


@pytest.mark.proves("CO-11", "CO-12")
def test_kip_848_records_of_real_topic_are_skipped() -> None:
    types_by_version: dict[int, set[str]] = {}
    for line in SAMPLE.read_text().splitlines():
        row = json.loads(line)
        key = b64decode(row["key"])
        record = decode_record(key, None if row["value"] is None else b64decode(row["value"]))
        types_by_version.setdefault(int.from_bytes(key[:2], "big"), set()).add(type(record).__name__)
    assert types_by_version.pop(1) == {"CommittedOffset"}
    assert types_by_version.pop(2) == {"GroupMetadata"}
    assert set(types_by_version) == {3, 5, 6, 7, 8}
    assert set.union(*types_by_version.values()) == {"NoneType"}


@pytest.mark.proves("CO-12")
def test_key_versions_of_offsets_and_groups() -> None:
    offset = b"\x00\x01g\x00\x01t\x00\x00\x00\x05"
    assert decode_record(b"\x00\x00" + offset, None) == CommittedOffset("g", "t", 5, None)
    assert decode_record(b"\x00\x01" + offset, None) == CommittedOffset("g", "t", 5, None)
    assert decode_record(b"\x00\x02\x00\x01g", None) == GroupMetadata("g", None)


@pytest.mark.proves("CO-12")
def test_offset_value_versions_with_and_without_expiry() -> None:
    key, value = encode_record(CommittedOffset("g", "t", 5, StoredOffset(42, 7, "m", 1_000)))
    assert (key[:2], value and value[:2]) == (b"\x00\x01", b"\x00\x03")
    key, value = encode_record(CommittedOffset("g", "t", 5, StoredOffset(42, 7, "m", 1_000, 2_000)))
    assert (key[:2], value and value[:2]) == (b"\x00\x01", b"\x00\x01")
    key, value = encode_record(GroupMetadata("g", StoredGroup("consumer", 1, "range", "a", 1_000, ())))
    assert (key[:2], value and value[:2]) == (b"\x00\x02", b"\x00\x03")
    assert decode_key(key) == ("g",)
