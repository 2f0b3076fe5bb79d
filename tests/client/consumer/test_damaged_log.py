"""A consumer of a partition whose log is damaged at the broker: the error reaches the program, as in Java."""

import struct
import time
from pathlib import Path

import pytest

from slackwater import Broker
from slackwater.group.errors import BrokerError, Error
from slackwater.group.topic_partition import TopicPartition
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, read

DAMAGED = TopicPartition("t", 0)
HEALTHY = TopicPartition("t", 1)
BATCH_LENGTH_AT = 8


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """A stopped broker. In DAMAGED, records 0 to 2 are readable; the batch of record 3 begins a closed segment."""
    broker = Broker(data=tmp_path, settings={"log.segment.bytes": 1000, "log.cleaner.enable": "false"})
    with broker:
        broker.create_topic("t", 2)
        fill(broker, "t", numbers(2), partition=1)
        for number in range(9):
            fill(broker, "t", [b"%d" % number + b"." * 250], partition=0)
    segment = sorted((tmp_path / "t-0").glob("*.log"))[1]
    assert segment.stem.endswith("3")
    data = bytearray(segment.read_bytes())
    struct.pack_into(">i", data, BATCH_LENGTH_AT, -12)
    segment.write_bytes(data)
    return broker


def test_damaged_batch_fails_polls_until_seek(broker: Broker) -> None:
    with broker, consumer(broker) as client:
        client.assign([DAMAGED, HEALTHY])
        values: list[bytes | None] = []
        errors: list[BrokerError] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(errors) < 3 or len(values) < 5:
            assert time.monotonic() < deadline, (values, errors)
            try:
                values += [record.value for record in client.poll(0.1)]
            except BrokerError as error:
                errors.append(error)
        assert sorted(value.rstrip(b".") for value in values if value) == [b"0", b"0", b"1", b"1", b"2"]
        assert {error.error for error in errors} == {Error.CORRUPT_MESSAGE}
        assert all("Fetching t-0 at offset 3 failed: CORRUPT_MESSAGE." in str(error) for error in errors)
        assert client.position(DAMAGED) == 3
        client.pause([HEALTHY])
        client.seek(DAMAGED, 6)
        assert [record.offset for record in read(client, 3)] == [6, 7, 8]
