"""The compiled encoder writes the bytes of `BatchBuilder`, and Kafka's murmur2."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

pytest.importorskip("numba")

from slackwater.client.producer.partitioner import murmur2
from slackwater.wire.records import encoder
from slackwater.wire.records.batch import RecordBatch, check_batch
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.encoder import (
    ALL_ENCODED,
    ByteColumn,
    HeaderColumn,
    RecordColumns,
    RecordEncoder,
    choose_partitions,
)
from slackwater.wire.records.record import BatchBuilder, Header, Record, decode_records

BASE_MS = 1_700_000_000_000


@pytest.fixture(params=["compiled", "interpreted"])
def _functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test also with the uncompiled functions, in which an access outside an array is an IndexError."""
    if request.param == "interpreted":
        for name in ("encode_records", "choose_partitions"):
            monkeypatch.setattr(encoder, name, getattr(encoder, name).py_func)


def column(values: Sequence[bytes | None]) -> ByteColumn:
    data = np.frombuffer(b"".join(value or b"" for value in values), np.uint8)
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    ends = np.cumsum(np.maximum(lengths, 0))
    return ByteColumn(data, np.concatenate([[0], ends])[: len(values)].astype(np.int64), lengths)


def columns(records: Sequence[Record]) -> RecordColumns:
    counts = np.array([len(record.headers) for record in records], np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])[: len(records)].astype(np.int64)
    headers = [header for record in records for header in record.headers]
    return RecordColumns(
        column([record.value for record in records]),
        column([record.key for record in records]),
        HeaderColumn(
            starts, counts, column([name.encode() for name, _ in headers]), column([value for _, value in headers])
        ),
    )


def random_records(random: Random, count: int) -> list[Record]:
    def value(sizes: Sequence[int]) -> bytes | None:
        return None if random.random() < 0.1 else random.randbytes(random.choice(sizes))

    def headers() -> list[Header]:
        return [(random.choice(["", "name", "ü" * 40]), value([0, 3, 200])) for _ in range(random.choice([0, 0, 1, 3]))]

    return [Record(value([0, 1, 7, 30, 63, 64]), value([0, 5, 100, 200, 9_000]), headers()) for _ in range(count)]


@pytest.mark.usefixtures("_functions")
@pytest.mark.parametrize("codec", list(Codec))
def test_same_bytes_as_batch_builder(codec: Codec) -> None:
    random = Random(codec.value)
    records = random_records(random, 400)
    partitions = np.array([random.randrange(3) for _ in records], np.int32)
    encoding = RecordEncoder(3, 8_192, codec)
    written: list[list[Record]] = [[], [], []]

    def check(partition: int, data: bytearray) -> None:
        batch = RecordBatch(data)
        check_batch(batch)
        assert batch.is_transactional
        decoded = list(decode_records(batch))
        builder = BatchBuilder()
        for record in decoded:
            builder.append(record)
        assert data == builder.build(codec=codec, transactional=True, producer_id=5, producer_epoch=1, base_sequence=7)
        written[partition] += decoded

    timestamps = []
    for first in range(0, len(records), 90):
        timestamp = BASE_MS + random.choice([0, -5, 100, 70_000])  # the clock may be set back
        timestamps += [timestamp] * len(records[first : first + 90])
        rows = np.arange(first, min(first + 90, len(records)), dtype=np.int64)
        for partition, encoded in encoding.encode(columns(records), rows, partitions[rows], timestamp):
            check(partition, encoded.build(transactional=True, producer_id=5, producer_epoch=1, base_sequence=7))
    assert set(encoding.partitions) <= {0, 1, 2}
    for partition in encoding.partitions:
        check(
            partition,
            encoding.take(partition).build(transactional=True, producer_id=5, producer_epoch=1, base_sequence=7),
        )
    assert not encoding.partitions
    for partition in range(3):
        expected = [
            record._replace(headers=tuple(record.headers), timestamp=timestamp)
            for record, place, timestamp in zip(records, partitions, timestamps, strict=True)
            if place == partition
        ]
        assert [record._replace(offset=-1) for record in written[partition]] == expected


@pytest.mark.usefixtures("_functions")
def test_partitions_of_keys() -> None:
    random = Random(3)
    keys = [random.randbytes(size) for size in (*range(20), 100, 999)]
    found = np.empty(len(keys), np.int32)
    rows, none = np.arange(len(keys), dtype=np.int64), np.zeros(0, np.int32)
    sizes, sticky = np.ones(len(keys), np.int64), np.zeros(2, np.int64)
    result = encoder.choose_partitions(*column(keys), none, sizes, rows, np.array([0], np.int32), 97, 9, sticky, found)
    assert result == ALL_ENCODED
    assert list(found) == [(murmur2(key) & 0x7FFFFFFF) % 97 for key in keys]


@pytest.mark.usefixtures("_functions")
def test_rows_without_key_stick_to_a_partition_for_some_bytes() -> None:
    keys: list[bytes | None] = [None] * 12
    wanted = np.array([-1] * 9 + [4, -1, -1], np.int32)
    rows, found = np.arange(12, dtype=np.int64), np.empty(12, np.int32)
    available, sticky = np.array([3, 1], np.int32), np.zeros(2, np.int64)
    sizes = np.full(12, 10, np.int64)
    assert encoder.choose_partitions(*column(keys), wanted, sizes, rows, available, 5, 30, sticky, found) == ALL_ENCODED
    assert list(found) == [3, 3, 3, 1, 1, 1, 3, 3, 3, 4, 1, 1]


def test_partition_out_of_range_is_reported() -> None:
    keys = column([None, None, None])
    rows, found = np.arange(3, dtype=np.int64), np.empty(3, np.int32)
    wanted, available = np.array([0, 1, 2], np.int32), np.array([0], np.int32)
    sizes, sticky = np.ones(3, np.int64), np.zeros(2, np.int64)
    assert choose_partitions(*keys, wanted, sizes, rows, available, 2, 9, sticky, found) == 2
