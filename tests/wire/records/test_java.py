"""Compares record batches with Apache Kafka's in both directions, in one JVM (`interop/java/RecordsOracle.java`)."""

import json
import subprocess
from collections.abc import Callable, Iterator
from random import Random

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import read_arrow
from slackwater.wire.records.batch import RecordBatch, TimestampType, check_batch, iter_batches
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import BatchBuilder, ControlType, Record, control_type, decode_records, encode_batch
from tests.java import java, require_jars

from .random_records import random_records
from .transaction_markers import end_transaction_marker as marker

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("records_oracle")]  # one JVM

OracleCall = Callable[[dict[str, object]], dict[str, object]]


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleCall]:
    require_jars()
    command = java("RecordsOracle", "-Xshare:auto")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as jvm:
        assert jvm.stdin is not None
        assert jvm.stdout is not None

        def send(arguments: dict[str, object]) -> dict[str, object]:
            assert jvm.stdin is not None
            assert jvm.stdout is not None
            jvm.stdin.write(json.dumps(arguments) + "\n")
            jvm.stdin.flush()
            response: dict[str, object] = json.loads(jvm.stdout.readline())
            return response

        yield send
        jvm.stdin.close()


def hexed(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def as_json(record: Record) -> list[object]:
    headers = [[name, hexed(value)] for name, value in record.headers]
    return [record.offset, record.timestamp, hexed(record.key), hexed(record.value), headers]


def bytes_of(response: dict[str, object]) -> bytes:
    text = response["bytes"]
    assert isinstance(text, str)
    return bytes.fromhex(text)


def written_by_kafka(
    oracle: OracleCall,
    records: list[Record],
    codec: Codec = Codec.NONE,
    *,
    log_append_time: int | None = None,
    delete_horizon: int | None = None,
    transactional: bool = False,
    last_offset: int | None = None,
) -> bytes:
    batch = {
        "codec": codec.name.lower(),
        "base_offset": records[0].offset,
        "log_append_time": log_append_time,
        "delete_horizon": delete_horizon,
        "producer_id": 77 if transactional else -1,
        "producer_epoch": 3 if transactional else -1,
        "base_sequence": 12 if transactional else -1,
        "transactional": transactional,
        "last_offset": last_offset,
        "leader_epoch": -1,
    }
    return bytes_of(oracle({"write": batch, "records": [as_json(record) for record in records]}))


def written_by_us(
    records: list[Record],
    codec: Codec = Codec.NONE,
    *,
    log_append_time: int | None = None,
    delete_horizon: int | None = None,
    transactional: bool = False,
    last_offset: int | None = None,
) -> bytes:
    builder = BatchBuilder(records[0].offset, delete_horizon)
    for record in records:
        builder.append(record)
    return bytes(
        builder.build(
            codec=codec,
            log_append_time_ms=log_append_time,
            transactional=transactional,
            last_offset=last_offset,
            producer_id=77 if transactional else -1,
            producer_epoch=3 if transactional else -1,
            base_sequence=12 if transactional else -1,
        )
    )


def as_oracle_json(batch: RecordBatch) -> dict[str, object]:
    """Convert a batch to the oracle's JSON."""
    names = (
        *("base_offset", "last_offset", "next_offset", "size", "partition_leader_epoch", "crc", "timestamp_type"),
        *("max_timestamp", "is_transactional", "is_control", "producer_id", "producer_epoch", "base_sequence"),
        *("record_count", "delete_horizon_ms"),
    )
    fields = {name: getattr(batch, name) for name in names}
    return {
        **fields,
        "codec": batch.codec.name.lower(),
        "records": [as_json(record) for record in decode_records(batch)],
    }


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.parametrize("log_append_time", [None, 1_700_000_000_123], ids=["create time", "log append time"])
def test_uncompressed_batch_has_kafkas_bytes(
    oracle: OracleCall, log_append_time: int | None, transactional: bool
) -> None:
    for seed in range(30):
        records = random_records(Random(seed))
        ours = written_by_us(records, log_append_time=log_append_time, transactional=transactional)
        theirs = written_by_kafka(oracle, records, log_append_time=log_append_time, transactional=transactional)
        assert ours == theirs


def test_compacted_batch_has_kafkas_bytes(oracle: OracleCall) -> None:
    for seed in range(10):
        records = [record for record in random_records(Random(seed)) if record.offset % 3 == 0] or [
            Record(b"k", b"v", offset=3)
        ]
        last_offset = records[-1].offset + 2
        horizon = 1_600_000_000_000
        theirs = written_by_kafka(oracle, records, delete_horizon=horizon, last_offset=last_offset)
        assert written_by_us(records, delete_horizon=horizon, last_offset=last_offset) == theirs
        batch = RecordBatch(theirs)
        assert batch.delete_horizon_ms == horizon
        assert [as_json(record) for record in decode_records(batch)] == [as_json(record) for record in records]


@pytest.mark.parametrize("codec", list(Codec))
def test_kafka_decodes_our_batches(oracle: OracleCall, codec: Codec) -> None:
    for seed in range(10):
        records = random_records(Random(seed), large=seed % 3 == 0)
        data = written_by_us(records, codec, log_append_time=5 if seed % 2 else None)
        assert oracle({"read": data.hex()}) == {"batches": [as_oracle_json(RecordBatch(data))]}


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_kafka_are_decoded(oracle: OracleCall, codec: Codec) -> None:
    for seed in range(10):
        records = random_records(Random(seed), large=seed % 3 == 0)
        data = written_by_kafka(oracle, records, codec)
        (batch,) = iter_batches(data)
        check_batch(batch)
        assert list(decode_records(batch)) == records
        table = read_arrow(data, headers=True).table
        assert table["value"].to_pylist() == [record.value for record in records]


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_marker_has_kafkas_bytes(oracle: OracleCall, commit: bool) -> None:
    arguments = {"commit": commit, "coordinator_epoch": 9, "base_offset": 5, "timestamp": 1_700_000_000_000}
    theirs = bytes_of(oracle({"marker": {**arguments, "leader_epoch": 0, "producer_id": 77, "producer_epoch": 3}}))
    builder = BatchBuilder(5)
    builder.append(marker(ControlType.COMMIT if commit else ControlType.ABORT, 9, 1_700_000_000_000))
    ours = builder.build(
        transactional=True, control=True, producer_id=77, producer_epoch=3, partition_leader_epoch=0, base_sequence=-1
    )
    assert ours == theirs
    assert control_type(RecordBatch(theirs)) == commit


@pytest.mark.parametrize("log_append_time", [None, 1_800_000_000_000], ids=["create time", "log append time"])
@pytest.mark.parametrize("append_time_ms", [None, 7], ids=["from create time", "from log append time"])
def test_broker_fields_have_kafkas_bytes(
    oracle: OracleCall, log_append_time: int | None, append_time_ms: int | None
) -> None:
    for seed in range(10):
        data = encode_batch(
            [record._replace(offset=-1) for record in random_records(Random(seed))],
            codec=Codec(seed % 5),
            log_append_time_ms=append_time_ms,
        )
        arguments = {"last_offset": 2**40, "leader_epoch": 6, "log_append_time": log_append_time, "max_timestamp": 99}
        theirs = bytes_of(oracle({"append": data.hex(), **arguments}))
        batch = RecordBatch(data)
        batch.set_base_offset(2**40 - batch.last_offset_delta)
        batch.set_partition_leader_epoch(6)
        if log_append_time is None:
            batch.set_max_timestamp(TimestampType.CREATE_TIME, 99)
        else:
            batch.set_log_append_time(log_append_time)
        assert data == theirs
        check_batch(RecordBatch(data))


def test_corrupt_records_are_rejected_like_in_kafka(oracle: OracleCall) -> None:
    """The checksum is corrected, so that both decode the records."""
    random = Random(5)
    rejected = 0
    for _ in range(600):
        data = bytearray(written_by_us(random_records(random, max_count=4)))
        data[random.randrange(61, len(data))] = random.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, random.randrange(256)])
        data[17:21] = RecordBatch(data).computed_crc().to_bytes(4, "big")
        response = oracle({"read": data.hex()})
        try:
            ours = as_oracle_json(RecordBatch(data))
        except WireError:
            assert "error" in response
            rejected += 1
        else:
            assert response == {"batches": [ours]}
    assert rejected > 50
