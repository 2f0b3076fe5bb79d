"""Throughput of a partition log on one core: appends of 1 kB and 100 kB, and reads of 1 MB.

    python benchmarks/log.py [megabytes]

The batches contain records of 100 bytes. An append validates a batch, assigns offsets and writes it to the operating
system. Appends are measured one at a time and 64 at a time, reads from the beginning to the end, as a consumer reads.
The peer is the same bytes through the same system calls without a log, which is the upper bound.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection
from slackwater.wire.records.batch import HEADER, HEADER_BYTES, RecordBatch
from slackwater.wire.records.varints import encode_varint

NOW_MS = 1_700_000_000_000
RECORD_BYTES = 100


def batch(size: int) -> bytearray:
    """Build a batch of about `size` bytes."""
    count = (size - HEADER_BYTES) // RECORD_BYTES
    body = bytearray()
    for number in range(count):
        head = b"\0" + encode_varint(0) + encode_varint(number) + encode_varint(-1)
        value = b"x" * (RECORD_BYTES - len(head) - 5)
        record = head + encode_varint(len(value)) + value + encode_varint(0)
        body += encode_varint(len(record)) + record
    data = bytearray(HEADER_BYTES) + body
    HEADER.pack_into(data, 0, 0, len(data) - 12, -1, 2, 0, 0, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count)
    data[17:21] = RecordBatch(data).computed_crc().to_bytes(4, "big")
    return data


def appends(path: Path, size: int, megabytes: int, batch_count: int) -> tuple[float, float]:
    """Return appends per second, and plain writes per second of the same bytes."""
    number = megabytes * 1_000_000 // size
    buffers = [batch(size) for _ in range(batch_count)]
    log = PartitionLog.open(path / f"log-{size}-{batch_count}", LogConfig(), NOW_MS)
    began = time.perf_counter()
    for _ in range(number // batch_count):
        for result in log.append_many(buffers, NOW_MS):
            assert isinstance(result, AppendInfo), result
    ours = number // batch_count * batch_count / (time.perf_counter() - began)
    log.close_unclean()
    fd = os.open(path / "plain", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    began = time.perf_counter()
    for _ in range(number // batch_count):
        os.writev(fd, buffers)
    plain = number // batch_count * batch_count / (time.perf_counter() - began)
    os.close(fd)
    return ours, plain


def reads(path: Path, size: int, max_bytes: int) -> tuple[float, float]:
    """Return megabytes per second read from the log, and directly from its file."""
    log = PartitionLog.open(path / f"log-{size}-1", LogConfig(), NOW_MS)
    size = len(batch(size))
    began = time.perf_counter()
    offset = total = 0
    while offset < log.high_watermark:
        data = log.read(offset, max_bytes)
        assert not isinstance(data, Rejection)
        total += len(data)
        offset = total // size * RecordBatch(data).record_count
    ours = total / 1e6 / (time.perf_counter() - began)
    began = time.perf_counter()
    for position in range(0, total, max_bytes):
        os.pread(log.active.fd, max_bytes, position)
    plain = total / 1e6 / (time.perf_counter() - began)
    log.close_unclean()
    return ours, plain


def main() -> None:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        for size in (1_000, 100_000):
            for batch_count in (1, 64):
                ours, plain = appends(path, size, megabytes, batch_count)
                print(
                    f"append {size:7,} B, {batch_count:2} together: {ours:9,.0f}/s, {ours * size / 1e6:7,.0f} MB/s; "
                    f"plain writev {plain:9,.0f}/s ({ours / plain:.2f})"
                )
        for size in (1_000, 100_000):
            ours, plain = reads(path, size, 1 << 20)
            print(
                f"read   {size:7,} B, 1 MB per read: {ours:7,.0f} MB/s; "
                f"plain pread {plain:7,.0f} MB/s ({ours / plain:.2f})"
            )


if __name__ == "__main__":
    main()
