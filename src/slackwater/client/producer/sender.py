"""Sends the batches of a producer, on the network's thread.

Rules kept here
- Each broker has up to `max.in.flight.requests.per.connection` requests of ours; a request holds at most one batch of
  each partition, and no more than `max.request.size`.
- An idempotent producer numbers its records in each partition. A batch keeps its number when it is tried again, so the
  broker writes it once; batches behind one that failed are tried again after it, one at a time until the first is
  through. A batch that the broker finds out of order though none before it is under way is given up, as in Java: one
  that was acknowledged before it is lost.
- Without idempotence a retry may overtake, as in Java, unless `max.in.flight.requests.per.connection` is 1.
- A batch that could not be delivered within `delivery.timeout.ms` is given up. An idempotent producer that gives up a
  batch it has sent takes a new id, and that partition counts anew: the broker may or may not have had it. Other
  partitions go over to the new id when nothing numbered for the old one is left.
- Until the first batch of an id is through, a partition has one under way: a broker takes any number from an id it has
  not met, and a second batch that came before the first would leave no place for it.
- A batch that the broker finds too large is split, until a record alone is.
- Callbacks run on the network's thread, without the lock, in the order of the records of a partition.
"""

import asyncio
import logging
import random
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.maintenance import MetadataRefresher
from slackwater.client.network.thread import NetworkThread
from slackwater.client.producer.accumulator import NO_PRODUCER, NO_SEQUENCE, Accumulator, Batch, Queue
from slackwater.client.producer.delivery import Outcome
from slackwater.group.errors import BrokerError, Error, SlackwaterError
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

log = logging.getLogger("slackwater.client.producer")
BY_NAME: Final = 12
_JITTER: Final = 0.2
# Errors after which an idempotent producer cannot know what the broker has, and counts anew.
_COUNT_ANEW: Final = frozenset(
    {Error.UNKNOWN_PRODUCER_ID, Error.INVALID_PRODUCER_EPOCH, Error.INVALID_PRODUCER_ID_MAPPING}
)
_TOO_LARGE: Final = frozenset({Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderConfig:
    """What a user may set about sending."""

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
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._cluster = cluster
        self._network = network
        self._changed = changed
        self._producer = NO_PRODUCER
        self._asking_producer = False
        self.fatal: SlackwaterError | None = None  # why nothing can be sent any more
        self._flights: dict[int, int] = defaultdict(int)
        self._kicked = False
        self._refresh_later = MetadataRefresher(cluster, network, cluster.refresh, self._run)
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = 0.0
        self._to_tell: list[Outcome] = []
        self._telling = False

    def kick(self) -> None:
        """There may be something to send; from any thread, under the lock."""
        if not self._kicked:
            self._kicked = True
            self._network.call_soon(self._run)

    # --- on the network's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._changed:
            self._kicked = False
            now = self._network.loop.time()
            self._give_up_late(now)
            if self._config.idempotent and self._producer == NO_PRODUCER:
                if not self._accumulator.is_empty:
                    self._ask_producer()
            else:
                self._send_ready(now)
        self._tell()

    def _wake_in(self, seconds: float) -> None:
        loop = self._network.loop
        when = loop.time() + max(seconds, 0.0)
        if self._timer is not None:
            if self._wake_at <= when:
                return
            self._timer.cancel()
        self._wake_at = when  # a uvloop's timer that is due at once cannot be asked for it
        self._timer = loop.call_at(when, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._run()

    def _tell(self) -> None:
        """Call the callbacks that are due; each batch's in order, whoever calls."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._to_tell:
                told, self._to_tell = self._to_tell, []
                for outcome in told:
                    outcome.tell()
        finally:
            self._telling = False

    # The producer's id

    def _ask_producer(self) -> None:
        if not self._asking_producer and self.fatal is None:
            self._asking_producer = True
            self._network.create_task(self._init_producer())

    async def _init_producer(self) -> None:
        pause_s = self._cluster.config.retry_backoff_ms / 1000
        try:
            while True:
                try:
                    answer = await self._cluster.request_any(
                        InitProducerIdRequest(transactional_id=None), InitProducerIdResponse
                    )
                    error = Error(answer.error_code)
                except NetworkError:
                    error = Error.NETWORK_EXCEPTION
                if error is Error.NONE:
                    break
                if not error.retriable:
                    raise BrokerError(error, f"The broker gave this producer no id: {error.name}.")
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, self._cluster.config.retry_backoff_max_ms / 1000)
                with self._changed:
                    self._give_up_late(self._network.loop.time())
                self._tell()
                if self._accumulator.is_empty:
                    return
            with self._changed:
                self._producer = (answer.producer_id, answer.producer_epoch)
        except SlackwaterError as error:
            with self._changed:
                self.fatal = error
                self._fail_all(error)
        finally:
            self._asking_producer = False
        self._run()

    # Sending

    def _send_ready(self, now: float) -> None:
        by_node: dict[int, list[Queue]] = defaultdict(list)
        lost: set[str] = set()
        wake_s: float | None = None
        for queue in list(self._accumulator.waiting.values()):
            ready_at = self._accumulator.ready_at(queue, now)
            if ready_at is None:
                del self._accumulator.waiting[queue.partition]
                continue
            if not self._may_send(queue):
                continue
            if ready_at > now:
                wake_s = ready_at - now if wake_s is None else min(wake_s, ready_at - now)
                continue
            leader = self._cluster.leader(*queue.partition)
            if leader is None:
                lost.add(queue.partition.topic)
            else:
                by_node[leader.leader].append(queue)
        self._refresh_later(lost)
        for node, queues in by_node.items():
            while queues and self._flights[node] < self._config.max_in_flight:
                queues = self._send_to(node, queues, now)
        if wake_s is not None:
            self._wake_in(wake_s)
        elif not self._accumulator.is_empty:
            self._wake_in(1.0)  # to give up what is late

    def _may_send(self, queue: Queue) -> bool:
        one_by_one = queue.retrying or (self._config.idempotent and not queue.met)
        return len(queue.in_flight) < (1 if one_by_one else self._config.max_in_flight)

    def _send_to(self, node: int, queues: list[Queue], now: float) -> list[Queue]:
        """Send one request; the answer is the partitions that have more."""
        batches: list[Batch] = []
        size, more = 0, []
        for queue in queues:
            ready_at = self._accumulator.ready_at(queue, now)
            if ready_at is None or ready_at > now or not self._may_send(queue):
                continue
            data = self._closed(queue.batches[0], queue)
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
        self._flights[node] += 1
        self._network.create_task(self._ask(node, batches))
        return more

    def _closed(self, batch: Batch, queue: Queue) -> bytearray:
        if batch.data is None:
            sequence = NO_SEQUENCE
            if self._config.idempotent:
                queue.adopt(self._producer)
                sequence = queue.next_sequence
                queue.next_sequence = (sequence + batch.count) & 0x7FFFFFFF
            batch.numbering = queue.numbering
            return batch.close(queue.producer, sequence, self._config.codec, self._config.level)
        return batch.data

    async def _ask(self, node: int, batches: list[Batch]) -> None:
        try:
            connection = await self._cluster.connection_to(node)
            version = connection.version_of(PRODUCE)
            request = self._request(batches)
            if any(topic.topic_id == NO_UUID for topic in request.topic_data):
                version = min(version, BY_NAME)
            if self._config.acks == 0:
                connection.send_without_response(request, version=version)
                answer = None
            else:
                response = await connection.send(
                    request, timeout_s=self._config.request_timeout_ms / 1000, version=version
                )
                assert isinstance(response, ProduceResponse)
                answer = response
        except NetworkError as error:
            log.debug("A produce request failed: %s", error)
            with self._changed:
                self._flights[node] -= 1
                for batch in batches:
                    self._again(batch, error)
                self._refresh_later({batch.partition.topic for batch in batches})
        except SlackwaterError as error:
            with self._changed:
                self._flights[node] -= 1
                for batch in batches:
                    self._give_up(batch, error)
        else:
            with self._changed:
                self._flights[node] -= 1
                self._take(batches, answer)
        self._run()

    def _request(self, batches: list[Batch]) -> ProduceRequest:
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
            acks=self._config.acks, timeout_ms=self._config.request_timeout_ms, topic_data=list(topics.values())
        )

    # Outcomes

    def _take(self, batches: list[Batch], answer: ProduceResponse | None) -> None:
        found: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in answer.responses if answer is not None else ():
            name = topic.name or self._cluster.names_by_id.get(topic.topic_id, "")
            for one in topic.partition_responses:
                found[TopicPartition(name, one.index)] = one
        moved: set[str] = set()
        for batch in batches:
            if answer is None:
                self._done(batch, -1, -1)
                continue
            outcome = found.get(batch.partition)
            if outcome is None:
                self._again(batch, NetworkError(f"The broker's answer has nothing on {batch.partition}."))
                continue
            error = Error(outcome.error_code)
            if error in (Error.NONE, Error.DUPLICATE_SEQUENCE_NUMBER):
                base_offset = outcome.base_offset if error is Error.NONE else -1
                self._done(batch, base_offset, outcome.log_append_time_ms)
            else:
                self._refused(batch, error, outcome.error_message, moved)
        self._refresh_later(moved)
        self._changed.notify_all()

    def _refused(self, batch: Batch, error: Error, message: str | None, moved: set[str]) -> None:
        raised = BrokerError(error, f"{batch.partition}: {message or error.name}")
        queue = self._accumulator.queues[batch.partition]
        if error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.numbering != queue.numbering:
            self._again(batch, raised)  # it was numbered behind one that was given up since, and was not written
            batch.unnumber()
        elif error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.has_before(batch):
            self._again(batch, raised)
        elif error.retriable:
            moved.add(batch.partition.topic)
            self._again(batch, raised)
        elif error in _TOO_LARGE and batch.count > 1:
            self._again(batch, raised)
            if queue.batches and queue.batches[0] is batch:
                self._split(queue, batch)
        elif self._config.idempotent and error in _COUNT_ANEW:
            self._again(batch, raised)
            self._new_id(queue)
        else:
            self._give_up(batch, raised)

    def _done(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        queue = self._leave(batch)
        queue.retrying = any(one.attempts for one in queue.batches)
        queue.met = True
        if batch.outcome.decided(batch.first, base_offset, log_append_time_ms):
            self._to_tell.append(batch.outcome)

    def _again(self, batch: Batch, error: SlackwaterError) -> None:
        """Put a batch back in its place."""
        now = self._network.loop.time()
        if batch.attempts > self._config.retries or now - batch.created >= self._config.delivery_timeout_ms / 1000:
            self._give_up(batch, error)
            return
        queue = self._accumulator.queues[batch.partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        config = self._cluster.config
        pause_ms = min(config.retry_backoff_ms * 2 ** min(batch.attempts - 1, 20), config.retry_backoff_max_ms)
        batch.not_before = now + max(pause_ms, 0) / 1000 * random.uniform(1 - _JITTER, 1 + _JITTER)
        queue.retrying = True
        place = 0
        for other in queue.batches:
            later_half = other.outcome is batch.outcome and other.first > batch.first
            later = other.created > batch.created or other.sequence > batch.sequence >= 0
            if (not other.attempts and other.data is None) or later or later_half:  # numbered is as good as tried
                break
            place += 1
        queue.batches.insert(place, batch)
        self._accumulator.waiting[queue.partition] = queue

    def _split(self, queue: Queue, batch: Batch) -> None:
        """Send the halves of a batch that the broker finds too large; they keep its numbers."""
        log.debug("%s: %d records are too many for one batch, and are sent in two.", batch.partition, batch.count)
        halves = batch.split()
        sequence = batch.sequence
        for half in halves:
            half.close(queue.producer, sequence, self._config.codec, self._config.level)
            if sequence != NO_SEQUENCE:
                sequence = (sequence + half.count) & 0x7FFFFFFF
        self._accumulator.replace(batch, halves)

    def _give_up(self, batch: Batch, error: SlackwaterError) -> None:
        sent = batch.attempts > 0 and batch.sequence != NO_SEQUENCE
        queue = self._leave(batch)
        self._failed(batch, error)
        if sent and self._config.idempotent:
            self._new_id(queue)

    def _failed(self, batch: Batch, error: SlackwaterError) -> None:
        if batch.outcome.decided(batch.first, error=error):
            self._to_tell.append(batch.outcome)

    def _leave(self, batch: Batch) -> Queue:
        queue = self._accumulator.queues[batch.partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        elif batch in queue.batches:
            queue.batches.remove(batch)
        self._accumulator.release(batch)
        self._changed.notify_all()
        return queue

    def _new_id(self, queue: Queue) -> None:
        """What the broker has of a partition is not known: take another id, and count anew there."""
        self._producer = NO_PRODUCER
        queue.count_anew()

    def _give_up_late(self, now: float) -> None:
        limit = now - self._config.delivery_timeout_ms / 1000
        for queue in self._accumulator.queues.values():
            while queue.batches and queue.batches[0].created <= limit:
                batch = queue.batches[0]
                seconds = self._config.delivery_timeout_ms / 1000
                self._give_up(
                    batch,
                    ClientTimeoutError(
                        f"{batch.count} records for {batch.partition} were not delivered within {seconds:g} s."
                    ),
                )

    def _fail_all(self, error: SlackwaterError) -> None:
        for queue in self._accumulator.queues.values():
            for batch in list(queue.batches):
                self._leave(batch)
                self._failed(batch, error)
