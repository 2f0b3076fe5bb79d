"""Deduplication: a handler and its mark are one transaction, for every duplicate that a group can deliver."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from slackwater import Admin, SqliteDeduplicationStore, deduplicate
from slackwater.client.admin import ResetTo
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.group.errors import UsageError
from slackwater.testing.kafka import Kafka
from slackwater.wire.records.batch import TimestampType
from tests.client.consumer.test_runner import ThreadedRun
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, wait_for

GROUP = "billing"


def record(offset: int, *, timestamp: int = 1_000, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("orders", partition, offset, timestamp, TimestampType.CREATE_TIME, None, b"%d" % offset, [])


def store_value(record: ConsumerRecord, transaction: sqlite3.Connection) -> None:
    transaction.execute("INSERT INTO orders VALUES (?, ?)", (record.partition, record.value))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "orders.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (partition INTEGER, value BLOB)")
        connection.commit()
    return path


@pytest.fixture
def store(path: Path) -> SqliteDeduplicationStore:
    return SqliteDeduplicationStore(path)


def rows(path: Path, table: str = "orders") -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


def test_second_delivery_is_not_handled(store: SqliteDeduplicationStore, path: Path) -> None:
    handle = deduplicate(store_value, store)
    for offset in (0, 1, 0, 1, 2):
        handle(record(offset))
    assert rows(path) == [(0, b"0"), (0, b"1"), (0, b"2")]


def test_same_offset_of_other_partition_is_handled(store: SqliteDeduplicationStore, path: Path) -> None:
    handle = deduplicate(store_value, store)
    handle(record(0))
    handle(record(0, partition=1))
    assert rows(path) == [(0, b"0"), (1, b"0")]


def test_failed_handler_leaves_neither_result_nor_mark(store: SqliteDeduplicationStore, path: Path) -> None:
    failures = [ValueError("first attempt")]

    def fail_once(record: ConsumerRecord, transaction: sqlite3.Connection) -> None:
        store_value(record, transaction)
        if failures:
            raise failures.pop()

    handle = deduplicate(fail_once, store)
    with pytest.raises(ValueError, match="first attempt"):
        handle(record(0))
    assert rows(path) == rows(path, "handled_records") == []
    handle(record(0))
    assert rows(path) == [(0, b"0")]


def test_marks_survive_a_restart(path: Path) -> None:
    for _ in range(2):
        with SqliteDeduplicationStore(path) as store:
            deduplicate(store_value, store)(record(0))
    assert rows(path) == [(0, b"0")]


def test_record_of_recreated_topic_is_handled(store: SqliteDeduplicationStore, path: Path) -> None:
    handle = deduplicate(store_value, store)
    handle(record(0, timestamp=1_000))
    for _ in range(2):
        handle(record(0, timestamp=2_000))  # the same offset, another record
    assert rows(path) == [(0, b"0"), (0, b"0")]


def test_old_marks_are_removed(path: Path) -> None:
    with SqliteDeduplicationStore(path, keep_offsets=10) as store:
        handle = deduplicate(store_value, store)
        for offset in range(100):
            handle(record(offset))
    assert [row[2] for row in rows(path, "handled_records")] == list(range(90, 100))


def test_two_groups_use_two_tables(path: Path) -> None:
    for table in ("handled_by_billing", "handled_by_reports"):
        with SqliteDeduplicationStore(path, table=table) as store:
            deduplicate(store_value, store)(record(0))
    assert rows(path) == [(0, b"0"), (0, b"0")]


def test_handler_must_not_commit(store: SqliteDeduplicationStore) -> None:
    with pytest.raises(UsageError, match=r"Do not call commit\(\)"):
        deduplicate(lambda _record, transaction: transaction.commit(), store)(record(0))


def test_coroutine_handler_is_rejected_without_a_mark(store: SqliteDeduplicationStore, path: Path) -> None:
    async def handle(record: ConsumerRecord, transaction: sqlite3.Connection) -> None:
        raise AssertionError("never awaited")

    with pytest.raises(UsageError, match="pass a function"):
        deduplicate(handle, store)
    with pytest.raises(UsageError, match="pass a function"):
        deduplicate(lambda record, transaction: handle(record, transaction), store)(record(0))
    assert rows(path, "handled_records") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [({"table": "a; b"}, "not a table name"), ({"keep_offsets": 0}, "use 1 or more")],
)
def test_wrong_options(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SqliteDeduplicationStore(tmp_path / "orders.db", **options)  # type: ignore[arg-type]


def test_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(UsageError, match="cannot be used as a SQLite database"):
        SqliteDeduplicationStore(path)
    with pytest.raises(UsageError, match="cannot be used as a SQLite database"):
        SqliteDeduplicationStore(tmp_path / "missing" / "orders.db")


def test_duplicate_waits_for_the_running_handler(path: Path) -> None:
    # Two stores, as in two processes: the second delivery waits, and then finds the mark.
    started, finish = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow(record: ConsumerRecord, transaction: sqlite3.Connection) -> None:
        calls.append("slow")
        started.set()
        assert finish.wait(TIMEOUT_S)
        store_value(record, transaction)

    def quick(record: ConsumerRecord, transaction: sqlite3.Connection) -> None:
        calls.append("quick")

    with SqliteDeduplicationStore(path) as first, SqliteDeduplicationStore(path) as second:
        threads = [threading.Thread(target=deduplicate(slow, first), args=(record(0),))]
        threads[0].start()
        assert started.wait(TIMEOUT_S)
        threads.append(threading.Thread(target=deduplicate(quick, second), args=(record(0),)))
        threads[1].start()
        finish.set()
        for thread in threads:
            thread.join(TIMEOUT_S)
    assert calls == ["slow"]
    assert rows(path) == [(0, b"0")]


def test_run_handles_records_once_after_a_reset(kafka: Kafka, store: SqliteDeduplicationStore, path: Path) -> None:
    kafka.create_topic("orders", partitions=2)
    fill(kafka, "orders", numbers(50))
    deliveries: list[ConsumerRecord] = []
    handle = deduplicate(store_value, store)

    def deliver(record: ConsumerRecord) -> None:
        handle(record)
        deliveries.append(record)

    for expected in (50, 100):
        with consumer(kafka, GROUP) as client:
            client.subscribe(["orders"])
            running = ThreadedRun(client, deliver, workers=4, order="none")
            wait_for(lambda expected=expected: len(deliveries) == expected)  # type: ignore[misc]
            running.stop()
        with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
            admin.reset_offsets(GROUP, ResetTo.earliest())
    assert sorted(value for _, value in rows(path)) == sorted(numbers(50))  # type: ignore[type-var]


def test_fenced_member_and_new_owner_handle_once(kafka: Kafka, store: SqliteDeduplicationStore, path: Path) -> None:
    kafka.create_topic("orders")
    fill(kafka, "orders", numbers(1))
    started, finish = threading.Event(), threading.Event()
    delivered: list[str] = []

    def slow(record: ConsumerRecord, transaction: sqlite3.Connection) -> None:
        started.set()
        assert finish.wait(TIMEOUT_S)
        store_value(record, transaction)

    with consumer(kafka, GROUP, client_id="b") as first, consumer(kafka, GROUP, client_id="a") as second:
        first.subscribe(["orders"])
        slow_run = ThreadedRun(first, deduplicate(slow, store))
        assert started.wait(TIMEOUT_S)
        kafka.pause()  # no heartbeat of the first member arrives
        kafka.expire_member(GROUP, "b")
        second.subscribe(["orders"])
        handle = deduplicate(store_value, store)

        def deliver(record: ConsumerRecord) -> None:
            delivered.append("second")
            handle(record)

        kafka.resume()
        quick_run = ThreadedRun(second, deliver)
        wait_for(lambda: delivered, "the second delivery")
        finish.set()
        wait_for(lambda: kafka.committed(GROUP) == {("orders", 0): 1}, "the commit")
        slow_run.stop()
        quick_run.stop()
    assert rows(path) == [(0, b"0")]
