"""The public producer API.

Invariants:
- `send` returns at once, unless the buffer is full or the topic is unknown: then it waits up to `max.block.ms`.
- Any thread may send.
- `close` delivers all sent records, or fails them at its timeout. It aborts an open transaction.
- A call of the transaction API that has timed out continues on the network thread. The same call waits for it again;
  any other call is refused, except close() and an abort after send_offsets_to_transaction().
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from slackwater.client.config import PRODUCER_SETTINGS, cluster_config, int_value, merge_settings, parse_settings
from slackwater.client.config.functions import SerializeFunction, take_function
from slackwater.client.consumer.arguments import Offsets, check_offsets
from slackwater.client.errors import ClientClosedError, ClientTimeoutError, NetworkError
from slackwater.client.group_metadata import ConsumerGroupMetadata
from slackwater.client.network.cluster import Cluster, TopicMetadata
from slackwater.client.network.maintenance import run_maintenance
from slackwater.client.network.thread import NetworkThread
from slackwater.client.producer.accumulator import Accumulator
from slackwater.client.producer.delivery import OnDelivery, RecordMetadata
from slackwater.client.producer.partitioner import KeyPartitioner, StickyPartitioner
from slackwater.client.producer.sender import Sender, SenderConfig
from slackwater.client.producer.transaction_errors import FatalTransactionError, RetriableTransactionError
from slackwater.client.producer.transaction_requests import TransactionRequests
from slackwater.client.producer.transaction_states import TransactionManagerInput, TransactionManagerState
from slackwater.client.producer.transactions import ERROR_STATES, TransactionManager
from slackwater.escaping import get_logger
from slackwater.group.errors import Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import Value
from slackwater.wire.errors import WireError
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import NO_HEADERS, Header, pack_headers

log = get_logger("slackwater.client.producer")
_numbers = itertools.count(1)
_CODECS: Final = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}

# The maximum overhead of a record of up to a megabyte, and of a timestamp set by the application.
_OVERHEAD_BYTES: Final = 15
_TIMESTAMP_BYTES: Final = 8


class UnknownTopicError(ClientTimeoutError):
    """The topic does not exist, and was not created within max.block.ms."""


class SerializationError(SlackwaterError):
    """key.serializer or value.serializer failed; `__cause__` is the error."""


class Producer:
    """A Kafka producer: `Producer({"bootstrap.servers": "localhost:9092"})`."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **more: object) -> None:
        settings = merge_settings(config, more)
        self._serialize_key = take_function(settings, "key.serializer")
        self._serialize_value = take_function(settings, "value.serializer")
        ignored: list[str] = []
        values = parse_settings(settings, PRODUCER_SETTINGS, ignored=ignored.append)
        transactional_id = str(values["transactional.id"])
        self.client_id = str(values["client.id"]) or f"producer-{transactional_id or next(_numbers)}"
        sender = _sender_config(values, settings)
        self._max_block_s = int_value(values, "max.block.ms") / 1000
        self._max_request_bytes = int_value(values, "max.request.size")
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._accumulator = Accumulator(
            batch_bytes=max(int_value(values, "batch.size"), 1),
            linger_s=int_value(values, "linger.ms") / 1000,
            memory_bytes=int_value(values, "buffer.memory"),
        )
        self._topics: dict[str, _TopicState] = {}
        if ignored:
            log.info("Settings of other clients are ignored: %s.", ", ".join(sorted(ignored)))
        self._network = NetworkThread(f"slackwater-{self.client_id}")
        self._now = self._network.loop.time
        self._cluster = self._network.run(Cluster.create(cluster_config(values, self.client_id, settings)))
        self._transactions: TransactionManager | None = None
        self._requests: TransactionRequests | None = None
        self._operation: _Operation | None = None
        if transactional_id:
            self._transactions = TransactionManager(transactional_id, int_value(values, "transaction.timeout.ms"))
            self._requests = TransactionRequests(self._cluster, self._transactions, self._changed)
        self._sender = Sender(
            sender, self._accumulator, self._cluster, self._network, self._changed, self._transactions, self._requests
        )
        self._maintenance = self._network.submit(run_maintenance(self._cluster, self._refresh))

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<Producer {self.client_id!r} of {self._cluster.bootstrap_servers}{state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        on_delivery: OnDelivery | None = None,
    ) -> "Future[RecordMetadata]":
        """Send a record; the future and `on_delivery` receive its metadata or an error.

        >>> producer.send("orders", b"order 2", key=b"ann").result(timeout=10.0).offset
        2
        """
        if self._serialize_value is not None and value is not None:
            value = _serialize(self._serialize_value, value, "value", topic)
        if self._serialize_key is not None and key is not None:
            key = _serialize(self._serialize_key, key, "key", topic)
        if type(value) is not bytes:
            value = _bytes(value, "value")
        if type(key) is not bytes:
            key = _bytes(key, "key")
        size = _OVERHEAD_BYTES + (len(value) if value else 0) + (len(key) if key else 0)
        packed = NO_HEADERS
        if headers:
            packed = _pack_headers(headers)
            size += len(packed)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        else:
            _check_timestamp(timestamp_ms)
            size += _TIMESTAMP_BYTES
        if size > self._max_request_bytes:
            raise UsageError(f"A record for {topic} takes {size} bytes; max.request.size is {self._max_request_bytes}.")
        deadline: float | None = None  # most calls do not wait
        state = self._topics.get(topic)
        if state is None or state.metadata is not self._cluster.topics.get(topic) or self._closed:
            deadline = time.monotonic() + self._max_block_s
            state = self._topic(topic)
        if partition is not None:
            state = self._with_partition(state, partition)
        if on_delivery is not None and not callable(on_delivery):
            raise UsageError(f"on_delivery is {type(on_delivery).__name__}; pass a function of two arguments.")
        record = (key, value, packed, timestamp_ms)
        accumulator = self._accumulator
        with self._lock:
            if not accumulator.has_room(size) or self._sender.fatal is not None or self._closed:
                self._wait_for_room(size, deadline or time.monotonic() + self._max_block_s)
            if self._transactions is not None:
                self._transactions.call(TransactionManagerInput.SEND)
            if partition is None:
                partition = state.keys.partition(key) if key is not None else state.sticky.partition(size)
            queue = state.queues[partition]
            delivery, is_ready = accumulator.append(queue, record, size, on_delivery, self._now())
            if is_ready:
                self._sender.schedule()
        return delivery

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all sent records are delivered or failed.

        >>> delivery = producer.send("orders", b"order 2")
        >>> producer.flush(timeout=10.0)
        >>> delivery.done()
        True
        """
        self._not_closed()
        self._not_in_callback("flush()")
        if not self._drain(timeout):
            raise ClientTimeoutError(f"Not all records were delivered within {timeout:g} s.")

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic.

        >>> producer.partitions_for("orders")
        [TopicPartition(topic='orders', partition=0)]
        """
        return [queue.partition for queue in self._topic(topic).queues]

    def close(self, timeout: float | None = None) -> None:
        """Deliver all sent records, abort an open transaction, and close all connections.

        >>> producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        >>> delivery = producer.send("orders", b"order 2")
        >>> producer.close(timeout=10.0)
        """
        if self._closed:
            return
        self._not_in_callback("close()")
        try:
            if self._transactions is not None and self._transactions.is_open:
                self._end_open_transaction(self._max_block_s if timeout is None else timeout)
            else:
                self.flush(timeout)
        finally:
            self._closed = True
            self._maintenance.cancel()
            self._network.run(self._cluster.close())
            self._network.close()

    # --- transactions -------------------------------------------------------------------------------------------------

    def init_transactions(self, timeout: float | None = None) -> None:
        """Fence older producers with the same transactional.id, and abort their transaction; call it once.

        >>> producer = Producer(config | {"transactional.id": "billing-0"})
        >>> producer.init_transactions()
        >>> producer.close()
        """
        _, requests = self._transactional(call := TransactionManagerInput.INIT)
        self._start(call)
        self._complete(call, requests.init, self._deadline(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction: the records that are sent until its end become visible together, or never.

        >>> producer.begin_transaction()
        >>> delivery = producer.send("orders", b"order 2")
        >>> producer.commit_transaction()
        """
        self._transactional(TransactionManagerInput.BEGIN)
        self._start(TransactionManagerInput.BEGIN)

    def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """Commit a group's offsets with the transaction; they are rejected if the consumer is no longer a member.

        >>> records = consumer.poll(timeout=10.0)
        >>> producer.begin_transaction()
        >>> positions = {partition: consumer.position(partition) for partition in consumer.assignment}
        >>> producer.send_offsets_to_transaction(positions, consumer.group_metadata())
        >>> producer.commit_transaction()
        """
        _, requests = self._transactional(call := TransactionManagerInput.SEND_OFFSETS)
        checked = check_offsets(offsets)
        if not isinstance(group_metadata, ConsumerGroupMetadata):
            raise UsageError(f"The group metadata is {group_metadata!r}; pass consumer.group_metadata().")
        if not group_metadata.group_id:
            raise UsageError("The group metadata has no group; set group.id of the consumer.")
        self._start(call)
        if checked:
            arguments = (checked, group_metadata)
            self._complete(call, lambda: requests.send_offsets(*arguments), self._deadline(timeout), arguments)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records of the transaction and commit it, with the offsets that were sent to it.

        >>> producer.begin_transaction()
        >>> delivery = producer.send("orders", b"order 2")
        >>> producer.commit_transaction(timeout=10.0)
        >>> delivery.done()
        True
        """
        self._end(TransactionManagerInput.COMMIT, self._deadline(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction; records that were not sent yet fail with TransactionAbortedError.

        >>> producer.begin_transaction()
        >>> delivery = producer.send("orders", b"order 2")
        >>> producer.abort_transaction(timeout=10.0)
        """
        deadline = self._deadline(timeout)
        if self._operation is not None and self._operation.call is TransactionManagerInput.SEND_OFFSETS:
            self._wait(deadline)
        self._end(TransactionManagerInput.ABORT, deadline)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run a block in a transaction: committed at its end, aborted if it raises.

        >>> with producer.transaction():
        ...     delivery = producer.send("orders", b"order 2")
        >>> delivery.done()
        True
        """
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException as error:
            assert self._transactions is not None
            if self._transactions.state in (
                TransactionManagerState.IN_TRANSACTION,
                TransactionManagerState.ABORTABLE_ERROR,
            ):
                try:
                    self.abort_transaction()
                except FatalTransactionError as fatal:
                    raise fatal from error
                except SlackwaterError as failure:
                    log.warning("The transaction could not be aborted after %r: %s", error, failure)
            raise

    # --- internal -----------------------------------------------------------------------------------------------------

    def _transactional(self, call: TransactionManagerInput) -> tuple[TransactionManager, TransactionRequests]:
        if self._transactions is None or self._requests is None:
            raise UsageError(f"{call.value} needs a producer with transactional.id; set it to a name of this producer.")
        self._not_closed()
        self._not_in_callback(call.value)
        if self._operation is not None and self._operation.call is not call:
            before = self._operation.call.value
            raise UsageError(f"{before} has not completed; call it again before {call.value}.")
        return self._transactions, self._requests

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._max_block_s if timeout is None else timeout)

    def _start(self, call: TransactionManagerInput) -> None:
        """Change the state, unless this call repeats one that has timed out."""
        assert self._transactions is not None
        with self._lock:
            if self._operation is None:
                self._transactions.call(call)

    def _end(self, call: TransactionManagerInput, deadline: float) -> None:
        """Deliver or drop all records and end the transaction."""
        transactions, requests = self._transactional(call)
        self._start(call)
        if self._operation is None:
            if not self._drain(deadline - time.monotonic()):
                raise RetriableTransactionError(f"{call.value} is waiting for the delivery of records. Call it again.")
            if transactions.error is not None and transactions.state in ERROR_STATES:  # a batch has failed
                raise transactions.error
        self._complete(call, requests.end, deadline)

    def _complete(
        self,
        call: TransactionManagerInput,
        start: Callable[[], Coroutine[Any, Any, None]],
        deadline: float,
        arguments: object = None,
    ) -> None:
        """Run an operation, or wait for the one that an earlier call has started."""
        if self._operation is None:
            self._operation = _Operation(call, self._network.submit(start()), arguments)
        elif self._operation.arguments != arguments:
            raise UsageError(f"{call.value} has not completed; call it again with the same arguments.")
        if (result := self._wait(deadline)) is None:
            assert self._requests is not None
            reason = " ".join(("has not completed.", self._requests.last_failure)).rstrip()
            raise RetriableTransactionError(f"{call.value} {reason} Call it again.")
        result.result()

    def _wait(self, deadline: float) -> "Future[None] | None":
        """Wait for the operation in progress; None if it has not completed."""
        assert self._operation is not None
        future = self._operation.future
        if not wait([future], max(deadline - time.monotonic(), 0.0)).done:
            return None
        self._operation = None
        return future

    def _end_open_transaction(self, timeout: float) -> None:
        """Abort the open transaction, or complete a commit that has timed out."""
        assert self._transactions is not None
        is_committing = self._transactions.state is TransactionManagerState.COMMITTING
        try:
            (self.commit_transaction if is_committing else self.abort_transaction)(timeout)
        except SlackwaterError as error:
            log.warning(
                "The open transaction of transactional.id %s was not ended; the cluster ends it after "
                "transaction.timeout.ms: %s",
                self._transactions.transactional_id,
                error,
            )

    def _drain(self, timeout: float | None) -> bool:
        """Wait until all records are delivered or failed, and their callbacks have run; False at the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._accumulator.flushing += 1
            try:
                self._sender.schedule()
                while not self._accumulator.is_empty:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return False
                    self._changed.wait(left)
            finally:
                self._accumulator.flushing -= 1
        self._network.run(_do_nothing())  # after it, the last callbacks have run
        return True

    async def _refresh(self) -> None:
        await self._cluster.refresh(list(self._cluster.topics))

    def _topic(self, name: str) -> "_TopicState":
        """Return the state of a topic; request its metadata if necessary."""
        self._not_closed()
        if not isinstance(name, str) or not name:
            raise UsageError(f"The topic is {name!r}; pass a topic name.")
        metadata = self._cluster.topics.get(name)
        if metadata is None or not metadata.partitions:
            self._not_in_callback("send() to a topic that is not known yet")
            metadata = self._network.run(_find_topic(self._cluster, name, self._max_block_s))
        with self._lock:
            state = self._topics.get(name)
            if state is None or state.metadata is not metadata:
                state = self._topics[name] = _TopicState(metadata, self._accumulator)
        return state

    def _with_partition(self, state: "_TopicState", partition: int) -> "_TopicState":
        """Return the state of a topic with this partition; refresh the metadata before rejecting it."""
        name = state.metadata.name
        if isinstance(partition, int) and partition >= len(state.queues) and not self._network.is_current_thread:
            self._network.run(_find_topic(self._cluster, name, self._max_block_s))  # partitions may have been added
            state = self._topic(name)
        if not isinstance(partition, int) or not 0 <= partition < len(state.queues):
            raise UsageError(f"{name} has no partition {partition!r}; it has {len(state.queues)}, from 0 on.")
        return state

    def _wait_for_room(self, size: int, deadline: float) -> None:
        while not self._accumulator.has_room(size):
            self._not_in_callback("send() while the buffer is full")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ClientTimeoutError(
                    f"The buffer was full for {self._max_block_s:g} s: records are sent faster than "
                    "they are delivered. Send more slowly, or raise buffer.memory or max.block.ms."
                )
            self._changed.wait(left)
        if self._sender.fatal is not None:
            raise self._sender.fatal
        self._not_closed()

    def _not_closed(self) -> None:
        if self._closed:
            raise ClientClosedError("This producer was closed; make a new one.")

    def _not_in_callback(self, call: str) -> None:
        if self._network.is_current_thread:
            raise UsageError(f"{call} cannot be called inside a delivery callback: it would wait for itself.")


class _Operation(NamedTuple):
    """A call of the transaction API whose requests are in progress."""

    call: TransactionManagerInput
    future: Future[None]
    arguments: object = None


class _TopicState:
    """The queues and partitioners of a topic, valid for one metadata object."""

    __slots__ = ("keys", "metadata", "queues", "sticky")

    def __init__(self, metadata: TopicMetadata, accumulator: Accumulator) -> None:
        self.metadata = metadata
        self.queues = [
            accumulator.queue(TopicPartition(metadata.name, partition.index)) for partition in metadata.partitions
        ]
        self.keys = KeyPartitioner(len(self.queues))
        available = [partition.index for partition in metadata.partitions if partition.leader >= 0]
        self.sticky = StickyPartitioner(available or range(len(self.queues)), accumulator.batch_bytes)


async def _do_nothing() -> None:
    return None


async def _find_topic(cluster: Cluster, name: str, timeout_s: float) -> TopicMetadata:
    """Return the metadata of a topic; wait for its creation if it does not exist."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    is_missing, reason = False, "it does not exist"
    while True:
        try:
            metadata = (await cluster.refresh([name], create=True)).get(name)
            if metadata is not None and metadata.partitions and metadata.error is Error.NONE:
                return metadata
            if metadata is not None and metadata.error is not Error.NONE:
                if not metadata.error.retriable:
                    text = f"The topic {name} cannot be written to: {metadata.error.name}."
                    raise cluster.error(metadata.error, text, f"Write on topic {name}")
                reason = f"{metadata.error.name}."
            is_missing = metadata is None or metadata.error is Error.UNKNOWN_TOPIC_OR_PARTITION
        except NetworkError as error:
            is_missing, reason = False, str(error)
        if loop.time() >= deadline and is_missing:
            raise UnknownTopicError(
                f"There is no topic {name}, and the cluster created none within {timeout_s:g} s; create it, or see "
                "auto.create.topics.enable."
            )
        if loop.time() >= deadline:
            raise ClientTimeoutError(f"The topic {name} could not be found within {timeout_s:g} s: {reason}")
        await asyncio.sleep(cluster.config.retry_backoff_ms / 1000)


def _serialize(serialize: SerializeFunction, data: object, field: str, topic: str) -> bytes | str | None:
    try:
        return serialize(data)
    except Exception as error:
        raise SerializationError(f"The {field} of a record for {topic} cannot be serialized: {error!r}.") from error


def _bytes(text: object, what: str) -> bytes | None:
    if text is None:
        return None
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    raise UsageError(
        f"The {what} of a record is {type(text).__name__}; pass bytes, str or None, or set {what}.serializer."
    )


def _pack_headers(headers: Sequence[Header]) -> bytes:
    try:
        return pack_headers(headers)
    except (WireError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"Headers are pairs of str and bytes (or None), and these are not: {error}") from error


def _check_timestamp(timestamp_ms: int) -> None:
    if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms < 2**63:
        raise UsageError(f"{timestamp_ms!r} is not a timestamp; use whole milliseconds since 1970.")


def _delivery_timeout_ms(values: Mapping[str, Value], settings: Mapping[str, object]) -> int:
    """Return delivery.timeout.ms, at least linger.ms + request.timeout.ms, as in Java."""
    timeout_ms = int_value(values, "delivery.timeout.ms")
    min_ms = int_value(values, "linger.ms") + int_value(values, "request.timeout.ms")
    if timeout_ms < min_ms and "delivery.timeout.ms" in settings:
        raise UsageError(
            f"delivery.timeout.ms = {timeout_ms} is below linger.ms + request.timeout.ms, {min_ms}; use that or more."
        )
    return max(timeout_ms, min_ms)


def _sender_config(values: Mapping[str, Value], settings: Mapping[str, object]) -> SenderConfig:
    acks = _ACKS[str(values["acks"])]
    idempotent = bool(values["enable.idempotence"])
    max_in_flight = int_value(values, "max.in.flight.requests.per.connection")
    transactional = bool(values["transactional.id"])
    if transactional and not idempotent:
        raise UsageError("transactional.id needs enable.idempotence=true; remove enable.idempotence.")
    if idempotent and (acks != -1 or max_in_flight > 5 or int_value(values, "retries") == 0):
        if "enable.idempotence" in settings or transactional:
            name = "transactional.id" if transactional else "enable.idempotence"
            raise UsageError(
                f"{name} needs acks=all, retries above 0, and at most 5 for max.in.flight.requests.per.connection."
            )
        idempotent = False
    return SenderConfig(
        acks=acks,
        idempotent=idempotent,
        codec=_CODECS[str(values["compression.type"])],
        max_in_flight=max_in_flight,
        max_request_bytes=int_value(values, "max.request.size"),
        request_timeout_ms=int_value(values, "request.timeout.ms"),
        delivery_timeout_ms=_delivery_timeout_ms(values, settings),
        retries=int_value(values, "retries"),
    )


__all__ = ["Header", "Producer", "RecordMetadata", "SerializationError", "UnknownTopicError"]
