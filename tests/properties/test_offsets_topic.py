"""The formats of `__consumer_offsets` for any value and for any bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    GroupValue,
    MemberMetadata,
    OffsetValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_offset_value,
)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
optional_text = st.none() | text
data = st.binary(max_size=300)

offset_values = st.builds(
    OffsetValue, int64, int32, text, int64, int64, st.none() | st.binary(min_size=16, max_size=16)
)
group_values = st.builds(
    GroupValue,
    text,
    int32,
    optional_text,
    optional_text,
    int64,
    st.lists(st.builds(MemberMetadata, text, optional_text, text, text, int32, int32, data, data), max_size=3).map(
        tuple
    ),
)
records: st.SearchStrategy[CoordinatorRecord] = st.one_of(
    st.builds(
        CommittedOffset,
        text,
        text,
        int32,
        # Without an expiry, because that format has no leader epoch.
        st.none() | st.builds(StoredOffset, int64, int32, text, int64, st.none()),
    ),
    st.builds(
        GroupMetadata,
        text,
        st.none()
        | st.builds(
            StoredGroup,
            text,
            int32,
            optional_text,
            optional_text,
            int64,
            st.lists(
                st.builds(StoredMember, text, optional_text, text, text, int32, st.integers(0, 2**31 - 1), data, data),
                max_size=3,
            ).map(tuple),
        ),
    ),
)


@given(offset_values, st.integers(0, 4))
def test_offset_bytes_round_trip(value: OffsetValue, version: int) -> None:
    encoded = encode_offset_value(value, version)
    assert encode_offset_value(decode_offset_value(encoded), version) == encoded


@given(offset_values)
def test_newest_offset_version_drops_only_expiry(value: OffsetValue) -> None:
    assert decode_offset_value(encode_offset_value(value, 4)) == value._replace(expire_timestamp_ms=-1)


@given(group_values, st.sampled_from([3, 4]))
def test_group_round_trip_in_complete_versions(value: GroupValue, version: int) -> None:
    assert decode_group_value(encode_group_value(value, version)) == value


@given(group_values, st.integers(0, 4))
def test_group_bytes_round_trip(value: GroupValue, version: int) -> None:
    encoded = encode_group_value(value, version)
    assert encode_group_value(decode_group_value(encoded), version) == encoded


@given(records)
def test_record_round_trip(record: CoordinatorRecord) -> None:
    assert decode_record(*encode_record(record)) == record


@given(st.binary(max_size=80) | st.builds(lambda version, rest: bytes((0, version)) + rest, st.integers(0, 5), data))
def test_any_bytes_decode_or_raise_one_error(raw: bytes) -> None:
    for decode in (decode_key, decode_offset_value, decode_group_value):
        with suppress(WireError):
            decode(raw)


@given(group_values, st.integers(0, 4), st.data())
def test_truncated_value_is_rejected(value: GroupValue, version: int, draw: st.DataObject) -> None:
    encoded = encode_group_value(value, version)
    truncated = encoded[: draw.draw(st.integers(0, len(encoded) - 1))]
    with pytest.raises(WireError):
        decode_group_value(truncated)
