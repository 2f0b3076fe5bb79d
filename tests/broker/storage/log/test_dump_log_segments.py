"""Tests that Apache Kafka's DumpLogSegments reads the log files without errors."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.broker.groups.offsets_records import encode_record
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import (
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
    with_suffix,
)
from slackwater.broker.storage.log.partition_log import AppendOrigin, PartitionLog
from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.coordinator.records import (
    CommittedOffset,
    CoordinatorRecord,
    GroupMetadata,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import TimestampType
from slackwater.wire.records.compression import Codec

from .batches import NOW_MS, Sent, batch, compact, contents, opened, reopen
from .transactions import end, send

pytestmark = pytest.mark.java

ROOT = Path(__file__).parents[4]
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500, file_delete_delay_ms=0)
COMPACT = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)


def jars() -> Path:
    """Return the directory of Kafka's jars."""
    return Path(os.environ.get("SLACKWATER_JARS", ROOT / ".jars" / "kafka-4.3.1"))


def dump(*files: Path, options: tuple[str, ...] = (), gaps: bool = False) -> str:
    """Return the output of DumpLogSegments, which must have no errors except gaps after compaction.

    The tool takes -1 as the offset before the first record of every file, and reports that as a gap.
    """
    if not shutil.which("java") or not any(jars().glob("kafka-tools-*.jar")):
        missing = f"Java, or Kafka's jars in {jars()}, are missing; run `make jars`"
        pytest.skip(missing)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--files", ",".join(map(str, files)), *options]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = r"Non-consecutive offsets in |  -1 is followed by "
    if gaps:
        # As in Kafka, a batch without records has a timestamp.
        expected += r"|  \d+ is followed by |Found timestamp mismatch in |  Index timestamp: \d+, log timestamp: -1$"
    assert [line for line in completed.stderr.splitlines() if not re.match(expected, line)] == []
    return completed.stdout


def files_of(log: PartitionLog) -> list[Path]:
    return [
        path for kind in (LOG, OFFSET_INDEX, TIME_INDEX, SNAPSHOT) for path in with_suffix(log.directory, kind).values()
    ]


def write_log(path: Path, config: LogConfig) -> PartitionLog:
    """Return a log with every codec, a few producers, and unsorted timestamps."""
    log = opened(path, config)
    for number in range(300):
        sent = [
            Sent(b"k%d" % ((number + at) % 40), b"value %d" % number * 5, NOW_MS + number * 10 - at * 7 % 20)
            for at in range(number % 4 + 1)
        ]
        data = batch(*sent, codec=Codec(number % 5))
        if number < 3:
            data = batch(*sent, producer_id=number, epoch=1, sequence=log.log_end_offset)
        log.append(data, NOW_MS)
    return log


def offsets_in(output: str) -> list[int]:
    """Return the offsets of the printed records."""
    return [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)]


@pytest.mark.parametrize("timestamps", list(TimestampType))
def test_kafka_reads_segments_indexes_and_snapshots(tmp_path: Path, timestamps: TimestampType) -> None:
    log = write_log(tmp_path / "t-0", replace(CONFIG, message_timestamp_type=timestamps))
    assert len(log.segments) > 2
    log.close()
    output = dump(*files_of(log), options=("--print-data-log", "--deep-iteration"))
    assert offsets_in(output) == list(range(log.log_end_offset))
    assert output.count("isvalid: false") == 0
    assert len(re.findall(r"^offset: \d+ position: \d+$", output, re.MULTILINE)) > 20
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", output, re.MULTILINE)) > 0
    assert re.search(r"producerId: 2 producerEpoch: 1 .*firstSequence: 3 lastSequence: 5 lastOffset: 5", output)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in output
    indexes = [path for path in files_of(log) if path.suffix in (OFFSET_INDEX, TIME_INDEX)]
    sane = dump(*indexes, options=("--index-sanity-check",))
    assert sane.count("passed sanity check.") + sane.count("is empty.") == len(indexes)


def test_kafka_reads_recovered_files(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", CONFIG)
    log.close_unclean()
    path = log.active.path(LOG)
    path.write_bytes(path.read_bytes()[:-5])
    reopened = reopen(log)
    assert reopened.truncated_tails
    reopened.close()
    output = dump(*files_of(reopened), options=("--deep-iteration",))
    assert offsets_in(output) == list(range(reopened.log_end_offset))


def test_kafka_reads_compacted_segments(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", COMPACT)
    for number in range(200):
        log.append(batch(Sent(b"k%d" % (number % 30), None if number % 3 else b"v"), codec=Codec(number % 5)), NOW_MS)
    log.roll(NOW_MS)
    assert compact(log, NOW_MS)
    log.close()
    output = dump(*files_of(log), options=("--print-data-log", "--deep-iteration"), gaps=True)
    reopened = PartitionLog.open(log.directory, COMPACT, NOW_MS)
    assert offsets_in(output) == [record.offset for record in contents(reopened)]
    assert "deleteHorizonMs: OptionalLong[" in output
    assert "isvalid: false" not in output


def test_kafka_reads_offsets_topic(tmp_path: Path) -> None:
    parts = [TopicPartition("orders", 0)]
    member = StoredMember(
        "c-1",
        "instance",
        "client",
        "/10.0.0.1",
        45_000,
        300_000,
        encode_subscription(Subscription(("orders",))),
        encode_assignment(Assignment(parts)),
    )
    stored: list[CoordinatorRecord] = [
        GroupMetadata("g", StoredGroup("consumer", 3, "range", "c-1", NOW_MS, (member,))),
        CommittedOffset("g", "orders", 0, StoredOffset(42, 7, "meta", NOW_MS)),
        CommittedOffset("g", "orders", 1, None),
    ]
    log = opened(tmp_path / "__consumer_offsets-0", COMPACT)
    for record in stored:
        log.append(batch(Sent(*encode_record(record))), NOW_MS, AppendOrigin.COORDINATOR)
    log.close()
    output = dump(*with_suffix(log.directory, LOG).values(), options=("--offsets-decoder",))
    assert '"group":"g","topic":"orders","partition":0' in output
    assert '"offset":42,"leaderEpoch":7,"metadata":"meta"' in output
    assert '"generation":3,"protocol":"range","leader":"c-1"' in output
    assert '"groupInstanceId":"instance"' in output
    assert '"topic":"orders","partitions":[0]' in output
    assert len(re.findall(r"payload: <DELETE>", output)) == 1


@pytest.mark.proves("TX-61", "TX-62")
def test_kafka_reads_markers_open_transactions_and_aborted_ones(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", CONFIG)
    send(log, 7, 0, epoch=3)
    send(log, 8, 0)
    end(log, 7, commit=False, epoch=4, coordinator_epoch=11, version=2)
    end(log, 8, commit=True, coordinator_epoch=12)
    send(log, 9, 0)
    log.close()
    index = log.directory / file_name(0, TRANSACTION_INDEX)
    output = dump(*files_of(log), index, options=("--print-data-log",))
    assert re.search(
        r"isTransactional: true isControl: true .*\n\| offset: 2 .*endTxnMarker: ABORT coordinatorEpoch: 11", output
    )
    assert re.search(r"\| offset: 3 .*endTxnMarker: COMMIT coordinatorEpoch: 12", output)
    assert "version: 0 producerId: 7 firstOffset: 0 lastOffset: 2 lastStableOffset: 1" in output
    assert "producerId: 7 producerEpoch: 4 coordinatorEpoch: 11 currentTxnFirstOffset: OptionalLong.empty" in output
    assert "producerId: 9 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[4]" in output
