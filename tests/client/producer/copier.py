"""Copies a topic exactly once, as a member of a group.

    copier BOOTSTRAP GROUP SOURCE TARGET TRANSACTIONAL_ID [HANG [RECORDS]]

Prints the number of copied records after each transaction. In its transaction number HANG it stops before the commit,
prints "hanging", and waits to be killed. RECORDS is the maximum of records in a transaction. SIGTERM ends it cleanly.
"""

import signal
import subprocess
import sys
from contextlib import ExitStack

from slackwater import AbortableTransactionError, Consumer, Producer, TopicPartition
from tests.client.helpers import QUICK, Cluster, consumer, poll_until, wait_for

RECORDS_PER_TRANSACTION = 20
SESSION_MS = 3_000


def main(
    bootstrap: str,
    group: str,
    source: str,
    target: str,
    transactional_id: str,
    hang: str = "0",
    records_per_transaction: str = str(RECORDS_PER_TRANSACTION),
) -> None:
    """Copy until the process is killed or stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    servers: dict[str, object] = {"bootstrap.servers": bootstrap}
    limits = {"max.poll.records": int(records_per_transaction), "session.timeout.ms": SESSION_MS}
    reading = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    with (
        Consumer(QUICK | servers | limits | reading) as reader,
        Producer(servers | {"transactional.id": transactional_id, "linger.ms": 0}) as producer,
    ):
        producer.init_transactions()
        reader.subscribe([source])
        transactions = copied = 0
        while True:
            if not (records := reader.poll(0.2)):
                continue
            transactions += 1
            next_offsets = {record.topic_partition: record.offset + 1 for record in records}
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(target, record.value, partition=record.partition)
                    producer.send_offsets_to_transaction(next_offsets, reader.group_metadata())
                    if transactions == int(hang):
                        producer.flush()
                        print("hanging", flush=True)
                        signal.pause()
            except AbortableTransactionError:
                rewind(reader)
                continue
            copied += len(records)
            print(copied, flush=True)


def rewind(reader: Consumer) -> None:
    """Read the records of an aborted transaction again."""
    for partition, committed in reader.committed(reader.assignment).items():
        if committed is None:
            reader.seek_to_beginning([partition])
        else:
            reader.seek(partition, committed.offset)


class CopierProcess:
    """A process that copies records in transactions."""

    def __init__(self, stack: ExitStack, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.client.producer.copier", *arguments]
        self._process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(self._process.kill)

    def wait_for_line(self) -> str:
        """Return the next line of its output."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the copier ended with code {self._process.wait()}"
        return line.strip()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop the process with SIGTERM, and wait until it has left the group."""
        self._process.terminate()
        assert self._process.wait() == 0


def committed_values(
    cluster: Cluster, topic: str, partitions: int = 1, *, is_open: bool = False
) -> dict[int, list[bytes | None]]:
    """What a read_committed reader sees of each partition, up to the last stable offset.

    The coordinator writes the markers of a transaction after its response to EndTxn. Unless a transaction `is_open`,
    this waits for them.
    """
    values: dict[int, list[bytes | None]] = {number: [] for number in range(partitions)}
    with consumer(cluster, isolation_level="read_committed") as client, consumer(cluster) as uncommitted:
        client.assign([TopicPartition(topic, number) for number in values])
        if not is_open:
            wait_for(
                lambda: client.end_offsets(client.assignment) == uncommitted.end_offsets(client.assignment),
                "the markers of the last transaction",
            )
        ends = client.end_offsets(client.assignment)
        records = poll_until(client, lambda: all(client.position(partition) >= end for partition, end in ends.items()))
    for record in records:
        values[record.partition].append(record.value)
    return values


def committed_count(cluster: Cluster, topic: str, partitions: int) -> int:
    """The number of committed records."""
    return sum(map(len, committed_values(cluster, topic, partitions).values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
