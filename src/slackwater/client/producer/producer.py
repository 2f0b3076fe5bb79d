"""The producer: records in, batches out, and word of what became of each.

Rules kept here
- `send` returns at once, unless the buffer is full or the topic not known yet: then it waits, up to `max.block.ms`.
- Any thread may send.
- `close` delivers what was sent, or gives it up when its time is over.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Final, Self

from slackwater.client.cluster import Cluster, TopicMetadata
from slackwater.client.config import PRODUCER_SETTINGS, cluster_config, given, number
from slackwater.client.errors import Closed, ConnectionFailed, TimedOut
from slackwater.client.housekeeping import keep_house
from slackwater.client.network import Network
from slackwater.client.producer.accumulator import RECORD_OVERHEAD, Accumulator, RecordMetadata
from slackwater.client.producer.partitioner import StickyPartitioner, partition_for_key
from slackwater.client.producer.sender import Sender, SenderConfig
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import Value
from slackwater.wire.compression import Codec
from slackwater.wire.records import Header, Record

log = logging.getLogger("slackwater.client.producer")
_numbers = itertools.count(1)
_CODECS: Final = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}

Text = bytes | str | None
OnDelivery = Callable[[RecordMetadata | None, SlackwaterError | None], None]


class Producer:
    """A producer; `Producer({"bootstrap.servers": "localhost:9092"})`."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **more: object) -> None:
        settings = dict(config or {}) | {name.replace("_", "."): value for name, value in more.items()}
        ignored: list[str] = []
        values = given(settings, PRODUCER_SETTINGS, ignored=ignored.append)
        self.client_id = str(values["client.id"]) or f"producer-{next(_numbers)}"
        sender = _sender_config(values, settings)
        self._max_block_s = number(values, "max.block.ms") / 1000
        self._max_request_bytes = number(values, "max.request.size")
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._accumulator = Accumulator(
            batch_bytes=max(number(values, "batch.size"), 1),
            linger_s=number(values, "linger.ms") / 1000,
            memory_bytes=number(values, "buffer.memory"),
        )
        self._sticky = StickyPartitioner(max(number(values, "batch.size"), 1))
        if ignored:
            log.info("Settings of other clients are ignored: %s.", ", ".join(sorted(ignored)))
        self._network = Network(f"slackwater-{self.client_id}")
        self._cluster = self._network.run(Cluster.make(cluster_config(values, self.client_id)))
        self._sender = Sender(sender, self._accumulator, self._cluster, self._network, self._changed)
        self._house = self._network.start(keep_house(self._cluster, self._refresh))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Text = None,
        key: Text = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        on_delivery: OnDelivery | None = None,
    ) -> "Future[RecordMetadata]":
        """Send a record; the future, and `on_delivery`, hear where it was written or why not."""
        record = Record(
            _bytes(key),
            _bytes(value),
            tuple(headers),
            time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms,
        )
        size = _size(record)
        if size > self._max_request_bytes:
            raise UsageError(f"A record for {topic} takes {size} bytes; max.request.size is {self._max_request_bytes}.")
        deadline = time.monotonic() + self._max_block_s
        known = self._topic(topic, deadline)
        delivered: Future[RecordMetadata] = Future()

        def heard(metadata: RecordMetadata | None, error: SlackwaterError | None) -> None:
            if error is not None:
                delivered.set_exception(error)
            elif metadata is not None:
                delivered.set_result(metadata)
            if on_delivery is not None:
                on_delivery(metadata, error)

        with self._changed:
            self._wait_for_room(size, deadline)
            where = TopicPartition(topic, self._partition(known, partition, record, size))
            if self._accumulator.append(where, record, size, heard, self._network.loop.time()):
                self._sender.kick()
            elif self._accumulator.queues[where].batches[-1].count == 1:
                self._sender.kick()  # its linger begins
        return delivered

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is delivered or given up."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._accumulator.flushing += 1
            try:
                self._sender.kick()
                while not self._accumulator.is_empty:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise TimedOut(f"Not everything was delivered within {timeout:g} s.")
                    self._changed.wait(left)
            finally:
                self._accumulator.flushing -= 1
        self._network.run(_nothing())  # the last callbacks have run

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        known = self._topic(topic, time.monotonic() + self._max_block_s)
        return [TopicPartition(topic, one.index) for one in known.partitions]

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, and let go of everything."""
        if self._closed:
            return
        try:
            self.flush(timeout)
        finally:
            self._closed = True
            self._house.cancel()
            self._network.run(self._cluster.close())
            self._network.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        await self._cluster.refresh(list(self._cluster.topics))

    def _topic(self, name: str, deadline: float) -> TopicMetadata:
        if self._closed:
            raise Closed("This producer was closed; make a new one.")
        known = self._cluster.topics.get(name)
        if known is not None and known.partitions:
            return known
        return self._network.run(_find_topic(self._cluster, name, max(deadline - time.monotonic(), 0.0)))

    def _wait_for_room(self, size: int, deadline: float) -> None:
        while not self._accumulator.has_room(size):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(
                    f"The buffer was full for {self._max_block_s:g} s: records come faster than they can be delivered. "
                    "Send more slowly, or raise buffer.memory or max.block.ms."
                )
            self._changed.wait(left)
        if self._sender.fatal is not None:
            raise self._sender.fatal
        if self._closed:
            raise Closed("This producer was closed; make a new one.")

    def _partition(self, topic: TopicMetadata, wanted: int | None, record: Record, size: int) -> int:
        count = len(topic.partitions)
        if wanted is not None:
            if not 0 <= wanted < count:
                raise UsageError(f"{topic.name} has no partition {wanted}; it has {count}, from 0 on.")
            return wanted
        if record.key is not None:
            return partition_for_key(record.key, count)
        available = [one.index for one in topic.partitions if one.leader >= 0]
        return self._sticky.partition(topic.name, available or range(count), size)


async def _nothing() -> None:
    return None


async def _find_topic(cluster: Cluster, name: str, timeout_s: float) -> TopicMetadata:
    """What the cluster knows of a topic, which it may have to create first."""
    import asyncio

    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    why = "it does not exist"
    while True:
        try:
            found = (await cluster.refresh([name], create=True)).get(name)
            if found is not None and found.partitions and found.error is Error.NONE:
                return found
            if found is not None and found.error is not Error.NONE:
                if not found.error.retriable:
                    raise BrokerError(found.error, f"The topic {name} cannot be written to: {found.error.name}.")
                why = found.error.name
        except ConnectionFailed as error:
            why = str(error)
        if loop.time() >= deadline:
            raise TimedOut(f"The topic {name} could not be found within {timeout_s:g} s: {why}")
        await asyncio.sleep(cluster.config.retry_backoff_ms / 1000)


def _bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _size(record: Record) -> int:
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 10
    return size


def _sender_config(values: Mapping[str, Value], settings: Mapping[str, object]) -> SenderConfig:
    acks = _ACKS[str(values["acks"])]
    idempotent = bool(values["enable.idempotence"])
    max_in_flight = number(values, "max.in.flight.requests.per.connection")
    if idempotent and (acks != -1 or max_in_flight > 5 or number(values, "retries") == 0):
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
        max_request_bytes=number(values, "max.request.size"),
        request_timeout_ms=number(values, "request.timeout.ms"),
        delivery_timeout_ms=number(values, "delivery.timeout.ms"),
        retries=number(values, "retries"),
    )


__all__ = ["Header", "Producer", "RecordMetadata"]
