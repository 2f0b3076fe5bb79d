"""Apache Kafka's own DumpLogSegments reads our files and finds nothing wrong with them."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.broker.groups.offsets_records import encode_record
from slackwater.broker.storage.log import cleaner
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, with_suffix
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

from .batches import NOW_MS, Sent, batch, contents, opened, reopen

pytestmark = pytest.mark.java

ROOT = Path(__file__).parents[3]
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500, file_delete_delay_ms=0)
COMPACT = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)


def jars() -> Path:
    """Where Kafka's jars are, or would be."""
    return Path(os.environ.get("SLACKWATER_JARS", ROOT / ".jars" / "kafka-4.3.1"))


def dump(*files: Path, options: tuple[str, ...] = (), gaps: bool = False) -> str:
    """What DumpLogSegments says; it must not complain, but for gaps where compaction leaves them.

    It takes -1 for the offset before the first one of every file, and reports that as a gap too.
    """
    if not shutil.which("java") or not any(jars().glob("kafka-tools-*.jar")):
        missing = f"Java, or Kafka's jars in {jars()}, are missing; run `make jars`"
        pytest.skip(missing)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--files", ",".join(map(str, files)), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = r"Non-consecutive offsets in |  -1 is followed by "
    if gaps:
        # A batch that was kept without its records, for its producer's sake, keeps its timestamp: in Kafka too.
        expected += r"|  \d+ is followed by |Found timestamp mismatch in |  Index timestamp: \d+, log timestamp: -1$"
    assert [line for line in done.stderr.splitlines() if not re.match(expected, line)] == []
    return done.stdout


def files_of(log: PartitionLog) -> list[Path]:
    return [
        path for kind in (LOG, OFFSET_INDEX, TIME_INDEX, SNAPSHOT) for path in with_suffix(log.directory, kind).values()
    ]


def written(path: Path, config: LogConfig) -> PartitionLog:
    """A log with every codec, a few producers, and times that go up and down."""
    log = opened(path, config)
    for number in range(300):
        sent = [
            Sent(b"k%d" % ((number + at) % 40), b"value %d" % number * 5, NOW_MS + number * 10 - at * 7 % 20)
            for at in range(number % 4 + 1)
        ]
        made = batch(*sent, codec=Codec(number % 5))
        if number < 3:
            made = batch(*sent, producer_id=number, epoch=1, sequence=log.log_end_offset)
        log.append(made, NOW_MS)
    return log


def offsets_in(said: str) -> list[int]:
    """The offsets of the records it printed."""
    return [int(found) for found in re.findall(r"^\| offset: (\d+) ", said, re.MULTILINE)]


@pytest.mark.parametrize("timestamps", list(TimestampType))
def test_segments_indexes_and_snapshots_are_kafkas(tmp_path: Path, timestamps: TimestampType) -> None:
    log = written(tmp_path / "t-0", replace(CONFIG, message_timestamp_type=timestamps))
    assert len(log.segments) > 2
    log.close()
    said = dump(*files_of(log), options=("--print-data-log", "--deep-iteration"))
    assert offsets_in(said) == list(range(log.log_end_offset))
    assert said.count("isvalid: false") == 0
    assert len(re.findall(r"^offset: \d+ position: \d+$", said, re.MULTILINE)) > 20
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", said, re.MULTILINE)) > 0
    assert re.search(r"producerId: 2 producerEpoch: 1 .*firstSequence: 3 lastSequence: 5 lastOffset: 5", said)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in said
    indexes = [path for path in files_of(log) if path.suffix in (OFFSET_INDEX, TIME_INDEX)]
    sane = dump(*indexes, options=("--index-sanity-check",))
    assert sane.count("passed sanity check.") + sane.count("is empty.") == len(indexes)


def test_files_left_by_a_kill_and_found_again_are_kafkas(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0", CONFIG)
    log.abandon()
    path = log.active.path(LOG)
    path.write_bytes(path.read_bytes()[:-5])
    again = reopen(log)
    assert again.truncated_tails
    again.close()
    said = dump(*files_of(again), options=("--deep-iteration",))
    assert offsets_in(said) == list(range(again.log_end_offset))


def test_compacted_segments_are_kafkas(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0", COMPACT)
    for number in range(200):
        log.append(batch(Sent(b"k%d" % (number % 30), None if number % 3 else b"v"), codec=Codec(number % 5)), NOW_MS)
    log.roll(NOW_MS)
    assert cleaner.compact(log, NOW_MS)
    log.close()
    said = dump(*files_of(log), options=("--print-data-log", "--deep-iteration"), gaps=True)
    again = PartitionLog.open(log.directory, COMPACT, NOW_MS)
    assert offsets_in(said) == [record.offset for record in contents(again)]
    assert "deleteHorizonMs: OptionalLong[" in said
    assert "isvalid: false" not in said


def test_the_offsets_decoder_reads_our_offsets_topic(tmp_path: Path) -> None:
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
    said = dump(*with_suffix(log.directory, LOG).values(), options=("--offsets-decoder",))
    assert '"group":"g","topic":"orders","partition":0' in said
    assert '"offset":42,"leaderEpoch":7,"metadata":"meta"' in said
    assert '"generation":3,"protocol":"range","leader":"c-1"' in said
    assert '"groupInstanceId":"instance"' in said
    assert '"topic":"orders","partitions":[0]' in said
    assert len(re.findall(r"payload: <DELETE>", said)) == 1
