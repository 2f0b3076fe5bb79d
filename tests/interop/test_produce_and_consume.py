"""What stock clients write through our broker is what they, and all others, read: whole, once, and in order."""

import time
from collections.abc import Callable

import pytest

from tests.interop.clients import CLIENTS, Client, Driver, Record, Refused, wait_until
from tests.interop.conftest import Start

Name = Callable[[str], str]
MOMENT = int(time.time() * 1000) - 3_600_000  # not so old that retention would take it
TOPIC_ALREADY_EXISTS = 36


def written(partition: int, count: int) -> list[Record]:
    """Records with all that a record can have: some without a key, some without a value."""
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
    """How the records of one partition must come back."""
    return [{**record, "topic": topic, "offset": offset} for offset, record in enumerate(records)]


def test_every_client_reads_what_a_client_wrote_with_every_codec(client: Client, running: Start, name: Name) -> None:
    writer = running(client)
    for codec in client.codecs:
        topic = writer.create_topic(name(f"codec-{codec}"), 2)
        records = {partition: written(partition, 40) for partition in (0, 1)}
        told = writer.produce(topic, [*records[0], *records[1]], codec)
        assert told == [(partition, offset) for partition in (0, 1) for offset in range(40)]
        for reader in (one for one in CLIENTS if codec in one.codecs):
            came = running(reader).read(topic, {0: 0, 1: 0}, 80)
            for partition in (0, 1):
                assert [one for one in came if one["partition"] == partition] == expected(topic, records[partition]), (
                    f"{client} -> {reader}, {codec}"
                )


def test_reading_can_start_anywhere_and_offsets_are_found_by_time(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("anywhere"), 2)
    records = written(0, 30)
    driver.produce(topic, records[:20])
    driver.produce(topic, records[20:])
    assert [one["offset"] for one in driver.read(topic, {0: 17}, 13)] == list(range(17, 30))
    assert driver.offsets(topic, 0, 1) == {0: (0, 30), 1: (0, 0)}
    assert driver.ask("offset_at", topic=topic, partition=0, timestamp=MOMENT + 12) == 12
    assert driver.ask("offset_at", topic=topic, partition=0, timestamp=MOMENT - 1) == 0


def test_records_with_one_key_go_to_one_partition_and_stay_in_order(driver: Driver, name: Name) -> None:
    topic = driver.create_topic(name("keys"), 4)
    records = [{"key": f"k{number % 10}", "value": f"{number}"} for number in range(200)]
    told = driver.produce(topic, records)
    places = {(record["key"], partition) for record, (partition, _) in zip(records, told, strict=True)}
    assert len(places) == 10
    assert len({partition for _, partition in places}) > 1
    came = driver.read(topic, dict.fromkeys(range(4), 0), 200)
    for key in {record["key"] for record in records}:
        ours = [int(one["value"]) for one in came if one["key"] == key]
        assert ours == [int(record["value"]) for record in records if record["key"] == key]


def test_a_topic_is_made_when_somebody_writes_to_it(driver: Driver, name: Name) -> None:
    topic = name("made")
    assert driver.produce(topic, [{"value": "first"}]) == [(0, 0)]
    assert [one["value"] for one in driver.read(topic, {0: 0}, 1)] == ["first"]
    wait_until(lambda: topic in driver.ask("topics"), lambda: driver.ask("topics"))
    with pytest.raises(Refused) as refused:
        driver.create_topic(topic, 3)
    assert refused.value.code == TOPIC_ALREADY_EXISTS
