"""Reading a topic with one fetch at a time: Apache Kafka and Slackwater in the same run.

    python benchmarks/broker_fetch.py [--rounds N] [--cells] [--only kafka|slackwater]

The table has a cell for each size of a batch, `fetch.min.bytes`, `max.partition.fetch.bytes` and layout of the topic:
one segment, segments of 1 MiB, a compacted topic with segments of 1 MiB, four partitions. A result is the worst cell of
a layout and a `fetch.min.bytes`; `--cells` prints every cell.

Method:
- The consumer does what a stock client does with one connection: an incremental fetch session, `fetch.max.bytes` of
  50 MiB, and the next fetch when the records of the last one are taken. It uses `fetch.max.wait.ms` of 25, because both
  brokers wait in some cells: where a partition's limit is below `fetch.min.bytes`, and for the last bytes of a topic.
- A pass reads the end of the topic, at most 20 times the limit of a partition. A figure is the time of the fastest
  pass, because a pass takes milliseconds and its requests are always the same. Every round repeats passes for at least
  0.1 seconds. The brokers alternate, round by round, after a warm-up of each. A cell above the target gets more rounds,
  up to six times as many, on both brokers: on a busy machine a pass is often interrupted.
- The consumer decodes no records. It knows the size of every batch from a first read of the topic, and so the offset
  that follows the complete batches of a response. Both brokers must return all bytes of the batches.
"""

import math
import socket
import struct
import sys
import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.brokers import (
    CLIENT_ID,
    NONE,
    POLL_SECONDS,
    UP_SECONDS,
    PeerFailed,
    Server,
    arguments,
    both,
    call,
    heading,
    report,
    run,
)

from slackwater.group.errors import Error
from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from slackwater.wire.records.batch import iter_batches
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.request_response import decode_response, encode_request

BATCH_BYTES: Final = (1_000, 16_000, 300_000, 900_000)
MIN_BYTES: Final = (1, 100_000, 1_000_000)
PARTITION_MAX_BYTES: Final = (100_000, 1_048_576, 4_194_304)
MAX_BYTES: Final = 52_428_800
MAX_WAIT_MS: Final = 25
MAX_REQUESTS: Final = 20  # of a pass
MAX_TOPIC_BYTES: Final = 12_000_000
MAX_TOPIC_BATCHES: Final = 4_000
SMALL_SEGMENT: Final = 1_048_576  # the smallest that Kafka accepts
MIN_PASSES_SECONDS: Final = 0.1
WARM_UP_SECONDS: Final = 8.0
COMPACTION_SECONDS: Final = 90
FETCH_VERSION: Final = 17
PRODUCE_VERSION: Final = 12  # the last with topic names
FINAL_EPOCH: Final = -1
RECORD_OVERHEAD: Final = 90  # at most, of a batch with one record
TARGET: Final = 1.2
MAX_REPEATS: Final = 6
_SIZE: Final = struct.Struct(">i")


class Layout(NamedTuple):
    """How a topic is stored."""

    title: str
    partitions: int = 1
    settings: tuple[tuple[str, str], ...] = ()
    is_compacted: bool = False


LAYOUTS: Final = (
    Layout("one segment"),
    Layout("1 MiB segments", settings=(("segment.bytes", str(SMALL_SEGMENT)),)),
    Layout("four partitions", partitions=4),
    Layout(
        "compacted, 1 MiB segments",
        settings=(
            ("segment.bytes", str(SMALL_SEGMENT)),
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.01"),
        ),
        is_compacted=True,
    ),
)


class Batches(NamedTuple):
    """The offset of each batch of a partition, and its position in the bytes of all; the last entry is the end."""

    offsets: list[int]
    positions: list[int]

    @property
    def end_offset(self) -> int:
        """The offset after the last batch."""
        return self.offsets[-1]

    @property
    def size(self) -> int:
        """The bytes of all batches."""
        return self.positions[-1]

    def next_offset(self, offset: int, size: int) -> int:
        """The offset after the complete batches in a response of `size` bytes that starts at `offset`."""
        at = bisect_right(self.offsets, offset) - 1
        return self.offsets[bisect_right(self.positions, self.positions[at] + size) - 1]

    def start_of_last(self, size: int) -> int:
        """The offset of the first batch in the last `size` bytes."""
        at = bisect_right(self.positions, max(self.size - size, 0)) - 1
        return self.offsets[at]


class TopicToRead(NamedTuple):
    """A topic on one broker."""

    server: Server
    topic_id: bytes
    partitions: list[Batches]


class Consumer:
    """One connection with a fetch session."""

    def __init__(self, topic: TopicToRead, connection: socket.socket, min_bytes: int, partition_max_bytes: int) -> None:
        self._topic = topic
        self._socket = connection
        self._min_bytes = min_bytes
        self._partition_max_bytes = partition_max_bytes
        self._session_id = self._session_epoch = 0
        self._positions: dict[int, int] = {}
        self._buffer = memoryview(bytearray(MAX_BYTES + 4_096))

    def run_pass(self) -> None:
        """Read the end of every partition."""
        limit = MAX_REQUESTS * self._partition_max_bytes
        partitions = self._topic.partitions
        self._positions = changed = {index: batches.start_of_last(limit) for index, batches in enumerate(partitions)}
        ends = {index: batches.end_offset for index, batches in enumerate(partitions)}
        while self._positions != ends:
            changed = self._fetch(changed)
            self._positions = self._positions | changed

    def close(self) -> None:
        """Close the session and the connection."""
        self._session_epoch = FINAL_EPOCH
        self._fetch({})
        self._socket.close()

    def _fetch(self, changed: dict[int, int]) -> dict[int, int]:
        """Send changed positions, and return the positions after the records of the response."""
        partitions = [
            FetchPartition(index, fetch_offset=offset, partition_max_bytes=self._partition_max_bytes)
            for index, offset in changed.items()
        ]
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=self._min_bytes,
            max_bytes=MAX_BYTES,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id=self._topic.topic_id, partitions=partitions)] if partitions else [],
        )
        self._socket.sendall(encode_request(request, FETCH_VERSION, 0, CLIENT_ID))
        response = decode_response(FetchResponse, FETCH_VERSION, self._receive())[1]
        if response.error_code != NONE:
            raise PeerFailed(f"{self._topic.server.name} rejected a fetch with error {response.error_code}.")
        self._session_id = response.session_id
        self._session_epoch += 1
        return {
            data.partition_index: self._topic.partitions[data.partition_index].next_offset(
                self._positions[data.partition_index], len(data.records)
            )
            for topic in response.responses
            for data in topic.partitions
            if data.records
        }

    def _receive(self) -> bytes:
        received, size = 0, _SIZE.size
        while received < size:
            piece = self._socket.recv_into(self._buffer[received:])
            if not piece:
                raise PeerFailed(f"{self._topic.server.name} closed the connection.")
            received += piece
            if size == _SIZE.size and received >= size:
                size += _SIZE.unpack_from(self._buffer)[0]
        return cast("bytes", self._buffer[_SIZE.size : size])  # not a copy; the decoder accepts both


# --- topics -----------------------------------------------------------------------------------------------------------


def create_topic(server: Server, name: str, layout: Layout) -> bytes:
    """Create a topic and return its id."""
    configs = [CreatableTopicConfig(key, value) for key, value in layout.settings]
    request = CreateTopicsRequest([CreatableTopic(name, layout.partitions, 1, configs=configs)])
    (result,) = server.call(request, 7, CreateTopicsResponse).topics
    if result.error_code != NONE:
        raise PeerFailed(f"{server.name} did not create topic {name}: {result.error_code}, {result.error_message}")
    return result.topic_id


def batch_count(batch_bytes: int) -> int:
    """How many batches of this size a topic gets."""
    return min(MAX_TOPIC_BYTES // batch_bytes, MAX_TOPIC_BATCHES)


def fill(server: Server, name: str, layout: Layout, batch_bytes: int) -> None:
    """Write batches of one record, the same number to every partition."""
    batches = batch_count(batch_bytes)
    now_ms = int(time.time() * 1000)
    value = bytes(batch_bytes - RECORD_OVERHEAD)
    with server.connect() as connection:
        for number in range(batches):
            # A compacted topic keeps the second half.
            key = b"%08d" % (number % (batches // 2) if layout.is_compacted else number)
            records = bytes(encode_batch([Record(key, value, timestamp=now_ms)]))
            data = [PartitionProduceData(number % layout.partitions, records)]
            request = ProduceRequest(
                acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name, partition_data=data)]
            )
            append(server, connection, request)


def append(server: Server, connection: socket.socket, request: ProduceRequest) -> None:
    """Write one batch. A new partition of Kafka has no leader for a moment."""
    give_up = time.monotonic() + UP_SECONDS
    while True:
        (topic,) = call(connection, request, PRODUCE_VERSION, ProduceResponse).responses
        (partition,) = topic.partition_responses
        if partition.error_code == NONE:
            return
        if partition.error_code not in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.NOT_LEADER_OR_FOLLOWER):
            raise PeerFailed(f"{server.name} rejected a batch with error {partition.error_code}.")
        if time.monotonic() > give_up:
            raise PeerFailed(f"{server.name} has no leader for a new partition after {UP_SECONDS} s.")
        time.sleep(POLL_SECONDS)


def read_batches(server: Server, topic_id: bytes, partition: int) -> Batches:
    """Read the batches of a partition."""
    offsets, positions, offset = [0], [0], 0
    with server.connect() as connection:
        while True:
            position = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=MAX_BYTES)
            request = FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[position])])
            (topic,) = call(connection, request, FETCH_VERSION, FetchResponse).responses
            (data,) = topic.partitions
            for batch in iter_batches(data.records or b""):
                offset = batch.next_offset
                offsets.append(offset)
                positions.append(positions[-1] + batch.size)
            if offset == data.high_watermark:
                return Batches(offsets, positions)


def read_topic(server: Server, topic_id: bytes, layout: Layout, batch_bytes: int) -> TopicToRead:
    """Read the batches of a topic, after compaction if it is compacted."""
    give_up = time.monotonic() + COMPACTION_SECONDS
    # The active segment is not compacted.
    compacted_bytes = batch_count(batch_bytes) * batch_bytes // 2 + SMALL_SEGMENT
    while True:
        partitions = [read_batches(server, topic_id, index) for index in range(layout.partitions)]
        if not layout.is_compacted or sum(batches.size for batches in partitions) <= compacted_bytes:
            return TopicToRead(server, topic_id, partitions)
        if time.monotonic() > give_up:
            raise PeerFailed(f"{server.name} did not compact a topic within {COMPACTION_SECONDS} s.")
        time.sleep(1)


# --- measurement ------------------------------------------------------------------------------------------------------


def fastest_pass(consumer: Consumer, seconds: float = MIN_PASSES_SECONDS) -> float:
    """The time of the fastest of some passes, in milliseconds."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        consumer.run_pass()
        times.append(time.perf_counter() - started)
    return min(times) * 1e3


class Cell(NamedTuple):
    """The time of a cell on each broker."""

    title: str
    times_ms: list[float]

    @property
    def ratio(self) -> float:
        """Ours to Kafka's."""
        return self.times_ms[-1] / self.times_ms[0]


def in_kilobytes(size: int) -> str:
    """A size for a title."""
    return f"{size // 1000} kB" if size >= 1000 else f"{size} B"


def measure_cell(topics: Sequence[TopicToRead], batch_bytes: int, min_bytes: int, limit: int, rounds: int) -> Cell:
    """Measure one cell on all brokers."""
    cell = Cell(f"batches {in_kilobytes(batch_bytes)}, limit {in_kilobytes(limit)}", [math.inf] * len(topics))
    consumers = [Consumer(topic, topic.server.connect(), min_bytes, limit) for topic in topics]
    try:
        for consumer in consumers:
            consumer.run_pass()
        for number in range(MAX_REPEATS * rounds):
            if number >= rounds and cell.ratio <= TARGET:
                break
            for at, consumer in enumerate(consumers):
                cell.times_ms[at] = min(cell.times_ms[at], fastest_pass(consumer))
    finally:
        for consumer in consumers:
            consumer.close()
    return cell


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", action="store_true", help="print every cell")
    options = parser.parse_args()
    with both(options.only) as servers:
        topic_ids = {}
        for layout, batch_bytes in product(LAYOUTS, BATCH_BYTES):
            name = f"fetch-{LAYOUTS.index(layout)}-{batch_bytes}"
            for server in servers:
                topic_ids[server, layout, batch_bytes] = create_topic(server, name, layout)
                fill(server, name, layout, batch_bytes)
        for server in servers:
            topic = read_topic(server, topic_ids[server, LAYOUTS[0], BATCH_BYTES[0]], LAYOUTS[0], BATCH_BYTES[0])
            consumer = Consumer(topic, server.connect(), 1, PARTITION_MAX_BYTES[0])
            fastest_pass(consumer, WARM_UP_SECONDS)
            consumer.close()
        heading("time of a pass, ms: worst cell", [server.name for server in servers])
        for layout in LAYOUTS:
            topics = {
                size: [read_topic(server, topic_ids[server, layout, size], layout, size) for server in servers]
                for size in BATCH_BYTES
            }
            for min_bytes in MIN_BYTES:
                cells = [
                    measure_cell(topics[size], size, min_bytes, limit, options.rounds)
                    for size, limit in product(BATCH_BYTES, PARTITION_MAX_BYTES)
                ]
                for cell in cells if options.cells else ():
                    columns = "".join(f"{time_ms:>13,.1f}" for time_ms in cell.times_ms)
                    print(f"    {cell.title:<46}{columns}{cell.ratio:>9.2f}", flush=True)
                worst = max(cells, key=lambda cell: cell.ratio)
                title = f"{layout.title}, min {in_kilobytes(min_bytes)} ({worst.title}), ms"
                report(title, [[time_ms] for time_ms in worst.times_ms], ",.1f", f"≤ {TARGET}")


if __name__ == "__main__":
    run(main)
