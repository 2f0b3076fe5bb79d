"""Sends hostile requests to a broker while a bystander's heartbeats are timed.

    python -m tests.broker.hostile_matrix [--all-versions] [--api NAME] …

prints the worst requests: the longest heartbeat of another client, and the broker's peak memory.
"""

import argparse
import struct
import tempfile
import time
from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.wire import apis
from slackwater.wire.apis import Api
from slackwater.wire.fields import MAX_REQUEST_ELEMENTS
from slackwater.wire.frames import frame
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from slackwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from slackwater.wire.messages.describe_transactions import DescribeTransactionsRequest
from slackwater.wire.messages.end_txn import EndTxnRequest
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from slackwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from slackwater.wire.messages.list_transactions import ListTransactionsRequest
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from slackwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from slackwater.wire.records.batch import HEADER, HEADER_BYTES
from slackwater.wire.records.compression import Codec, compress
from slackwater.wire.records.crc import crc32c
from slackwater.wire.request_response import encode_request
from slackwater.wire.schema import NO_UUID, Request

from .blocking_member import BlockingMember
from .broker_process import BrokerProcess
from .bystander import Bystander, exchange
from .hostile_requests import CORRELATION_ID, MINIMAL, Values, hostile_requests

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "log.cleaner.backoff.ms": "100", "log.roll.ms": "1"}
NAME = "x"  # of the topic and the group that the requests name
COMPACTED = "compacted"
WIDE = "wide"
WIDE_PARTITIONS = 500
TRANSACTIONAL_ID = "a" * 128
LARGEST = 100 * 1024 * 1024
MAX_MEMORY_BYTES = 512 * 1024 * 1024
# These change what later requests are about.
_DESTRUCTIVE = frozenset({apis.DELETE_TOPICS, apis.LEAVE_GROUP})
_RECORDS = 1_000_000


class Attack(NamedTuple):
    """A hostile request."""

    name: str
    frame: bytes


class Outcome(NamedTuple):
    """What an attack did to the broker."""

    name: str
    heartbeat_s: float
    peak_bytes: int
    seconds: float
    response_bytes: int | None


def run(attacks: Iterator[Attack], broker: BrokerProcess, bystander: Bystander) -> Iterator[Outcome]:
    """Send every attack on its own connection."""
    for attack in attacks:
        bystander.take_worst_s()  # building the frame has delayed the bystander of this process
        started = time.perf_counter()
        size = exchange(broker.port, attack.frame)
        seconds = time.perf_counter() - started
        yield Outcome(attack.name, bystander.take_worst_s(), broker.peak_resident_bytes(), seconds, size)


def prepare(broker: BrokerProcess) -> tuple[BlockingMember, bytes]:
    """Create the group and the topics that the requests name; return the group's member and the id of the topic."""
    member = BlockingMember(broker.port, NAME, 600_000)
    compacted = [CreatableTopicConfig("cleanup.policy", "compact")]
    topics = [CreatableTopic(NAME, 3, 1), CreatableTopic(COMPACTED, 1, 1, configs=compacted)]
    member.request(CreateTopicsRequest(topics), CreateTopicsResponse, 5)
    metadata = member.request(MetadataRequest([MetadataRequestTopic(name=NAME)]), MetadataResponse, 10)
    assert isinstance(metadata, MetadataResponse)
    topic_id = metadata.topics[0].topic_id
    assert topic_id != NO_UUID
    return member, topic_id


def all_attacks(
    topic_id: bytes, *, all_versions: bool = False, only: Collection[Api] = SUPPORTED_APIS
) -> Iterator[Attack]:
    """Return every attack with requests of some APIs."""
    yield from arrays(topic_id, all_versions=all_versions, only=only)
    yield from beyond_the_limit(only)
    yield from strings(only)
    if apis.HEARTBEAT in only:
        yield from tagged_fields()
    if apis.CREATE_TOPICS in only:
        many = CreateTopicsRequest([CreatableTopic("many", 1_000, 1)], timeout_ms=60_000)
        yield Attack("CreateTopics with 1,000 partitions", encode_request(many, 5, CORRELATION_ID, None))
    if apis.PRODUCE in only:
        yield from bombs()


def arrays(topic_id: bytes, *, all_versions: bool = False, only: Collection[Api] = SUPPORTED_APIS) -> Iterator[Attack]:
    """As many array elements as a request may have, empty or with the names of existing resources."""
    count = MAX_REQUEST_ELEMENTS - 3
    for values in (MINIMAL, Values(NAME), Values(NAME, 2, topic_id)):
        for request in hostile_requests(count, values, all_versions=all_versions, only=only):
            if values is MINIMAL or request.api not in _DESTRUCTIVE:
                yield Attack(f"{request}, {values.string!r} and {values.number}", request.frame)


def beyond_the_limit(only: Collection[Api] = SUPPORTED_APIS) -> Iterator[Attack]:
    """Millions of elements in arrays of the newest versions."""
    for request in hostile_requests(4_000_000, only=only):
        if len(request.frame) <= LARGEST:
            yield Attack(f"{request}, four million", request.frame)


def strings(only: Collection[Api] = SUPPORTED_APIS) -> Iterator[Attack]:
    """Megabytes of long strings that are not ASCII."""
    long = "ä" * (32_766 // 2)
    count = 15 * (1 << 20) // 32_800
    chosen = [
        api
        for api in (apis.FIND_COORDINATOR, apis.DESCRIBE_GROUPS, apis.OFFSET_FETCH, apis.DELETE_GROUPS)
        if api in only
    ]
    for request in hostile_requests(count, Values(long), only=chosen):
        if "." not in request.array:
            yield Attack(f"{request}, long strings", request.frame)
    if apis.PRODUCE in only:
        topics = [TopicProduceData(long, partition_data=[]) for _ in range(2_900)]
        produce = ProduceRequest(acks=1, topic_data=topics)
        yield Attack("Produce v12 long topic names", encode_request(produce, 12, CORRELATION_ID, None))


def tagged_fields() -> Iterator[Attack]:
    """Millions of unknown tagged fields, in the header and in the body."""
    header = struct.pack(">hhih", apis.HEARTBEAT.key, 4, CORRELATION_ID, -1)
    count = b"\x80\xad\xe2\x04"  # 10,000,000
    fields = b"\x63\x00" * 10_000_000
    yield Attack("Heartbeat tagged fields of the header", frame(header + count + fields))
    body = b"\x02x\x00\x00\x00\x01\x02x\x00"
    yield Attack("Heartbeat tagged fields of the body", frame(header + b"\x00" + body + count + fields))


def transactions(broker: BrokerProcess) -> Iterator[Attack]:
    """Requests about a transaction with many partitions, and a pattern with many ways to match its id."""
    client = BlockingMember(broker.port, "transactions", 600_000)
    client.request(CreateTopicsRequest([CreatableTopic(WIDE, WIDE_PARTITIONS, 1)]), CreateTopicsResponse, 5)
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID])
    for _ in range(2):  # the first one creates the topic of transactions
        client.request(find, FindCoordinatorResponse, 4)
    producer = client.request(InitProducerIdRequest(TRANSACTIONAL_ID, 60_000), InitProducerIdResponse, 4)
    assert isinstance(producer, InitProducerIdResponse)
    producer_id, epoch = producer.producer_id, producer.producer_epoch
    client.close()
    partitions = list(range(WIDE_PARTITIONS))
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTIONAL_ID,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(WIDE, partitions)],
    )
    yield _attack("AddPartitionsToTxn with many partitions", add, 3)
    yield _attack("DescribeTransactions of one id", DescribeTransactionsRequest([TRANSACTIONAL_ID] * 10_000), 0)
    yield _attack("EndTxn with many partitions", EndTxnRequest(TRANSACTIONAL_ID, producer_id, epoch, True), 3)
    markers = [
        WritableTxnMarker(number, 0, True, [WritableTxnMarkerTopic(WIDE, partitions)], 0, 0)
        for number in range(20_000 // WIDE_PARTITIONS)
    ]
    yield _attack("WriteTxnMarkers with many partitions", WriteTxnMarkersRequest(markers), 1)
    pattern = "a?" * 8 + "a*" * 4 + "b"
    yield _attack("ListTransactions with a pattern", ListTransactionsRequest(transactional_id_pattern=pattern), 2)


def _attack(name: str, request: Request, version: int) -> Attack:
    return Attack(name, encode_request(request, version, CORRELATION_ID, None))


def bombs() -> Iterator[Attack]:
    """Small batches with many records or bytes, then the search for a timestamp in them."""
    batches = {
        f"{codec.name} {name}": batch
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
        for name, payload, count in (
            ("many records", _records(), _RECORDS),
            ("30 MB", _record(0, bytes(30 << 20)), 1),
            ("200 MB", bytes(200 << 20) if codec is not Codec.SNAPPY else bytes(20 << 20), 1),
        )
        if len(batch := _batch(codec, compress(codec, payload), count)) < 1 << 20
    }
    for topic in (NAME, COMPACTED):
        for name, batch in batches.items():
            yield Attack(f"Produce {name} to {topic}", _produce(topic, batch))
    search = ListOffsetsRequest(topics=[ListOffsetsTopic(NAME, [ListOffsetsPartition(0, timestamp=5)])])
    for _ in range(3):
        yield Attack("ListOffsets in bombs", encode_request(search, 6, CORRELATION_ID, None))


def _produce(topic: str, batch: bytes) -> bytes:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    return encode_request(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 12, CORRELATION_ID, None)


@cache
def _records() -> bytes:
    return b"".join(_record(number, b"") for number in range(_RECORDS))


def _record(number: int, value: bytes) -> bytes:
    body = b"\0\0" + _varint(number) + b"\x02k" + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    left = value << 1
    data = bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)


def _batch(codec: Codec, payload: bytes, count: int) -> bytes:
    """Build a batch whose header claims a newer record than it has, so that a search reads all of it."""
    data = bytearray(HEADER_BYTES + len(payload))
    HEADER.pack_into(data, 0, 0, len(data) - 12, -1, 2, 0, codec, count - 1, 1, 10, -1, -1, -1, count)
    data[HEADER_BYTES:] = payload
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def main() -> None:
    """Print the worst outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all-versions", action="store_true")
    parser.add_argument("--api", action="append", help="only this API; may be repeated")
    arguments = parser.parse_args()
    only = [api for api in SUPPORTED_APIS if arguments.api is None or api.name in arguments.api]
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory) / "data", SETTINGS) as broker:
        member, topic_id = prepare(broker)
        with Bystander(broker.port, broker.pid).running() as bystander:
            attacks = all_attacks(topic_id, all_versions=arguments.all_versions, only=only)
            outcomes = list(run(chain(attacks, transactions(broker)), broker, bystander))
        member.close()
        print(f"{len(outcomes)} requests, errors of the bystander: {bystander.errors}")
        for outcome in sorted(outcomes, key=lambda outcome: -outcome.heartbeat_s)[:30]:
            print(
                f"{outcome.heartbeat_s * 1000:7.0f} ms  {outcome.seconds:6.2f} s  {outcome.peak_bytes >> 20:5} MB  "
                f"{outcome.response_bytes!s:>10}  {outcome.name}"
            )


if __name__ == "__main__":
    main()
