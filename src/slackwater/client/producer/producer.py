"""The public producer API.

Invariants:
- `send` returns at once, unless the buffer is full or the topic is unknown: then it waits up to `max.block.ms`.
- Any thread may send.
- `close` delivers all sent records, or fails them at its timeout.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Final, Self

from slackwater.client.config import PRODUCER_SETTINGS, cluster_config, int_value, merge_settings, parse_settings
from slackwater.client.config.functions import SerializeFunction, take_function
from slackwater.client.errors import ClientClosedError, ClientTimeoutError, NetworkError
from slackwater.client.network.cluster import Cluster, TopicMetadata
from slackwater.client.network.maintenance import run_maintenance
from slackwater.client.network.thread import NetworkThread
from slackwater.client.producer.accumulator import Accumulator
from slackwater.client.producer.delivery import OnDelivery, RecordMetadata
from slackwater.client.producer.partitioner import KeyPartitioner, StickyPartitioner
from slackwater.client.producer.sender import Sender, SenderConfig
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
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
        self.client_id = str(values["client.id"]) or f"producer-{next(_numbers)}"
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
        self._cluster = self._network.run(Cluster.create(cluster_config(values, self.client_id)))
        self._sender = Sender(sender, self._accumulator, self._cluster, self._network, self._changed)
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
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._accumulator.flushing += 1
            try:
                self._sender.schedule()
                while not self._accumulator.is_empty:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise ClientTimeoutError(f"Not all records were delivered within {timeout:g} s.")
                    self._changed.wait(left)
            finally:
                self._accumulator.flushing -= 1
        self._network.run(_do_nothing())  # after it, the last callbacks have run

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic.

        >>> producer.partitions_for("orders")
        [TopicPartition(topic='orders', partition=0)]
        """
        return [queue.partition for queue in self._topic(topic).queues]

    def close(self, timeout: float | None = None) -> None:
        """Deliver all sent records and close all connections.

        >>> producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        >>> delivery = producer.send("orders", b"order 2")
        >>> producer.close(timeout=10.0)
        """
        if self._closed:
            return
        self._not_in_callback("close()")
        try:
            self.flush(timeout)
        finally:
            self._closed = True
            self._maintenance.cancel()
            self._network.run(self._cluster.close())
            self._network.close()

    # --- internal -----------------------------------------------------------------------------------------------------

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
                    raise BrokerError(metadata.error, f"The topic {name} cannot be written to: {metadata.error.name}.")
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
        raise UsageError(f"{timestamp_ms!r} is no timestamp; use whole milliseconds since 1970.")


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
    if idempotent and (acks != -1 or max_in_flight > 5 or int_value(values, "retries") == 0):
        if "enable.idempotence" in settings:
            raise UsageError(
                "enable.idempotence needs acks=all, retries above 0, and at most 5 for "
                "max.in.flight.requests.per.connection."
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
