"""All clients read all records of every other client through our broker, once and in order."""

import time
from collections.abc import Callable

import pytest

from tests.interop.clients import CLIENTS, Client, ClientError, Driver, Record, wait_until
from tests.interop.conftest import Start

Name = Callable[[str], str]
MOMENT = int(time.time() * 1000) - 3_600_000  # within the retention time
TOPIC_ALREADY_EXISTS = 36


def written(partition: int, count: int) -> list[Record]:
    """Records with keys, values, headers and timestamps; some without a key or a value."""
    return [
        {
            "partition": partition,
            "key": None if number % 6 == 1 else f"key-{number}",
            "value": None if number % 6 == 5 else f"value-{number}-" + "x" * 50,
            "headers": [["trace", f"t{number}"], ["empty", ""]] if number % 2 else [],
            "timestamp": MOMENT + number,
        }
        for number in range(count)
    ]


def expected(topic: str, records: list[Record]) -> list[Record]:
    """The records of one partition as they must be read."""
    return [{**record, "topic": topic, "offset": offset} for offset, record in enumerate(records)]


def test_all_clients_read_all_codecs(client: Client, running: Start, name: Name) -> None:
    writer = running(client)
    for codec in client.codecs:
        topic = writer.create_topic(name(f"codec-{codec}"), 2)
        records = {partition: written(partition, 40) for partition in (0, 1)}
        positions = writer.produce(topic, [*records[0], *records[1]], codec)
        assert positions == [(partition, offset) for partition in (0, 1) for offset in range(40)]
        for reader in (other for other in CLIENTS if codec in other.codecs):
            received = running(reader).read(topic, {0: 0, 1: 0}, 80)
            for partition in (0, 1):
                in_partition = [record for record in received if record["partition"] == partition]
                assert in_partition == expected(topic, records[partition]), f"{client} -> {reader}, {codec}"


def test_read_from_any_offset_and_find_offsets_by_time(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("anywhere"), 2)
    records = written(0, 30)
    driver.produce(topic, records[:20])
    driver.produce(topic, records[20:])
    assert [record["offset"] for record in driver.read(topic, {0: 17}, 13)] == list(range(17, 30))
    assert driver.offsets(topic, 0, 1) == {0: (0, 30), 1: (0, 0)}
    assert driver.call("offset_at", topic=topic, partition=0, timestamp=MOMENT + 12) == 12
    assert driver.call("offset_at", topic=topic, partition=0, timestamp=MOMENT - 1) == 0


def test_records_of_a_key_stay_in_order(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("keys"), 4)
    records = [{"key": f"k{number % 10}", "value": f"{number}"} for number in range(200)]
    positions = driver.produce(topic, records)
    keys_and_partitions = {
        (record["key"], partition) for record, (partition, _) in zip(records, positions, strict=True)
    }
    assert len(keys_and_partitions) == 10
    assert len({partition for _, partition in keys_and_partitions}) > 1
    received = driver.read(topic, dict.fromkeys(range(4), 0), 200)
    for key in {record["key"] for record in records}:
        values = [int(record["value"]) for record in received if record["key"] == key]
        assert values == [int(record["value"]) for record in records if record["key"] == key]


def test_topic_is_created_by_a_write(driver: Driver, name: Name) -> None:
    topic = name("created-by-write")
    assert driver.produce(topic, [{"value": "first"}]) == [(0, 0)]
    assert [record["value"] for record in driver.read(topic, {0: 0}, 1)] == ["first"]
    wait_until(lambda: topic in driver.call("topics"), lambda: driver.call("topics"))
    with pytest.raises(ClientError) as error:
        driver.create_topic(topic, 3)
    assert error.value.code == TOPIC_ALREADY_EXISTS
