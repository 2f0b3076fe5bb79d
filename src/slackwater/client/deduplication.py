"""Handles every record once although it may be delivered twice: the handler and a mark are one transaction.

Invariants:
- A record is identified by topic, partition and offset. Its mark and what the handler writes are committed together, so
  after a crash either both exist or neither.
- A second delivery waits for a transaction that handles the record at the moment, in any process with the same store.
- The mark contains the record's timestamp. A topic that was deleted and created again has other timestamps at the same
  offsets, so its records are handled.
- Marks are removed when the partition is `keep_offsets` further. The store does not grow with the topic.
"""

import functools
import inspect
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.consumer.workers import UnawaitedHandlerError
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError

log = get_logger("slackwater.client.deduplication")
TransactionT = TypeVar("TransactionT")
KEEP_OFFSETS: Final = 100_000  # ten times the records that `Consumer.run` may handle again after a crash
LOCK_TIMEOUT_S: Final = 60.0
COROUTINE_REJECTED: Final = (
    "deduplicate() got a coroutine function; pass a function, because the transaction belongs to the thread of its "
    "worker."
)


class DeduplicationStore(Protocol[TransactionT]):
    """Stores the marks of handled records, together with the results of the handlers."""

    def transaction(self) -> AbstractContextManager[TransactionT]:
        """Open a transaction: committed at the end, rolled back if the block raises."""
        ...

    def mark(self, transaction: TransactionT, record: ConsumerRecord) -> bool:
        """Mark a record as handled; return False if it already is."""
        ...


def deduplicate(
    handler: Callable[[ConsumerRecord, TransactionT], object], store: DeduplicationStore[TransactionT]
) -> Callable[[ConsumerRecord], None]:
    """Return a handler for `Consumer.run` that calls `handler` once per record, with the store's transaction.

    The handler is a function: a transaction belongs to one thread, and coroutines would share it.
    """
    if inspect.iscoroutinefunction(handler):
        raise UsageError(COROUTINE_REJECTED)

    @functools.wraps(handler)
    def handle_once(record: ConsumerRecord) -> None:
        with store.transaction() as transaction:
            if store.mark(transaction, record):
                result = handler(record, transaction)
                if inspect.isawaitable(result):  # nothing was handled: keep no mark
                    if inspect.iscoroutine(result):
                        result.close()
                    raise UnawaitedHandlerError(COROUTINE_REJECTED)
            else:
                log.info("%s, offset %d, is already handled.", record.topic_partition, record.offset)

    return handle_once


class SqliteDeduplicationStore:
    """Marks in a SQLite database; the transaction of a handler is its `sqlite3.Connection`.

    SQLite has one writer at a time, so handlers wait for each other. `table` must be different for every consumer group
    that uses the database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        table: str = "handled_records",
        keep_offsets: int = KEEP_OFFSETS,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        if not table.isidentifier():
            raise UsageError(f"table = {table!r} is not a table name; use letters, digits and underscores.")
        if keep_offsets < 1:
            raise UsageError(f"keep_offsets = {keep_offsets}; use 1 or more.")
        self.path = Path(path)
        self._table = table
        self._keep_offsets = keep_offsets
        self._lock_timeout_s = lock_timeout_s
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        try:
            self._connection().execute(
                f"CREATE TABLE IF NOT EXISTS {table} (topic TEXT, partition INTEGER, offset INTEGER, "
                "timestamp INTEGER, PRIMARY KEY (topic, partition, offset)) WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            self.close()
            raise UsageError(f"{self.path} cannot be used as a SQLite database: {error}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of all threads; call it after `run` has returned."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on this thread's connection; wait for a transaction of another thread or process."""
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            if not connection.in_transaction:
                raise UsageError(
                    "The handler ended the transaction, so the record and its mark may differ after a crash. Do not "
                    "call commit() or rollback() in the handler."
                )
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    def mark(self, transaction: sqlite3.Connection, record: ConsumerRecord) -> bool:
        """Mark a record as handled; return False if it already is."""
        marked = transaction.execute(
            f"INSERT INTO {self._table} VALUES (?, ?, ?, ?) ON CONFLICT (topic, partition, offset) "
            "DO UPDATE SET timestamp = excluded.timestamp WHERE timestamp <> excluded.timestamp",
            (record.topic, record.partition, record.offset, record.timestamp),
        )
        transaction.execute(
            f"DELETE FROM {self._table} WHERE topic = ? AND partition = ? AND offset <= ?",
            (record.topic, record.partition, record.offset - self._keep_offsets),
        )
        return marked.rowcount == 1

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(
                self.path, timeout=self._lock_timeout_s, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a mark must survive what the committed offset survives
            self._local.connection = connection
            with self._lock:
                self._connections.append(connection)
        return connection
