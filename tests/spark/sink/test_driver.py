"""delivery=exactly_once without Spark: drivers that end between any two steps."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.client.group_metadata import ConsumerGroupMetadata
from slackwater.client.network.transactions import OpenTransaction, abort_open_transaction, list_open_transactions
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.clients.connections import get_connection
from slackwater.spark.sink import driver
from slackwater.spark.sink.columns import SinkColumns
from slackwater.spark.sink.decisions import Decision, find_topic, read_decisions
from slackwater.spark.sink.driver import (
    LostBatchError,
    NotCommittedError,
    PreparedBatch,
    abort_batch,
    check_repeated,
    commit_batch,
    prepare_batch,
)
from slackwater.spark.sink.exactly_once import SparkBatch, write_task
from slackwater.spark.sink.input_offsets import GroupInputs
from slackwater.spark.sink.options import SinkOptions
from tests.client.clusters import ClusterUnderTest
from tests.spark.sink.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

QUERY = "8a7d1f6e-0000-4000-8000-000000000001"


class Stopped(Exception):
    """The driver ends here."""


class Query:
    """A query that writes batches of rows with exactly_once."""

    def __init__(self, servers: str) -> None:
        self.topics = Topics(servers)
        self.target = self.topics.create("out", 2)
        self.group = f"group-{self.topics.suffix}"
        self.source = self.topics.create("in", 1)
        self.prefix = f"query.{self.topics.suffix}"
        settings = {"kafka.bootstrap.servers": servers, "topic": self.target, "delivery": "exactly_once"}
        self.options = SinkOptions.parse(settings | {"transactionalIdPrefix": self.prefix})

    def write(self, prepared: PreparedBatch, number: int, run: str = "a" * 8, tasks: int = 3) -> Decision:
        """Run the tasks of a batch; each writes a row."""
        transactions = []
        for task in range(tasks):
            rows = pa.RecordBatch.from_arrays([pa.array([f"{number}-{task}"])], ["value"])
            columns, batch = SinkColumns(value=0), SparkBatch(QUERY, run, number)
            result = write_task(iter([rows]), self.options, columns, prepared, batch, f"{task}-0-0")
            if result.transaction is not None:
                transactions.append(result.transaction)
        return Decision(QUERY, number, tuple(transactions))

    def commit(self, prepared: PreparedBatch, decision: Decision, *, generation: int = -1) -> None:
        """Commit a batch; the group has no members unless the generation says so."""

        def inputs() -> Sequence[GroupInputs]:
            member = ConsumerGroupMetadata(self.group, generation, "gone" if generation >= 0 else "")
            offset = OffsetAndMetadata(10 * (decision.batch_id + 1))
            return [GroupInputs(member, {TopicPartition(self.source, 0): offset})]

        names = [transaction.transactional_id for transaction in decision.transactions]
        run = names[0].removeprefix(f"{self.prefix}-")[:8] if names else ""
        commit_batch(self.options, prepared.driver_producer, run, decision, inputs)

    def run(self, number: int) -> None:
        """Run a whole batch."""
        prepared = prepare_batch(self.options)
        self.commit(prepared, self.write(prepared, number))

    def visible(self) -> list[str]:
        """The rows that a read_committed consumer sees."""
        return sorted((row[3] or b"").decode() for row in self.topics.read(self.target))

    def wait_until_visible(self, expected: list[str]) -> None:
        """Wait for the rows: the coordinator confirms a commit before its markers are in the partitions."""
        wait_until(lambda: len(self.visible()) >= len(expected), self.visible, DEADLINE_S)
        assert self.visible() == expected

    def committed(self, cluster: ClusterUnderTest) -> int | None:
        """The group's committed offset."""
        committed = cluster.admin.committed(self.group).get(TopicPartition(self.source, 0))
        return committed.offset if committed is not None else None

    def open_transactions(self) -> list[str]:
        """The open transactions of this query."""
        connection = get_connection(self.options.kafka)
        return connection.network.run(list_open_transactions(connection.cluster, f"query\\.{self.topics.suffix}.*"))


@pytest.fixture
def query(cluster: ClusterUnderTest) -> Query:
    return Query(cluster.bootstrap_servers)


def rows(number: int) -> list[str]:
    return [f"{number}-{task}" for task in range(3)]


def test_batches_become_visible_with_their_offsets(query: Query, cluster: ClusterUnderTest) -> None:
    for number in range(3):
        query.run(number)
        query.wait_until_visible([row for past in range(number + 1) for row in rows(past)])
        assert query.committed(cluster) == 10 * (number + 1)
    assert not query.open_transactions()
    connection = get_connection(query.options.kafka)
    topic = connection.network.run(find_topic(connection.cluster, query.options.decision_topic))
    assert read_decisions(connection, topic, query.prefix).last == Decision(QUERY, 2, is_ended=True)
    assert read_decisions(connection, topic, query.prefix + "x") == (None, [])


def test_default_timeout_is_the_maximum_of_the_broker(query: Query) -> None:
    assert prepare_batch(query.options).timeout_ms == 900_000
    shorter = replace(query.options, kafka=query.options.kafka | {"transaction.timeout.ms": "30000"})
    assert prepare_batch(shorter).timeout_ms == 30_000


def test_crash_before_the_decision_aborts_the_batch(query: Query, cluster: ClusterUnderTest) -> None:
    query.run(0)
    query.write(prepare_batch(query.options), 1)  # and the driver ends
    assert len(query.open_transactions()) == 3
    prepared = prepare_batch(query.options)
    assert prepared.decided == (QUERY, 0)
    assert not query.open_transactions()
    query.wait_until_visible(rows(0))
    query.commit(prepared, query.write(prepared, 1, run="b" * 8))
    query.wait_until_visible(rows(0) + rows(1))
    assert query.committed(cluster) == 20


@pytest.mark.parametrize("step", ["end_decided", "end_all", "write_decision"])
def test_crash_after_the_decision_commits_the_batch(
    query: Query, cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    prepared = prepare_batch(query.options)
    decision = query.write(prepared, 0)
    end_all, write = driver.end_all, driver.write_decision

    def stop(*_: object) -> None:
        raise Stopped

    async def end_one_and_stop(connection: object, transactions: Sequence[OpenTransaction], *, commit: bool) -> None:
        await end_all(connection, transactions[:1], commit=commit)  # type: ignore[arg-type]
        raise Stopped

    def stop_at_mark(*arguments: object) -> None:
        if isinstance(arguments[3], Decision) and arguments[3].is_ended:
            raise Stopped
        write(*arguments)  # type: ignore[arg-type]

    replaced = {"end_decided": stop, "end_all": end_one_and_stop, "write_decision": stop_at_mark}[step]
    with monkeypatch.context() as patched:
        patched.setattr(driver, step, replaced)
        with pytest.raises(Stopped):
            query.commit(prepared, decision)
    abort_batch(query.options, "a" * 8, decision.transactions, QUERY, 0)  # Spark does this if it still runs
    again = prepare_batch(query.options)
    assert again.decided == (QUERY, 0)
    query.wait_until_visible(rows(0))
    assert query.committed(cluster) == 10
    assert query.write(again, 0, run="b" * 8).transactions == ()  # the batch that Spark runs again
    query.commit(again, Decision(QUERY, 0))
    query.run(1)
    query.wait_until_visible(rows(0) + rows(1))


def test_failed_batch_is_aborted(query: Query) -> None:
    prepared = prepare_batch(query.options)
    decision = query.write(prepared, 0)
    abort_batch(query.options, "a" * 8, decision.transactions, QUERY, 0)
    assert not query.open_transactions()
    assert query.visible() == []
    query.run(0)
    query.wait_until_visible(rows(0))


def test_fenced_driver_does_not_disturb_its_successor(query: Query, cluster: ClusterUnderTest) -> None:
    old = prepare_batch(query.options)
    old_decision = query.write(old, 0)
    new = prepare_batch(query.options)
    with pytest.raises(UsageError, match="Another run of this query, or another query, uses transactionalIdPrefix="):
        query.commit(old, old_decision)
    decision = query.write(new, 0, run="b" * 8)
    abort_batch(query.options, "a" * 8, old_decision.transactions, QUERY, 0)
    query.commit(new, decision)
    query.wait_until_visible(rows(0))
    assert query.committed(cluster) == 10
    with pytest.raises(UsageError, match="uses transactionalIdPrefix="):
        query.commit(old, old_decision)
    query.wait_until_visible(rows(0))


@pytest.mark.parametrize("step", ["prepare", "commit"])
def test_slow_driver_does_not_abort_its_successor(query: Query, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    successors: list[tuple[PreparedBatch, Decision]] = []
    read, write = read_decisions, driver.write_decision

    def start_successor() -> None:
        if not successors:
            successors.append((new := prepare_batch(query.options), query.write(new, 1, run="b" * 8)))

    def read_and_pause(*arguments: object) -> object:
        decisions = read(*arguments)  # type: ignore[arg-type]
        with monkeypatch.context() as restored:
            restored.setattr(driver, "read_decisions", read)
            start_successor()
        return decisions

    def write_and_pause(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        if isinstance(arguments[3], Decision) and arguments[3].is_ended:
            start_successor()

    if step == "prepare":
        query.write(prepare_batch(query.options), 0, run="c" * 8)  # of a driver that died
        with monkeypatch.context() as patched:
            patched.setattr(driver, "read_decisions", read_and_pause)
            prepare_batch(query.options)
    else:
        prepared = prepare_batch(query.options)
        decision = query.write(prepared, 0)
        with monkeypatch.context() as patched:
            patched.setattr(driver, "write_decision", write_and_pause)
            query.commit(prepared, decision)
    ((successor, decision),) = successors
    assert query.open_transactions() == sorted(row.transactional_id for row in decision.transactions)
    query.commit(successor, decision)
    query.wait_until_visible((rows(0) if step == "commit" else []) + rows(1))


def test_failed_batch_leaves_no_attempt_open(query: Query) -> None:
    prepared = prepare_batch(query.options)
    decision = query.write(prepared, 0)  # the executor of the first task dies, and Spark has no message of it
    abort_batch(query.options, "a" * 8, decision.transactions[1:], QUERY, 0)
    assert not query.open_transactions()


def test_repeated_batch_with_other_records_is_rejected() -> None:
    member = ConsumerGroupMetadata("group", 3, "member")
    check_repeated(4, [GroupInputs(member, {})])
    with pytest.raises(NotCommittedError, match="Batch 4 of this query was committed before, and now it reads other"):
        check_repeated(4, [GroupInputs(member, {TopicPartition("in", 0): OffsetAndMetadata(20)})])


def test_repeated_attempt_of_a_task_is_aborted(query: Query) -> None:
    prepared = prepare_batch(query.options)
    values = pa.RecordBatch.from_arrays([pa.array(["0-0"])], ["value"])
    attempts = [
        write_task(
            iter([values]), query.options, SinkColumns(value=0), prepared, SparkBatch(QUERY, "a" * 8, 0), f"0-{n}-{n}"
        )
        for n in range(2)
    ]
    transactions = tuple(attempt.transaction for attempt in attempts if attempt.transaction is not None)
    assert len(transactions) == 2
    query.commit(prepared, Decision(QUERY, 0, transactions[1:]))
    query.wait_until_visible(["0-0"])
    assert not query.open_transactions()


def test_failing_task_aborts_its_transaction(query: Query) -> None:
    prepared = prepare_batch(query.options)

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array(["a"] * 10)], ["value"])
        yield pa.RecordBatch.from_arrays([pa.array(["x" * 2_000_000])], ["value"])

    with pytest.raises(UsageError, match=r"kafka\.max\.request\.size is 1048576"):
        write_task(batches(), query.options, SinkColumns(value=0), prepared, SparkBatch(QUERY, "a" * 8, 0), "0-0-0")
    assert not query.open_transactions()
    assert query.visible() == []


def test_member_that_was_fenced_commits_nothing(query: Query, cluster: ClusterUnderTest) -> None:
    prepared = prepare_batch(query.options)
    decision = query.write(prepared, 0)
    with pytest.raises(NotCommittedError, match="Batch 0 was not committed, and its output was aborted") as raised:
        query.commit(prepared, decision, generation=7)
    assert str(raised.value).endswith("Restart the query.")
    abort_batch(query.options, "a" * 8, decision.transactions, QUERY, 0)
    assert not query.open_transactions()
    assert query.visible() == []
    assert query.committed(cluster) is None


def test_batch_that_is_longer_than_the_timeout_is_not_committed(query: Query, cluster: ClusterUnderTest) -> None:
    prepared = prepare_batch(query.options)
    decision = query.write(prepared, 0)
    connection = get_connection(query.options.kafka)
    connection.network.run(abort_open_transaction(connection.cluster, decision.transactions[1].transactional_id))
    with pytest.raises(NotCommittedError, match=r"the cluster had aborted 1 of its 3 transactions, because the batch"):
        query.commit(prepared, decision)
    abort_batch(query.options, "a" * 8, decision.transactions, QUERY, 0)
    assert not query.open_transactions()
    assert query.visible() == []
    assert query.committed(cluster) is None
    query.run(0)
    query.wait_until_visible(rows(0))


def test_lost_batch_stops_the_query_until_it_is_accepted(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare_batch(query.options)
    decision = query.write(prepared, 0)

    def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(driver, "end_decided", stop)
        with pytest.raises(Stopped):
            query.commit(prepared, decision)
    connection = get_connection(query.options.kafka)  # an outage longer than transaction.timeout.ms
    connection.network.run(abort_open_transaction(connection.cluster, decision.transactions[1].transactional_id))
    for _ in range(2):
        with pytest.raises(
            LostBatchError, match=r"Batch 0 has lost output: .* 1 of its 3 transactions .*acceptLostBatch=0"
        ):
            prepare_batch(query.options)
    with pytest.raises(LostBatchError):
        prepare_batch(replace(query.options, accept_lost_batch=1))
    assert prepare_batch(replace(query.options, accept_lost_batch=0)).decided == (QUERY, 0)
    query.wait_until_visible(["0-0", "0-2"])
    query.run(1)
    query.wait_until_visible(["0-0", "0-2", *rows(1)])


def test_older_checkpoint_is_rejected(query: Query) -> None:
    for number in range(2):
        query.run(number)
    with pytest.raises(UsageError, match="Batch 0 of this query was committed long ago: 1 is the last committed one"):
        query.write(prepare_batch(query.options), 0)


def test_task_without_rows_has_no_transaction(query: Query) -> None:
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.string())], ["value"])
    prepared = prepare_batch(query.options)
    batch = SparkBatch(QUERY, "a" * 8, 0)
    assert write_task(iter([empty]), query.options, SinkColumns(value=0), prepared, batch, "0-0-0").transaction is None
    query.commit(prepared, Decision(QUERY, 0))
    assert query.visible() == []


def test_errors_are_library_errors(query: Query) -> None:
    assert issubclass(LostBatchError, SlackwaterError)
    assert issubclass(NotCommittedError, SlackwaterError)
