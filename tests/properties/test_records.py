"""Record batches with any records and any bytes: the plain and the compiled decoder agree."""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import read_arrow
from slackwater.wire.records.batch import RecordBatch, check_batch, iter_batches
from slackwater.wire.records.compression import Codec, decompress
from slackwater.wire.records.decoding import compiled_scanner, decode_response
from slackwater.wire.records.fetched import NO_LIMIT, iter_records
from slackwater.wire.records.record import ControlType, Record, decode_records, encode_batch
from tests.wire.records.transaction_markers import end_transaction_marker

PRODUCERS = (1, 2)
MAX_TIMESTAMP_MS = (2**63 - 1) // 1000

optional_bytes = st.none() | st.binary(max_size=200)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
headers = st.lists(st.tuples(text, optional_bytes), max_size=3).map(tuple)
timestamps = st.integers(-1, 2**62)
records = st.tuples(optional_bytes, optional_bytes, headers, timestamps).map(lambda fields: Record(*fields))
codecs = st.sampled_from(Codec)
changes = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compile before Hypothesis measures the time of an example."""
    compiled_scanner()


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """Data batches, empty batches, transactional batches and transaction markers; perhaps truncated at the end."""
    next_offset = draw(st.integers(0, 2**62))
    parts = []
    for batch_records in draw(st.lists(st.lists(records, max_size=8), max_size=5)):
        kind = draw(st.sampled_from(["plain", "plain", "transactional", *ControlType]))
        if isinstance(kind, ControlType):
            batch_records = [end_transaction_marker(kind, 0, 1_700_000_000_000)]
        parts.append(
            encode_batch(
                batch_records,
                base_offset=next_offset,
                codec=draw(codecs),
                log_append_time_ms=draw(st.none() | timestamps),
                transactional=kind != "plain",
                control=isinstance(kind, ControlType),
                producer_id=-1 if kind == "plain" else draw(st.sampled_from(PRODUCERS)),
            )
        )
        next_offset += max(1, len(batch_records)) + draw(st.integers(0, 5))
    response = b"".join(parts)
    return response[: len(response) - draw(st.just(0) | st.integers(0, 100))] if response else response


@st.composite
def limits(draw: st.DrawFn, response: bytes) -> dict[str, Any]:
    """Arguments of a reader: offsets near those of the response, and perhaps aborted transactions."""
    offsets = [0, NO_LIMIT]
    with suppress(WireError):
        offsets += [offset for batch in iter_batches(response) for offset in (batch.base_offset, batch.next_offset)]
    some_offset = st.sampled_from(offsets)
    aborted = st.lists(st.tuples(st.sampled_from(PRODUCERS), some_offset), max_size=3)
    return {
        "from_offset": draw(st.just(0) | some_offset),
        "until_offset": draw(st.just(NO_LIMIT) | some_offset),
        "aborted": draw(st.none() | aborted),
    }


def corrupted(data: bytes, changed: list[tuple[int, int]], fix_checksums: bool) -> bytes:
    buffer = bytearray(data)
    for position, byte in changed:
        if buffer:
            buffer[position % len(buffer)] = byte
    if fix_checksums:
        with suppress(WireError):
            for batch in iter_batches(buffer):
                struct.pack_into(">I", buffer, batch.position + 17, batch.computed_crc())
    return bytes(buffer)


def result_of(read: Callable[[], object]) -> object:
    """Return the result of a decoder, or the text of its error."""
    try:
        return read()
    except WireError as error:
        return str(error)


def with_plain(data: bytes, arguments: dict[str, Any]) -> list[Record]:
    return list(iter_records(data, **arguments))


def with_compiled(data: bytes, arguments: dict[str, Any]) -> list[Record]:
    decoded = []
    for block in decode_response(data, **arguments, scanner=compiled_scanner()).blocks:
        offsets, times, _, keys, values, all_headers = block.fields(0, len(block))
        decoded += list(map(Record, keys, values, all_headers, times, offsets))
    return decoded


def with_arrow(data: bytes, arguments: dict[str, Any]) -> list[Record]:
    """Return the table as records. Arrow clamps timestamps to the range of microseconds."""
    table = read_arrow(data, headers=True, **arguments).table
    table.validate(full=True)
    times = [time // 1000 for time in table["timestamp"].cast("int64").to_pylist()]
    all_headers = [tuple((header["key"], header["value"]) for header in row) for row in table["headers"].to_pylist()]
    columns = (table[name].to_pylist() for name in ("key", "value"))
    return list(map(Record, *columns, all_headers, times, table["offset"].to_pylist()))


def clamped(result: object) -> object:
    if not isinstance(result, list):
        return result
    return [
        record._replace(timestamp=min(max(record.timestamp, -MAX_TIMESTAMP_MS), MAX_TIMESTAMP_MS)) for record in result
    ]


@given(st.lists(records), codecs, st.integers(0, 2**62), st.none() | timestamps)
def test_encode_decode_round_trip(
    sent_records: list[Record], codec: Codec, base_offset: int, append_time: int | None
) -> None:
    data = encode_batch(sent_records, base_offset=base_offset, codec=codec, log_append_time_ms=append_time)
    batch = RecordBatch(data)
    check_batch(batch)
    expected = [
        record._replace(offset=base_offset + number, timestamp=record.timestamp if append_time is None else append_time)
        for number, record in enumerate(sent_records)
    ]
    assert list(decode_records(batch)) == expected


@given(st.data(), responses())
def test_decoders_agree_on_valid_responses(data: st.DataObject, response: bytes) -> None:
    arguments = data.draw(limits(response))
    expected = with_plain(response, arguments)
    assert with_compiled(response, arguments) == expected
    assert with_arrow(response, arguments) == clamped(expected)


@given(st.data(), responses(), changes, st.booleans(), st.booleans())
def test_decoders_agree_on_corrupt_responses(
    data: st.DataObject, response: bytes, changed: list[tuple[int, int]], fix_checksums: bool, check_crcs: bool
) -> None:
    corrupt = corrupted(response, changed, fix_checksums)
    arguments = data.draw(limits(response)) | {"check_crcs": check_crcs}
    expected = result_of(lambda: with_plain(corrupt, arguments))
    assert result_of(lambda: with_compiled(corrupt, arguments)) == expected
    assert result_of(lambda: with_arrow(corrupt, arguments)) == clamped(expected)


@given(st.binary(max_size=300), st.integers(-3, 40))
def test_decoders_agree_on_any_payload(payload: bytes, count: int) -> None:
    data = encode_batch([]) + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, RecordBatch(bytes(data)).computed_crc())
    expected = result_of(lambda: with_plain(bytes(data), {}))
    assert result_of(lambda: with_compiled(bytes(data), {})) == expected
    assert result_of(lambda: with_arrow(bytes(data), {})) == clamped(expected)


@given(codecs, st.binary(max_size=300))
def test_decompress_raises_only_wire_errors(codec: Codec, data: bytes) -> None:
    with suppress(WireError):
        decompress(codec, data, 1 << 20)


@given(st.binary(max_size=300))
def test_iteration_raises_only_wire_errors(data: bytes) -> None:
    with suppress(WireError):
        for batch in iter_batches(data):
            check_batch(batch)
