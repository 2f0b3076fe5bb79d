"""Compares record batches with kafka-python's and aiokafka's in both directions."""

import importlib
from random import Random
from types import ModuleType
from typing import Any

import pytest

from slackwater.wire.records.arrow import read_arrow
from slackwater.wire.records.batch import RecordBatch, check_batch
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, decode_records, encode_batch

from .random_records import random_records

# kafka-python needs another package for each other codec; aiokafka and Kafka cover those.
PEERS = [*(("aiokafka", codec) for codec in Codec), ("kafka", Codec.NONE), ("kafka", Codec.GZIP)]


def module_of(peer: str) -> ModuleType:
    pytest.importorskip(peer)
    return importlib.import_module(f"{peer}.record.default_records")


def records_for(seed: int) -> list[Record]:
    """Records as a producer sends them: consecutive offsets, all with timestamps."""
    records = random_records(Random(seed), large=seed % 3 == 0)
    return [record._replace(offset=at, timestamp=1_700_000_000_000 + at * 7) for at, record in enumerate(records)]


@pytest.mark.parametrize(("peer", "codec"), PEERS)
def test_read_batch_of_peer(peer: str, codec: Codec) -> None:
    for seed in range(6):
        records = records_for(seed)
        builder = module_of(peer).DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec.value,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=10_000_000,
        )
        for record in records:
            builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        data = bytes(builder.build())
        batch = RecordBatch(data)
        check_batch(batch)
        assert list(decode_records(batch)) == records
        assert read_arrow(data).table["value"].to_pylist() == [record.value for record in records]
        if codec is Codec.NONE:
            ours = encode_batch(records)
            # They write an unknown leader epoch as 0, Kafka writes -1; the checksum does not cover it.
            assert ours[:12] + ours[16:] == data[:12] + data[16:]


@pytest.mark.parametrize(("peer", "codec"), PEERS)
def test_peer_reads_batch(peer: str, codec: Codec) -> None:
    for seed in range(6):
        records = records_for(seed)
        data = bytes(encode_batch(records, codec=codec, log_append_time_ms=70 if seed % 2 else None))
        batch: Any = module_of(peer).DefaultRecordBatch(data)
        assert batch.validate_crc()
        for theirs, ours in zip(batch, records, strict=True):
            assert (theirs.offset, theirs.key, theirs.value) == (ours.offset, ours.key, ours.value)
            assert theirs.timestamp == (70 if seed % 2 else ours.timestamp)
            assert [tuple(header) for header in theirs.headers] == list(ours.headers)
