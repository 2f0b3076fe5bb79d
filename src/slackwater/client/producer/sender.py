"""Sends the batches of a producer, on the network thread.

Invariants:
- A broker has up to `max.in.flight.requests.per.connection` requests in flight. A request holds at most one batch of
  each partition and at most `max.request.size` bytes.
- An idempotent producer numbers its records in each partition. A retried batch keeps its sequence, so the broker writes
  it once. Batches behind a failed one are retried after it, one at a time until the first succeeds. A batch that is out
  of order although no earlier one is in flight fails, as in Java: an acknowledged batch before it was lost.
- Without idempotence a retry may change the order, as in Java, unless `max.in.flight.requests.per.connection` is 1.
- A batch fails after `delivery.timeout.ms`. If an idempotent producer has sent it, the broker may have written it: the
  producer requests a new id, and the partition restarts its sequences. Other partitions use the new id when no batch
  has a sequence of the old one.
- Until the first batch of an id succeeds, a partition has one batch in flight: a broker accepts any first sequence from
  an unknown id, so a second batch that arrives first would make the broker reject the first one.
- A batch that is too large for the broker is split, down to single records.
- In a transaction nothing is sent before its partition was added. A failed batch fails the transaction: its waiting
  batches are dropped, and those in flight are not retried.
- Callbacks run on the network thread, without the lock, in the order of the records of a partition.
"""

import random
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.backoff import RetryBackoff
from slackwater.client.network.cluster import LAST_PRODUCE_VERSION_BY_NAME, Cluster
from slackwater.client.network.maintenance import MetadataRefresher
from slackwater.client.network.thread import EarliestTimer, NetworkThread
from slackwater.client.producer.accumulator import (
    NO_PRODUCER,
    NO_SEQUENCE,
    Accumulator,
    PartitionQueue,
    ProducerBatch,
    ProducerIdAndEpoch,
)
from slackwater.client.producer.delivery import BatchOutcome
from slackwater.client.producer.transaction_requests import TransactionRequests
from slackwater.client.producer.transactions import TransactionManager
from slackwater.escaping import get_logger
from slackwater.group.errors import Error, SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.apis import PRODUCE
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from slackwater.wire.records.compression import Codec
from slackwater.wire.schema import NO_UUID

log = get_logger("slackwater.client.producer")
MAX_PRODUCE_VERSION_IN_TV1: Final = 11  # v12 adds partitions to the transaction: transaction version 2 (KIP-890)
_JITTER: Final = 0.2
# After these errors an idempotent producer does not know what was written, and restarts its sequences.
_RESTARTS_SEQUENCES: Final = frozenset(
    {Error.UNKNOWN_PRODUCER_ID, Error.INVALID_PRODUCER_EPOCH, Error.INVALID_PRODUCER_ID_MAPPING}
)
_TOO_LARGE: Final = frozenset({Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderConfig:
    """The settings of the sender."""

    acks: int = -1
    idempotent: bool = True
    codec: Codec = Codec.NONE
    level: int | None = None
    max_in_flight: int = 5
    max_request_bytes: int = 1_048_576
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retries: int = 2**31 - 1


class Sender:
    """The sending side of one producer."""

    def __init__(
        self,
        config: SenderConfig,
        accumulator: Accumulator,
        cluster: Cluster,
        network: NetworkThread,
        changed: threading.Condition,
        transactions: TransactionManager | None = None,
        requests: TransactionRequests | None = None,
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._cluster = cluster
        self._network = network
        self._changed = changed
        self._transactions = transactions
        self._requests = requests
        self._is_adding_partitions = False
        self._producer = NO_PRODUCER
        self._is_requesting_id = False
        self.fatal: SlackwaterError | None = None  # nothing can be sent after it
        self._requests_in_flight: dict[int, int] = defaultdict(int)
        self._scheduled = False
        self._refresh_later = MetadataRefresher(cluster, network, cluster.refresh, self._run)
        self._timer = EarliestTimer(network, self._run)
        self._completed: list[BatchOutcome] = []
        self._is_completing = False

    def schedule(self) -> None:
        """Look for batches to send soon. Called from any thread with the lock held."""
        if not self._scheduled:
            self._scheduled = True
            self._network.call_soon(self._run)

    # --- on the network thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._changed:
            self._scheduled = False
            now = self._network.loop.time()
            self._fail_expired(now)
            if self._transactions is not None:
                if (dropped := self._transactions.drop_error) is not None:
                    self._fail_all(dropped)
                self._producer = self._transactions.producer
                self._send_ready(now)
            elif self._config.idempotent and self._producer == NO_PRODUCER:
                if not self._accumulator.is_empty:
                    self._request_producer_id()
            else:
                self._send_ready(now)
        self._complete()

    def _complete(self) -> None:
        """Complete the outcomes in order; a callback that sends a record does not reenter."""
        if self._is_completing:
            return
        self._is_completing = True
        try:
            while self._completed:
                completed, self._completed = self._completed, []
                for outcome in completed:
                    outcome.complete()
        finally:
            self._is_completing = False

    # Producer id

    def _request_producer_id(self) -> None:
        if not self._is_requesting_id and self.fatal is None:
            self._is_requesting_id = True
            self._network.create_task(self._init_producer())

    async def _init_producer(self) -> None:
        backoff = RetryBackoff(self._cluster.config)
        try:
            while True:
                try:
                    response = await self._cluster.request_any(
                        InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
                    )
                    error = Error(response.error_code)
                except NetworkError:
                    error = Error.NETWORK_EXCEPTION
                if error is Error.NONE:
                    break
                if not error.retriable:
                    text = f"InitProducerId failed: {error.name}."
                    raise self._cluster.error(error, text, "Write on a topic, or IdempotentWrite on the cluster")
                await backoff.wait()
                with self._changed:
                    self._fail_expired(self._network.loop.time())
                self._complete()
                if self._accumulator.is_empty:
                    return
            with self._changed:
                self._producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        except SlackwaterError as error:
            with self._changed:
                self.fatal = error
                self._fail_all(error)
        finally:
            self._is_requesting_id = False
        self._run()

    # Requests

    async def _add_partitions(self) -> None:
        assert self._requests is not None
        try:
            await self._requests.add_partitions()
        except SlackwaterError as error:
            log.debug("AddPartitionsToTxn failed: %s", error)  # the next call of the application raises it
        finally:
            self._is_adding_partitions = False
        self._run()

    def _send_ready(self, now: float) -> None:
        by_node: dict[int, list[PartitionQueue]] = defaultdict(list)
        leaderless: set[str] = set()
        next_run_s: float | None = None
        transactions = self._transactions
        for queue in list(self._accumulator.waiting.values()):
            ready_at = self._accumulator.ready_at(queue, now)
            if ready_at is None:
                del self._accumulator.waiting[queue.partition]
                continue
            if not self._may_send(queue):
                continue
            if ready_at > now:
                next_run_s = ready_at - now if next_run_s is None else min(next_run_s, ready_at - now)
                continue
            if transactions is not None and not transactions.may_send(queue.partition):
                continue
            leader = self._cluster.leader(*queue.partition)
            if leader is None:
                leaderless.add(queue.partition.topic)
            else:
                by_node[leader.leader].append(queue)
        self._refresh_later(leaderless)
        if transactions is not None and transactions.new_partitions and not self._is_adding_partitions:
            self._is_adding_partitions = True
            self._network.create_task(self._add_partitions())
        for node, queues in by_node.items():
            while queues and self._requests_in_flight[node] < self._config.max_in_flight:
                queues = self._send_to(node, queues, now)
        if next_run_s is not None:
            self._timer.call_in(next_run_s)
        elif not self._accumulator.is_empty:
            self._timer.call_in(1.0)  # to fail expired batches

    def _may_send(self, queue: PartitionQueue) -> bool:
        is_limited = queue.retrying or (self._config.idempotent and not queue.id_is_known)
        return len(queue.in_flight) < (1 if is_limited else self._config.max_in_flight)

    def _send_to(self, node: int, queues: list[PartitionQueue], now: float) -> list[PartitionQueue]:
        """Send one request; return the queues that have more batches."""
        batches: list[ProducerBatch] = []
        size, more = 0, []
        for queue in queues:
            ready_at = self._accumulator.ready_at(queue, now)
            if ready_at is None or ready_at > now or not self._may_send(queue):
                continue
            data = self._encode(queue.batches[0], queue)
            if batches and size + len(data) > self._config.max_request_bytes:
                more.append(queue)
                continue
            size += len(data)
            batch = queue.batches.popleft()
            queue.in_flight.append(batch)
            batches.append(batch)
            if queue.batches:
                more.append(queue)
        if not batches:
            return []
        self._requests_in_flight[node] += 1
        self._network.create_task(self._send(node, batches))
        return more

    def _encode(self, batch: ProducerBatch, queue: PartitionQueue) -> bytearray:
        if batch.data is None:
            sequence = NO_SEQUENCE
            if self._config.idempotent:
                queue.use_producer_id(self._producer)
                sequence = queue.next_sequence
                queue.next_sequence = (sequence + batch.count) & 0x7FFFFFFF
            batch.sequence_restarts = queue.sequence_restarts
            return self._close(batch, queue, sequence)
        return batch.data

    def _close(self, batch: ProducerBatch, queue: PartitionQueue, sequence: int) -> bytearray:
        transactional = self._transactions is not None
        return batch.close(
            queue.producer, sequence, self._config.codec, self._config.level, transactional=transactional
        )

    async def _send(self, node: int, batches: list[ProducerBatch]) -> None:
        try:
            connection = await self._cluster.connection_to(node)
            version = connection.version_of(PRODUCE)
            request = self._request(batches)
            if any(topic.topic_id == NO_UUID for topic in request.topic_data):
                version = min(version, LAST_PRODUCE_VERSION_BY_NAME)
            if self._transactions is not None and self._transactions.transaction_version == 1:
                version = min(version, MAX_PRODUCE_VERSION_IN_TV1)
            if self._config.acks == 0:
                connection.send_without_response(request, version=version)
                response = None
            else:
                timeout_s = self._config.request_timeout_ms / 1000
                response = await connection.request(request, ProduceResponse, timeout_s=timeout_s, version=version)
        except NetworkError as error:
            log.debug("A produce request failed: %s", error)
            with self._changed:
                self._requests_in_flight[node] -= 1
                for batch in batches:
                    self._retry(batch, error)
                self._refresh_later({batch.partition.topic for batch in batches})
        except SlackwaterError as error:
            with self._changed:
                self._requests_in_flight[node] -= 1
                for batch in batches:
                    self._fail(batch, error)
        else:
            with self._changed:
                self._requests_in_flight[node] -= 1
                self._on_response(batches, response)
        self._run()

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, index = batch.partition
            topic = topics.get(name)
            if topic is None:
                known = self._cluster.topics.get(name)
                topic_id = known.topic_id if known is not None else NO_UUID
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            assert batch.data is not None
            topic.partition_data.append(PartitionProduceData(index=index, records=memoryview(batch.data)))
            batch.attempts += 1
        return ProduceRequest(
            transactional_id=self._transactions.transactional_id if self._transactions is not None else None,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    # Outcomes

    def _on_response(self, batches: list[ProducerBatch], response: ProduceResponse | None) -> None:
        outcomes: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses if response is not None else ():
            name = topic.name or self._cluster.names_by_id.get(topic.topic_id, "")
            for partition_response in topic.partition_responses:
                outcomes[TopicPartition(name, partition_response.index)] = partition_response
        stale: set[str] = set()
        for batch in batches:
            if response is None:
                self._done(batch, -1, -1)
                continue
            outcome = outcomes.get(batch.partition)
            if outcome is None:
                self._retry(batch, NetworkError(f"The Produce response does not contain {batch.partition}."))
                continue
            error = Error(outcome.error_code)
            if error in (Error.NONE, Error.DUPLICATE_SEQUENCE_NUMBER):
                base_offset = outcome.base_offset if error is Error.NONE else -1
                self._done(batch, base_offset, outcome.log_append_time_ms)
            else:
                self._on_error(batch, error, outcome.error_message, stale)
        self._refresh_later(stale)
        self._changed.notify_all()

    def _on_error(self, batch: ProducerBatch, error: Error, message: str | None, stale: set[str]) -> None:
        text = f"{batch.partition}: {message or error.name}"
        raised = self._cluster.error(error, text, f"Write on topic {batch.partition.topic}")
        queue = self._accumulator.queues[batch.partition]
        if error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.sequence_restarts != queue.sequence_restarts:
            self._retry(batch, raised)  # its sequence follows a batch that failed meanwhile; it was not written
            batch.clear_sequence()
        elif error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.has_before(batch):
            self._retry(batch, raised)
        elif error.retriable:
            stale.add(batch.partition.topic)
            self._retry(batch, raised)
        elif error in _TOO_LARGE and batch.count > 1:
            self._retry(batch, raised)
            if queue.batches and queue.batches[0] is batch:
                self._split(queue, batch)
        elif self._config.idempotent and self._transactions is None and error in _RESTARTS_SEQUENCES:
            self._retry(batch, raised)
            self._renew_producer_id(queue)
        else:
            self._fail(batch, raised)

    def _done(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        queue = self._remove(batch)
        queue.retrying = any(waiting.attempts for waiting in queue.batches)
        queue.id_is_known = True
        if batch.outcome.add_part(batch.first, base_offset, log_append_time_ms):
            self._completed.append(batch.outcome)

    def _retry(self, batch: ProducerBatch, error: SlackwaterError) -> None:
        """Put a batch back into its queue, in order, or fail it if its retries or its time are used up."""
        batch.last_error = error
        now = self._network.loop.time()
        if batch.attempts > self._config.retries or now - batch.created >= self._config.delivery_timeout_ms / 1000:
            self._fail(batch, error)
            return
        queue = self._accumulator.queues[batch.partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        config = self._cluster.config
        backoff_ms = min(config.retry_backoff_ms * 2 ** min(batch.attempts - 1, 20), config.retry_backoff_max_ms)
        batch.not_before = now + max(backoff_ms, 0) / 1000 * random.uniform(1 - _JITTER, 1 + _JITTER)
        queue.retrying = True
        place = 0
        for other in queue.batches:
            later_half = other.outcome is batch.outcome and other.first > batch.first
            later = other.created > batch.created or other.sequence > batch.sequence >= 0
            if (
                (not other.attempts and other.data is None) or later or later_half
            ):  # a batch with a sequence counts as tried
                break
            place += 1
        queue.batches.insert(place, batch)
        self._accumulator.waiting[queue.partition] = queue

    def _split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Split a batch that is too large for the broker; the halves keep its sequences."""
        log.debug("%s: a batch of %d records is too large and is split.", batch.partition, batch.count)
        halves = batch.split()
        sequence = batch.sequence
        for half in halves:
            self._close(half, queue, sequence)
            if sequence != NO_SEQUENCE:
                sequence = (sequence + half.count) & 0x7FFFFFFF
        self._accumulator.replace(batch, halves)

    def _fail(self, batch: ProducerBatch, error: SlackwaterError) -> None:
        has_sequence = batch.sequence != NO_SEQUENCE
        sent = batch.attempts > 0 and has_sequence
        queue = self._remove(batch)
        self._add_failure(batch, error)
        if self._transactions is not None:
            self._transactions.on_batch_failed(error, has_sequence=has_sequence)
        elif sent and self._config.idempotent:
            self._renew_producer_id(queue)

    def _add_failure(self, batch: ProducerBatch, error: SlackwaterError) -> None:
        if batch.outcome.add_part(batch.first, error=error):
            self._completed.append(batch.outcome)

    def _remove(self, batch: ProducerBatch) -> PartitionQueue:
        queue = self._accumulator.queues[batch.partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        elif batch in queue.batches:
            queue.batches.remove(batch)
        self._accumulator.release(batch)
        self._changed.notify_all()
        return queue

    def _renew_producer_id(self, queue: PartitionQueue) -> None:
        """Request a new producer id and restart the sequences: it is unknown what the broker has written."""
        self._producer = NO_PRODUCER
        queue.restart_sequences()

    def _fail_expired(self, now: float) -> None:
        limit = now - self._config.delivery_timeout_ms / 1000
        for queue in self._accumulator.queues.values():
            while queue.batches and queue.batches[0].created <= limit:
                batch = queue.batches[0]
                text = (
                    f"Records for {batch.partition} that were not delivered within "
                    f"{self._config.delivery_timeout_ms / 1000:g} s: {batch.count}."
                )
                if batch.last_error is not None:
                    text += f" The last attempt failed: {batch.last_error}"
                self._fail(batch, ClientTimeoutError(text))

    def _fail_all(self, error: SlackwaterError) -> None:
        for queue in self._accumulator.queues.values():
            for batch in list(queue.batches):
                if self._transactions is not None:
                    self._fail(batch, error)
                    continue
                self._remove(batch)
                self._add_failure(batch, error)
