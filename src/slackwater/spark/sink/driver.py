"""The driver's part of delivery=exactly_once: before the tasks of a batch, and after them.

Before the tasks (`prepare_batch`), in the process in which Spark plans the write:
1. List the open transactions with this prefix.
2. Initialize the driver's producer. Any other driver with this prefix is fenced: it cannot decide any more.
3. Read the last decision. If its transactions have not ended, commit them.
4. Abort the other transactions of step 1.

After the tasks (`commit_batch`), in the process in which Spark commits the write:
1. Write the decision and the input offsets in one transaction, with the epoch of step 2 above, and commit it if the
   transactions of the tasks are still open.
2. Commit the transactions of the tasks.
3. Write that they have ended, and abort the transactions of attempts that Spark did not accept.

Invariants:
- A batch is committed when its decision is. Before that, a crash aborts all its output; after that, the next run
  commits it before it does anything else.
- The offsets of the group are committed with the decision, as the member that owns the partitions. If the member has
  lost one of them, nothing is decided.
- A driver never aborts a transaction of a driver that came after it: a list from before its own fencing has none of
  those, and after the tasks only the transactions of its own run are aborted.
- A decided transaction that the cluster has aborted is an error that names the batch, at every start, until the user
  accepts it.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.client.admin import topics
from slackwater.client.config import PRODUCER_SETTINGS
from slackwater.client.network.transactions import (
    OpenTransaction,
    abort_open_transaction,
    end_transaction,
    list_open_transactions,
)
from slackwater.client.producer.bulk import BulkProducer
from slackwater.client.producer.transaction_errors import (
    AbortableTransactionError,
    ProducerFencedError,
    RetriableTransactionError,
)
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.spark.clients.connections import ClusterConnection, get_connection
from slackwater.spark.sink.decisions import Decision, decision_partition, find_topic, read_decisions
from slackwater.spark.sink.input_offsets import GroupInputs
from slackwater.spark.sink.options import SinkOptions
from slackwater.spark.sink.producers import create_producer
from slackwater.wire.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
)

log = get_logger("slackwater.spark.sink")
TIMEOUT_SETTING: Final = "transaction.timeout.ms"
MAX_TIMEOUT_SETTING: Final = "transaction.max.timeout.ms"
DEFAULT_MAX_TIMEOUT_MS: Final = 900_000  # Kafka's default of transaction.max.timeout.ms
REBALANCE_TRIES: Final = 20
REBALANCE_PAUSE_S: Final = 0.05  # the first one; all of them are ten seconds
# How the coordinator rejects the commit of a transaction that it has aborted.
_ABORTED: Final = frozenset(
    {
        Error.PRODUCER_FENCED,
        Error.INVALID_PRODUCER_EPOCH,
        Error.INVALID_TXN_STATE,
        Error.INVALID_PRODUCER_ID_MAPPING,
        Error.UNKNOWN_PRODUCER_ID,
    }
)
_STALE_MEMBER: Final = frozenset({Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS})
_COMMIT_TIMEOUT_S: Final = 60.0
_NEEDED: Final = (INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, LIST_TRANSACTIONS)


class LostBatchError(SlackwaterError):
    """A committed batch lost output: the cluster aborted transactions before they were committed."""


class NotCommittedError(SlackwaterError):
    """A batch was not committed; none of its output is visible."""


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """What the driver sends to the tasks before they start."""

    driver_producer: OpenTransaction
    """The id and epoch of the driver's producer."""
    timeout_ms: int
    decided: tuple[str, int] | None
    """Query and batch of the last decision; all its transactions have ended."""


def prepare_batch(options: SinkOptions) -> PreparedBatch:
    """Fence other drivers, finish what was decided, and abort the rest."""
    connection = get_connection(options.kafka)
    connection.network.run(_check_transactions(connection))
    timeout_ms = connection.network.run(_timeout_ms(connection, options))
    topic = connection.network.run(find_topic(connection.cluster, options.decision_topic))
    open_before_fencing = connection.network.run(_open_transactions(connection, options))
    producer = _driver_producer(options)
    try:
        producer.init_transactions()
        decision = read_decisions(connection, topic, options.transactional_id_prefix).last
        if decision is not None and not decision.is_ended:
            log.warning("Batch %d was decided, and its transactions are committed now.", decision.batch_id)
            end_decided(connection, options, decision)
            write_decision(connection, producer, options, decision.ended())
        driver_producer = producer.open_transaction
    except ProducerFencedError as error:
        raise _fenced(options) from error
    finally:
        producer.abandon()
    committed = [transaction.transactional_id for transaction in decision.transactions] if decision is not None else []
    connection.network.run(_abort_all(connection, [name for name in open_before_fencing if name not in committed]))
    decided = (decision.query_id, decision.batch_id) if decision is not None else None
    return PreparedBatch(driver_producer, timeout_ms, decided)


def commit_batch(
    options: SinkOptions,
    driver_producer: OpenTransaction,
    run: str,
    decision: Decision,
    inputs: Callable[[], Sequence[GroupInputs]],
) -> None:
    """Decide a batch with its input offsets, and commit the transactions of its tasks."""
    if not decision.transactions:
        return
    connection = get_connection(options.kafka)
    producer = _driver_producer(options)
    try:
        producer.resume_transactions(driver_producer.producer_id, driver_producer.producer_epoch)
        _decide(connection, producer, options, run, decision, inputs)
        end_decided(connection, options, decision)
        write_decision(connection, producer, options, decision.ended())
        _abort_run(connection, options, run)
    except ProducerFencedError as error:
        raise _fenced(options) from error
    finally:
        producer.abandon()


def check_repeated(batch_id: int, inputs: Sequence[GroupInputs]) -> None:
    """Check a batch that was committed in an earlier run: Spark repeats it, and its tasks have written nothing.

    The group has the offsets of the earlier run, so the same batch has no input left.
    """
    if any(group.offsets for group in inputs):
        raise NotCommittedError(
            f"Batch {batch_id} of this query was committed before, and now it reads other records: the checkpoint is "
            "older than the output, or the group's offsets were reset. Use the newest checkpoint, or a new "
            "checkpointLocation with a new transactionalIdPrefix."
        )


def abort_batch(
    options: SinkOptions, run: str, transactions: Sequence[OpenTransaction], query_id: str, batch_id: int
) -> None:
    """Abort the transactions of a failed batch, unless it is decided.

    Spark calls this also when `commit_batch` failed, which may have happened after the decision.
    """
    connection = get_connection(options.kafka)
    topic = connection.network.run(find_topic(connection.cluster, options.decision_topic))
    last, pending = read_decisions(connection, topic, options.transactional_id_prefix)
    for decision in (last, *pending):
        if decision is not None and (decision.query_id, decision.batch_id) == (query_id, batch_id):
            log.warning("Batch %d may be decided; the next run of the query ends its transactions.", batch_id)
            return
    connection.network.run(end_all(connection, transactions, commit=False))
    _abort_run(connection, options, run)


def end_decided(connection: ClusterConnection, options: SinkOptions, decision: Decision) -> None:
    """Commit the transactions of a decided batch."""
    errors = connection.network.run(end_all(connection, decision.transactions, commit=True))
    for error in errors:
        if error is not Error.NONE and error not in _ABORTED:
            text = f"The transactions of batch {decision.batch_id} could not be committed yet: {error.name}."
            required_acl = f"Write on transactional ids that start with {options.transactional_id_prefix}"
            raise connection.cluster.error(error, text, required_acl)
    lost = [error for error in errors if error in _ABORTED]
    if not lost:
        return
    text = (
        f"Batch {decision.batch_id} has lost output: it was committed with its input offsets, but the cluster had "
        f"aborted {len(lost)} of its {len(decision.transactions)} transactions before they could be committed "
        f"({lost[0].name}): the outage was longer than {TIMEOUT_SETTING}."
    )
    if options.accept_lost_batch == decision.batch_id:
        log.warning("%s The query continues because of acceptLostBatch=%d.", text, decision.batch_id)
        return
    raise LostBatchError(
        f"{text} Write its missing records again from the input, then set acceptLostBatch={decision.batch_id} to "
        "continue."
    )


# --- deciding ---------------------------------------------------------------------------------------------------------


def _decide(
    connection: ClusterConnection,
    producer: BulkProducer,
    options: SinkOptions,
    run: str,
    decision: Decision,
    inputs: Callable[[], Sequence[GroupInputs]],
) -> None:
    """Write the decision and the input offsets in one transaction. A rebalance in between changes the generation."""

    def check() -> None:
        open_names = connection.network.run(_open_transactions(connection, options, run))
        aborted = {transaction.transactional_id for transaction in decision.transactions}.difference(open_names)
        if aborted:
            raise NotCommittedError(
                f"Batch {decision.batch_id} was not committed, and its output was aborted: the cluster had aborted "
                f"{len(aborted)} of its {len(decision.transactions)} transactions, because the batch was longer than "
                f"{TIMEOUT_SETTING}. Use smaller batches (maxOffsetsPerTrigger), and restart the query."
            )

    for attempt in range(1, REBALANCE_TRIES + 1):
        groups = inputs()
        try:
            write_decision(connection, producer, options, decision, groups, check)
            return
        except NotCommittedError:
            producer.abort_transaction()
            raise
        except AbortableTransactionError as error:
            producer.abort_transaction()
            if error.error not in _STALE_MEMBER or attempt == REBALANCE_TRIES:
                reason = str(error).removesuffix(" Abort the transaction.")
                raise NotCommittedError(
                    f"Batch {decision.batch_id} was not committed, and its output was aborted: {reason} Restart the "
                    "query."
                ) from error
            log.info("The group has a new generation; the offsets of batch %d are sent again.", decision.batch_id)
            time.sleep(attempt * REBALANCE_PAUSE_S)  # the member learns of the generation a moment later


def write_decision(
    connection: ClusterConnection,
    producer: BulkProducer,
    options: SinkOptions,
    decision: Decision,
    groups: Sequence[GroupInputs] = (),
    check: Callable[[], None] | None = None,
) -> None:
    """Write a decision, and the input offsets of groups, in one transaction."""
    topic = connection.network.run(find_topic(connection.cluster, options.decision_topic))
    prefix = options.transactional_id_prefix
    producer.begin_transaction()
    sent = producer.send(topic.name, decision.to_bytes(), prefix.encode(), partition=decision_partition(prefix, topic))
    for group in groups:
        if group.offsets:
            producer.send_offsets_to_transaction(group.offsets, group.member)
    if check is not None:
        producer.flush()
        if sent.exception() is None:  # otherwise the commit fails with the reason
            check()
    try:
        producer.commit_transaction(_COMMIT_TIMEOUT_S)
    except RetriableTransactionError:
        producer.commit_transaction(_COMMIT_TIMEOUT_S)


def _fenced(options: SinkOptions) -> UsageError:
    return UsageError(
        "Another run of this query, or another query, uses transactionalIdPrefix="
        f"{options.transactional_id_prefix}, and this run was stopped. Use a different prefix for each query."
    )


# --- transactions of the tasks ----------------------------------------------------------------------------------------


def transactional_id(prefix: str, run: str, batch_id: int, task: str) -> str:
    """Return the transactional id of one attempt of a task.

    Ids are used again after ID_BATCHES batches, so that the cluster stores few of them. An attempt of an earlier batch
    that is still running does not have the id of an attempt of this one.
    """
    return f"{prefix}-{run}-{batch_id % ID_BATCHES}-{task}"


ID_BATCHES: Final = 8
_RUN: Final = "[0-9a-f]{8}"
_TASK: Final = "[0-9]+-[0-9]+-[0-9]+-[0-9]+"


async def _open_transactions(connection: ClusterConnection, options: SinkOptions, run: str = _RUN) -> list[str]:
    """Return the tasks' open transactions, of all runs or of one."""
    prefix = re.sub(r"([^A-Za-z0-9])", r"\\\1", options.transactional_id_prefix)
    return await list_open_transactions(connection.cluster, f"{prefix}-{run}-{_TASK}")


async def _abort_all(connection: ClusterConnection, names: Sequence[str]) -> None:
    for name in names:
        error = await abort_open_transaction(connection.cluster, name)
        log.info("The open transaction of %s was aborted: %s.", name, error.name)


def _abort_run(connection: ClusterConnection, options: SinkOptions, run: str) -> None:
    """Abort what attempts have left that failed, or that Spark did not accept."""
    names = connection.network.run(_open_transactions(connection, options, run))
    connection.network.run(_abort_all(connection, names))


async def end_all(
    connection: ClusterConnection, transactions: Sequence[OpenTransaction], *, commit: bool
) -> list[Error]:
    """Commit or abort transactions of tasks; return the errors."""
    ends = (end_transaction(connection.cluster, transaction, commit=commit) for transaction in transactions)
    return list(await asyncio.gather(*ends))


async def _check_transactions(connection: ClusterConnection) -> None:
    """Reject a cluster without the requests that this delivery needs."""
    broker = await connection.cluster.any_connection()
    missing = [api.name for api in _NEEDED if not broker.supports(api)]
    if missing:
        raise UsageError(
            f"delivery=exactly_once needs transactions, and {broker} does not support {', '.join(missing)}. Use Kafka "
            "3.0 or newer, or delivery=at_least_once."
        )


async def _timeout_ms(connection: ClusterConnection, options: SinkOptions) -> int:
    """Return the timeout of the tasks' transactions: the maximum of the broker, unless the user sets it."""
    if TIMEOUT_SETTING in options.kafka:
        return int(str(PRODUCER_SETTINGS[TIMEOUT_SETTING].parse(options.kafka[TIMEOUT_SETTING])))
    await connection.cluster.refresh()
    node = min(connection.cluster.brokers)
    try:
        configs = await topics.describe_configs(connection.cluster, "broker", str(node))
    except BrokerError:  # the principal may not read the settings of brokers
        return DEFAULT_MAX_TIMEOUT_MS
    entry = configs.get(MAX_TIMEOUT_SETTING)
    return int(entry.value) if entry is not None and entry.value else DEFAULT_MAX_TIMEOUT_MS


def _driver_producer(options: SinkOptions) -> BulkProducer:
    kafka = {name: text for name, text in options.kafka.items() if name != TIMEOUT_SETTING}
    return create_producer(kafka | {"transactional.id": f"{options.transactional_id_prefix}-driver"})
