"""Tests that acknowledged batches survive kill -9."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo

from .batches import NOW_MS, Sent, batch, contents

CONFIG = LogConfig(segment_bytes=50_000, retention_bytes=400_000, file_delete_delay_ms=0)
CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.broker.storage.log.batches import NOW_MS, Sent, batch
from tests.broker.storage.log.test_kill import CONFIG
from slackwater.broker.storage.log.partition_log import PartitionLog
log = PartitionLog.open(Path(sys.argv[1]), CONFIG, NOW_MS)
sequence = int(sys.argv[2])
while True:
    buffers = []
    for _ in range(sequence % 5 + 1):
        value = b"%d" % sequence * (sequence % 200 + 1)
        buffers.append(batch(Sent(b"k", value), producer_id=1, epoch=0, sequence=sequence))
        sequence += 1
    for result in log.append_many(buffers, NOW_MS):
        print(result.base_offset, flush=True)
    if sequence % 1000 < 5:
        log.delete_expired_segments(NOW_MS)
"""


@pytest.mark.parametrize("seed", range(4))
def test_acknowledged_batches_survive_kill(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = str(Path(__file__).parents[4])
    acknowledged = -1
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(path=[root]), str(tmp_path), str(acknowledged + 1)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        for _ in range(rng.randint(1, 6000)):
            acknowledged = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        # Numbers in the pipe were acknowledged too, except one without a line end.
        for line in child.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                acknowledged = int(line)
        child.wait()
        child.stdout.close()
        log = PartitionLog.open(tmp_path, CONFIG, NOW_MS)
        assert log.log_end_offset > acknowledged
        records = contents(log, max_bytes=1 << 20)
        assert [record.offset for record in records] == list(range(log.log_start_offset, log.log_end_offset))
        assert all(record.value == b"%d" % record.offset * (record.offset % 200 + 1) for record in records)
        # The producer sends its last batch again: it is a duplicate.
        last = log.log_end_offset - 1
        again = log.append(
            batch(Sent(b"k", b"%d" % last * (last % 200 + 1)), producer_id=1, epoch=0, sequence=last), NOW_MS
        )
        assert isinstance(again, AppendInfo)
        assert (again.base_offset, again.duplicate) == (last, True)
        acknowledged = last
        log.close_unclean()
