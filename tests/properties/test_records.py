"""Record batches for any records and for any bytes."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import read_arrow
from slackwater.wire.records.batch import RecordBatch, check_batch, iter_batches
from slackwater.wire.records.compression import Codec, decompress
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.records.record import Record, decode_records, encode_batch
from slackwater.wire.records.scan import NumpyScanner, Scanner, compiled_scanner

maybe_bytes = st.none() | st.binary(max_size=200)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
headers = st.lists(st.tuples(text, maybe_bytes), max_size=3).map(tuple)
timestamps = st.integers(-1, 2**62)
records = st.tuples(maybe_bytes, maybe_bytes, headers, timestamps).map(lambda fields: Record(*fields))
codecs = st.sampled_from(Codec)
SCANNERS = ["numba", "numpy"]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compile before Hypothesis looks at the clock."""
    compiled_scanner()


def scanner_named(name: str) -> Scanner:
    found = NumpyScanner() if name == "numpy" else compiled_scanner()
    if found is None:
        pytest.skip("numba is not installed")
    return found


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """Batches one behind the other, some of them empty."""
    at = draw(st.integers(0, 2**62))
    pieces = []
    for given_records in draw(st.lists(st.lists(records, max_size=8), max_size=4)):
        stamp = draw(st.none() | timestamps)
        pieces.append(encode_batch(given_records, base_offset=at, codec=draw(codecs), log_append_time_ms=stamp))
        at += max(1, len(given_records)) + draw(st.integers(0, 5))
    return b"".join(pieces)


@given(st.lists(records), codecs, st.integers(0, 2**62), st.none() | timestamps)
def test_records_come_back_as_they_were(
    given_records: list[Record], codec: Codec, base: int, stamp: int | None
) -> None:
    data = encode_batch(given_records, base_offset=base, codec=codec, log_append_time_ms=stamp)
    batch = RecordBatch(data)
    check_batch(batch)
    expected = [
        record._replace(offset=base + number, timestamp=record.timestamp if stamp is None else stamp)
        for number, record in enumerate(given_records)
    ]
    assert list(decode_records(batch)) == expected


@pytest.mark.parametrize("name", SCANNERS)
@given(responses())
def test_arrow_holds_what_is_read_one_by_one(name: str, data: bytes) -> None:
    table = read_arrow(data, headers=True, scanner=scanner_named(name)).table
    table.validate(full=True)
    expected = list(iter_records(data))
    assert table["offset"].to_pylist() == [record.offset for record in expected]
    assert table["key"].to_pylist() == [record.key for record in expected]
    assert table["value"].to_pylist() == [record.value for record in expected]
    pairs = [tuple((one["key"], one["value"]) for one in row) for row in table["headers"].to_pylist()]
    assert pairs == [record.headers for record in expected]
    farthest = (2**63 - 1) // 1000
    milliseconds = [min(record.timestamp, farthest) for record in expected]
    assert [time // 1000 for time in table["timestamp"].cast("int64").to_pylist()] == milliseconds


@pytest.mark.parametrize("name", SCANNERS)
@pytest.mark.parametrize("check_crcs", [True, False])
@given(
    responses(), st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4), st.booleans()
)
def test_damaged_bytes_raise_a_wire_error_and_nothing_else(
    name: str, check_crcs: bool, data: bytes, changes: list[tuple[int, int]], mend: bool
) -> None:
    damaged = bytearray(data)
    for at, byte in changes:
        if damaged:
            damaged[at % len(damaged)] = byte
    if mend:
        with suppress(WireError):
            for batch in iter_batches(damaged):
                struct.pack_into(">I", damaged, batch.position + 17, batch.computed_crc())
    with suppress(WireError):
        read_arrow(damaged, headers=True, check_crcs=check_crcs, scanner=scanner_named(name)).table.validate(full=True)
    with suppress(WireError):
        list(iter_records(damaged, aborted=[(0, 0)], check_crcs=check_crcs))


@pytest.mark.parametrize("name", SCANNERS)
@given(st.binary(max_size=300), st.integers(-3, 40))
def test_any_bytes_with_a_right_checksum_raise_a_wire_error_and_nothing_else(
    name: str, payload: bytes, count: int
) -> None:
    data = encode_batch([]) + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, RecordBatch(bytes(data)).computed_crc())
    outcomes = []
    for read in (
        lambda: read_arrow(data, headers=True, scanner=scanner_named(name)).table["value"].to_pylist(),
        lambda: [record.value for record in iter_records(data)],
    ):
        try:
            outcomes.append(read())
        except WireError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


@given(codecs, st.binary(max_size=300))
def test_any_bytes_are_unpacked_or_raise_a_wire_error(codec: Codec, data: bytes) -> None:
    with suppress(WireError):
        decompress(codec, data, 1 << 20)


@given(st.binary(max_size=300))
def test_any_bytes_are_walked_over_or_raise_a_wire_error(data: bytes) -> None:
    with suppress(WireError):
        for batch in iter_batches(data):
            check_batch(batch)
