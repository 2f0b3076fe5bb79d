"""Transactions: our broker and Kafka 4.3.1 have transaction version 2 (KIP-890), Kafka 3.9.2 has version 1."""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count

import confluent_kafka
import pytest
from scripts.apache_kafka import OLD_KAFKA

from slackwater import (
    AbortableTransactionError,
    BrokerError,
    Consumer,
    ConsumerGroupMetadata,
    Error,
    FatalTransactionError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionAbortedError,
    UsageError,
)
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import TIMEOUT_S, consumer, fill, numbers, poll_until, read, wait_for
from tests.client.producer.copier import CopierProcess, committed_count, committed_values
from tests.test_docstrings import NEEDS_TRANSACTIONS, run_example

pytestmark = [pytest.mark.old_kafka]

TIMED_OUT_MS = 4_000  # long enough for the next transaction of the same producer on a busy machine


@contextmanager
def producer(cluster: ClusterUnderTest | Kafka, transactional_id: str, **settings: object) -> Iterator[Producer]:
    """A transactional producer with short timeouts, initialized; underscores in setting names stand for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id, "linger.ms": 0}
    with Producer(config | {"retry.backoff.ms": 5} | named) as client:
        client.init_transactions()
        yield client


def test_only_committed_records_are_visible(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with producer(cluster, topic) as client:
        with client.transaction():
            written = [client.send(topic, value) for value in numbers(3)]
        assert [future.result(0).offset for future in written] == [0, 1, 2]
        with pytest.raises(UsageError, match="not bytes"):
            run_transaction_that_raises(client, topic)
        with client.transaction():
            client.send(topic, b"3")
        client.begin_transaction()
        client.send(topic, b"open").result(TIMEOUT_S)
        assert committed_values(cluster, topic, is_open=True) == {0: numbers(4)}
        assert values_of_librdkafka(cluster, topic, 4) == numbers(4)
        client.commit_transaction()
    assert committed_values(cluster, topic) == {0: [*numbers(4), b"open"]}


def run_transaction_that_raises(client: Producer, topic: str) -> None:
    with client.transaction():
        client.send(topic, b"aborted").result(TIMEOUT_S)
        raise UsageError("not bytes")


def values_of_librdkafka(cluster: ClusterUnderTest, topic: str, count: int) -> list[bytes | None]:
    """The first records that librdkafka reads; its default is read_committed."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic})
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    messages = [message for message in reader.consume(count, TIMEOUT_S) if message.error() is None]
    reader.close()
    return [message.value() for message in messages]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_transactions(cluster: ClusterUnderTest, seed: int) -> None:
    """Transactions of any size, committed or aborted at any point: the committed ones are visible, in order."""
    choose = random.Random(seed)
    topic, partitions = cluster.topic(3), 3
    expected: dict[int, list[bytes | None]] = {number: [] for number in range(partitions)}
    values = count()
    with producer(cluster, topic, batch_size=200) as client:
        for _ in range(30):
            client.begin_transaction()
            sent: list[tuple[int, bytes]] = []
            for _ in range(choose.choice([0, 1, 3, 50])):
                partition, value = choose.randrange(partitions), b"%d" % next(values)
                client.send(topic, value, partition=partition)
                sent.append((partition, value))
            if choose.random() < 0.3:
                client.flush()
            if choose.random() < 0.4:
                client.abort_transaction()
                continue
            client.commit_transaction()
            for partition, value in sent:
                expected[partition].append(value)
    assert committed_values(cluster, topic, partitions) == expected


def test_unsent_records_of_aborted_transaction(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with producer(cluster, topic, linger_ms=10_000) as client:
        client.begin_transaction()
        unsent = client.send(topic, b"unsent")
        client.abort_transaction()
        assert isinstance(unsent.exception(0), TransactionAbortedError)
        with client.transaction():
            client.send(topic, b"sent")
    assert committed_values(cluster, topic) == {0: [b"sent"]}


def test_rejected_record_aborts_only_its_transaction(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic(max_message_bytes=2_000)
    with producer(cluster, topic) as client:
        for number in range(3):
            client.begin_transaction()
            client.send(topic, b"aborted").result(TIMEOUT_S)
            too_large = client.send(topic, b"x" * 3_000)
            with pytest.raises(AbortableTransactionError, match=r"MESSAGE_TOO_LARGE|max\.message\.bytes"):
                client.commit_transaction()
            assert isinstance(too_large.exception(0), BrokerError)
            client.abort_transaction()
            with client.transaction():
                client.send(topic, b"%d" % number)
    assert committed_values(cluster, topic) == {0: numbers(3)}


def test_newer_producer_fences_the_older_one(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with producer(cluster, topic) as zombie:
        zombie.begin_transaction()
        zombie.send(topic, b"zombie").result(TIMEOUT_S)
        with producer(cluster, topic) as newer:
            lost = zombie.send(topic, b"too late")
            with pytest.raises((AbortableTransactionError, ProducerFencedError)):
                zombie.commit_transaction()
            assert lost.exception(0) is not None
            for call in (zombie.abort_transaction, zombie.begin_transaction, zombie.commit_transaction):
                with pytest.raises(ProducerFencedError, match=f"A newer producer uses transactional.id '{topic}'"):
                    call()
            with newer.transaction():
                newer.send(topic, b"newer")
    assert committed_values(cluster, topic) == {0: [b"newer"]}


def test_transaction_timeout_aborts(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with producer(cluster, topic, transaction_timeout_ms=TIMED_OUT_MS) as slow:
        slow.begin_transaction()
        slow.send(topic, b"slow").result(TIMEOUT_S)
        with consumer(cluster, isolation_level="read_committed") as client:
            partitions = cluster.partitions(topic, 0)
            client.assign(partitions)
            # The abort marker has offset 1.
            wait_for(lambda: client.end_offsets(partitions) == {partitions[0]: 2}, "the abort by the coordinator")
        error = AbortableTransactionError if cluster.version != OLD_KAFKA else ProducerFencedError
        with pytest.raises(error, match=f"took longer than transaction.timeout.ms = {TIMED_OUT_MS}"):
            slow.commit_transaction()
        if cluster.version != OLD_KAFKA:  # with transaction version 2 the producer may continue
            slow.abort_transaction()
            with slow.transaction():
                slow.send(topic, b"next")
    assert committed_values(cluster, topic) == {0: [b"next"] if cluster.version != OLD_KAFKA else []}


def test_too_long_timeout_is_rejected(cluster: ClusterUnderTest) -> None:
    with (
        pytest.raises(FatalTransactionError, match=r"above the broker's transaction.max.timeout.ms") as failure,
        producer(cluster, "x", transaction_timeout_ms=2**31 - 1),
    ):
        pass
    assert failure.value.error is Error.INVALID_TRANSACTION_TIMEOUT


def test_close_aborts_the_open_transaction(cluster: ClusterUnderTest) -> None:
    topic = cluster.topic()
    with producer(cluster, topic) as client:
        client.begin_transaction()
        client.send(topic, b"open").result(TIMEOUT_S)
    with consumer(cluster, isolation_level="read_committed") as reader:
        partitions = cluster.partitions(topic, 0)
        wait_for(lambda: reader.end_offsets(partitions) == {partitions[0]: 2}, "the abort")
    assert committed_values(cluster, topic) == {0: []}


# --- offsets ----------------------------------------------------------------------------------------------------------


def test_offsets_are_committed_with_the_transaction(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    (partition,) = cluster.partitions(topic, 0)
    fill(cluster, topic, numbers(4))
    with producer(cluster, group) as client, consumer(cluster, group, enable_auto_commit=False) as reader:
        reader.subscribe([topic])
        read(reader, 4)
        for position, end in ((1, client.abort_transaction), (2, client.commit_transaction)):
            client.begin_transaction()
            client.send_offsets_to_transaction({partition: position}, reader.group_metadata())
            end()
        assert committed(reader, partition) == OffsetAndMetadata(2)
        with client.transaction():
            client.send_offsets_to_transaction(
                {partition: OffsetAndMetadata(3, metadata="batch 7")}, reader.group_metadata()
            )
        assert committed(reader, partition) == OffsetAndMetadata(3, metadata="batch 7")
    with producer(cluster, group) as client:
        with client.transaction():  # a group without members
            client.send_offsets_to_transaction({partition: 4}, ConsumerGroupMetadata(group))
        with consumer(cluster, group) as reader:
            assert committed(reader, partition) == OffsetAndMetadata(4)


def committed(reader: Consumer, partition: TopicPartition) -> OffsetAndMetadata | None:
    """The committed offset, once no transaction has a pending one."""
    return reader.committed([partition], timeout=TIMEOUT_S)[partition]


def test_removed_member_cannot_commit_offsets(cluster: ClusterUnderTest) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    (partition,) = cluster.partitions(topic, 0)
    fill(cluster, topic, numbers(2))
    with producer(cluster, group) as client, consumer(cluster, group, enable_auto_commit=False) as reader:
        reader.subscribe([topic])
        read(reader, 2)
        before = reader.group_metadata()
        cluster.evict(group, reader)
        member = reader.engine.require_group("the test").member
        for has_learned in (False, True):
            if has_learned:  # a heartbeat was rejected
                wait_for(lambda: member.generation_id == -1, "the loss")
            client.begin_transaction()
            client.send(topic, b"copy")
            with pytest.raises(AbortableTransactionError, match="no longer the member of the group") as failure:
                client.send_offsets_to_transaction({partition: 2}, reader.group_metadata())
            assert failure.value.error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION)
            client.abort_transaction()
        assert reader.group_metadata() == before
        poll_until(reader, lambda: reader.group_metadata().generation_id > before.generation_id)
        with client.transaction():
            client.send_offsets_to_transaction({partition: 1}, reader.group_metadata())
        assert committed(reader, partition) == OffsetAndMetadata(1)


# --- processes --------------------------------------------------------------------------------------------------------


def test_copy_is_exactly_once_although_a_copier_is_killed(cluster: ClusterUnderTest) -> None:
    partitions, per_partition = 4, 100
    source, target, group = cluster.topic(partitions), cluster.topic(partitions), cluster.name("g")
    for number in range(partitions):
        fill(cluster, source, numbers(per_partition), partition=number)
    arguments = (cluster.bootstrap_servers, group, source, target)
    with ExitStack() as stack:
        killed = CopierProcess(stack, *arguments, f"{group}-0", "3")
        while killed.wait_for_line() != "hanging":
            pass
        killed.kill()  # its records and offsets are written, and its transaction is open
        for name in (f"{group}-0", f"{group}-1"):
            CopierProcess(stack, *arguments, name)
        expected = {number: numbers(per_partition) for number in range(partitions)}
        total = partitions * per_partition
        wait_for(lambda: sum(position.offset for position in cluster.admin.committed(group).values()) == total)
        wait_for(lambda: committed_count(cluster, target, partitions) >= total, "the end of the last transactions")
        assert committed_values(cluster, target, partitions) == expected


# --- command line -----------------------------------------------------------------------------------------------------


def slackwater(cluster: ClusterUnderTest, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "slackwater", *arguments, "--bootstrap", cluster.bootstrap_servers]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)


def test_command_line(cluster: ClusterUnderTest) -> None:
    """`produce` writes one transaction, and `consume` leaves out what is not committed."""
    topic = cluster.topic(max_message_bytes=2_000)
    in_transaction = ("--set", f"transactional.id={topic}")
    written = slackwater(cluster, "produce", topic, *in_transaction, stdin="a\nb\n")
    assert (written.returncode, written.stdout) == (0, f"Wrote 2 records to {topic}.\n"), written.stderr
    failed = slackwater(cluster, "produce", topic, *in_transaction, stdin="c\n" + "x" * 3_000 + "\n")
    assert failed.returncode == 1
    assert "MESSAGE_TOO_LARGE" in failed.stderr or "max.message.bytes is 2000" in failed.stderr
    assert "Wrote" not in failed.stdout
    with producer(cluster, topic) as client:
        client.begin_transaction()
        client.send(topic, b"open").result(TIMEOUT_S)
        reading = ("consume", topic, "--from-beginning", "--to-end", "--set")
        committed = slackwater(cluster, *reading, "isolation.level=read_committed")
        assert (committed.returncode, committed.stdout) == (0, "a\nb\n"), committed.stderr
        everything = slackwater(cluster, *reading, "isolation.level=read_uncommitted")
        assert everything.stdout.split()[-1] == "open"


# --- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NEEDS_TRANSACTIONS)
def test_docstring_example_runs(cluster: ClusterUnderTest, name: str) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    run_example(name, cluster.bootstrap_servers, topic=topic, group=group)


WRONG_SETTINGS: Sequence[dict[str, object]] = (
    {"enable.idempotence": False},
    {"acks": "1"},
    {"max.in.flight.requests.per.connection": 6},
)


@pytest.mark.parametrize("settings", WRONG_SETTINGS, ids=str)
def test_settings_without_idempotence_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"^transactional.id needs"):
        Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x"} | settings)


def test_calls_without_transactional_id_are_refused() -> None:
    with Producer({"bootstrap.servers": "127.0.0.1:1"}) as client:
        for call in (client.init_transactions, client.begin_transaction, client.commit_transaction):
            with pytest.raises(UsageError, match=r"needs a producer with transactional\.id"):
                call()


def test_wrong_arguments_are_refused() -> None:
    with Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x"}) as client:
        with pytest.raises(UsageError, match=r"init_transactions\(\) first"):
            client.begin_transaction()
        with pytest.raises(UsageError, match=r"pass consumer.group_metadata\(\)"):
            client.send_offsets_to_transaction({}, "g")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="has no group"):
            client.send_offsets_to_transaction({}, ConsumerGroupMetadata(""))
        with pytest.raises(UsageError, match="pass an int"):
            client.send_offsets_to_transaction({TopicPartition("t", 0): "1"}, ConsumerGroupMetadata("g"))  # type: ignore[dict-item]
