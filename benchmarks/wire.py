"""The message codec next to kio and kafka-python: microseconds to encode and to decode.

    python benchmarks/wire.py [--json]

All three process the same bytes in the same process, in alternating rounds; each figure is the best of several rounds.
The peers' objects come from their own decoders, and must encode to the same bytes before anything is timed. kio's
decoders are native code; Slackwater's and kafka-python's are Python.
"""

import importlib.util
import io
import json
import sys
import timeit
from collections.abc import Callable
from typing import NamedTuple

from slackwater.wire.codec import decode, encode
from slackwater.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from slackwater.wire.messages.heartbeat import HeartbeatRequest
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from slackwater.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from slackwater.wire.schema import Message

ROUNDS = 7
SECONDS_PER_ROUND = 0.05

MEMBER = "consumer-orders-7-0f4c2b1e-97ad-4f5c-8b7e-5a0f6f1c2d3e"
SAMPLES: tuple[tuple[Message, int], ...] = (
    (HeartbeatRequest("orders", 42, MEMBER, "orders-7"), 4),
    (
        OffsetCommitRequest(
            group_id="orders",
            generation_id_or_member_epoch=42,
            member_id=MEMBER,
            topics=[
                OffsetCommitRequestTopic(
                    name=f"topic-{topic}",
                    partitions=[OffsetCommitRequestPartition(number, 10**9 + number, 5, "") for number in range(10)],
                )
                for topic in range(3)
            ],
        ),
        8,
    ),
    (
        JoinGroupRequest(
            group_id="orders",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=MEMBER,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name, bytes(120)) for name in ("range", "cooperative-sticky")],
        ),
        7,
    ),
    (
        MetadataResponse(
            brokers=[MetadataResponseBroker(node, f"broker-{node}.example", 9092, "rack") for node in range(3)],
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    name=f"topic-{topic}",
                    topic_id=bytes(range(16)),
                    partitions=[
                        MetadataResponsePartition(0, number, number % 3, 5, [0, 1, 2], [0, 1, 2], [])
                        for number in range(12)
                    ],
                )
                for topic in range(20)
            ],
        ),
        12,
    ),
    (
        FetchResponse(
            session_id=7,
            responses=[
                FetchableTopicResponse(
                    topic=f"topic-{topic}",
                    partitions=[
                        PartitionData(number, 0, 10**9, 10**9, 0, aborted_transactions=None, records=bytes(4096))
                        for number in range(6)
                    ],
                )
                for topic in range(4)
            ],
        ),
        12,
    ),
)
KAFKA_PYTHON = {
    "HeartbeatRequest": "kafka.protocol.consumer.group",
    "JoinGroupRequest": "kafka.protocol.consumer.group",
    "OffsetCommitRequest": "kafka.protocol.consumer.group",
    "MetadataResponse": "kafka.protocol.metadata.metadata",
    "FetchResponse": "kafka.protocol.consumer.fetch",
}


class Codec(NamedTuple):
    """A library's functions that encode and decode one message."""

    write: Callable[[], object]
    read: Callable[[], object]


class Row(NamedTuple):
    """One line of the table; microseconds."""

    message: str
    size: int
    direction: str
    ours: float
    kio: float
    kafka_python: float


def ours(message: Message, version: int, data: bytes) -> Codec:
    """Slackwater."""
    kind = type(message)
    return Codec(lambda: encode(message, version), lambda: decode(kind, version, data))


def kio(message: Message, version: int, data: bytes) -> Codec:
    """kio, whose readers take a buffer and an offset and whose writers take a file."""
    index = importlib.import_module("kio.index")
    serial = importlib.import_module("kio.serial")
    name = type(message).__name__
    load = index.load_request_schema if name.endswith("Request") else index.load_response_schema
    schema = load(message.API.key, version)
    read, write = serial.entity_reader(schema), serial.entity_writer(schema)
    entity, _ = read(data, 0)

    def encode_entity() -> bytes:
        out = io.BytesIO()
        write(out, entity)
        return out.getvalue()

    return Codec(encode_entity, lambda: read(data, 0))


def kafka_python(message: Message, version: int, data: bytes) -> Codec:
    """kafka-python."""
    name = type(message).__name__
    kind = getattr(importlib.import_module(KAFKA_PYTHON[name]), name)
    entity = kind.decode(data, version=version)
    entity._header = None  # its decoder leaves it unset, and its encoder reads it
    return Codec(lambda: bytes(entity.encode(version=version)), lambda: kind.decode(data, version=version))


def microseconds(functions: list[Callable[[], object]]) -> list[float]:
    """Return the best time of each function; alternating rounds spread disturbances over all of them."""
    best = [float("inf")] * len(functions)
    runs = [
        max(1, int(SECONDS_PER_ROUND / max(timeit.timeit(function, number=20) / 20, 1e-7))) for function in functions
    ]
    for _ in range(ROUNDS):
        for number, function in enumerate(functions):
            best[number] = min(best[number], timeit.timeit(function, number=runs[number]) / runs[number] * 1e6)
    return best


def main() -> None:
    """Measure and print."""
    for name in ("kio", "kafka"):
        if importlib.util.find_spec(name) is None:
            raise SystemExit("slackwater: kio and kafka-python are missing: pip install kio kafka-python")
    rows: list[Row] = []
    for message, version in SAMPLES:
        data = encode(message, version)
        codecs = [make(message, version, data) for make in (ours, kio, kafka_python)]
        for codec in codecs:
            if codec.write() != data:
                raise SystemExit(f"{type(message).__name__} v{version}: the codecs do not write the same bytes.")
        writes = microseconds([codec.write for codec in codecs])
        reads = microseconds([codec.read for codec in codecs])
        both = [write + read for write, read in zip(writes, reads, strict=True)]
        name = f"{type(message).__name__} v{version}"
        for direction, times in (("write", writes), ("read", reads), ("both", both)):
            rows.append(Row(name, len(data), direction, *times))
    if "--json" in sys.argv:
        print(json.dumps([row._asdict() for row in rows]))
        return
    print("µs, best of rounds                        ours     kio  kafka-python   × kio  × kafka-python")
    for row in rows:
        print(
            f"{row.message:<26} {row.size:>6} B {row.direction:<5} {row.ours:>7.2f} {row.kio:>7.2f}"
            f" {row.kafka_python:>13.2f} {row.kio / row.ours:>7.1f} {row.kafka_python / row.ours:>15.1f}"
        )


if __name__ == "__main__":
    main()
