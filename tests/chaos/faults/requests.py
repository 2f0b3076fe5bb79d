"""Hostile requests, generated from the schemas: maximal arrays, bombs, forged ids, unknown versions, damaged frames.

Invariants:
- No frame names anything that is protected, asks for many partitions, or changes a setting of the broker: those are
  valid requests with valid effects.
- A hostile request may be answered, rejected or left without a response. Only its effect on others is checked.
"""

import random
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, Final

from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.wire.codec import request_type
from slackwater.wire.errors import WireError
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from slackwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from slackwater.wire.records.batch import ATTRIBUTES_AT, HEADER, HEADER_BYTES, LENGTH_ENDS_AT, MAGIC
from slackwater.wire.records.compression import Codec, compress
from slackwater.wire.records.crc import crc32c
from slackwater.wire.request_response import encode_request
from slackwater.wire.schema import ARRAY, STRING, STRUCT, UUID, FieldType, Layout, Request, Struct, layout
from tests.broker.mutant_sender import MutantSender
from tests.broker.mutants import Samples, is_off_limits, mutants
from tests.broker.raw_client import PRODUCE_V, RawClient
from tests.chaos.episode import COMPACTED_TARGET, TARGETS, Episode
from tests.chaos.faults.network import connect, connections
from tests.chaos.faults.registry import fault
from tests.chaos.oracles.liveness import read_exactly
from tests.chaos.oracles.log_lines import FORGED
from tests.wire.samples import random_message

LIST_OFFSETS_V: Final = 7
MAX_WAIT_S: Final = 20.0
SEND_S: Final = 30.0
FRAME_BYTES: Final = (10_000, 200_000, 2_000_000, 10_000_000, 99_000_000)
BOMB_BYTES: Final = (1 << 20, 16 << 20, 64 << 20, 200 << 20)
BOMB_RECORDS: Final = (100_000, 1_000_000)
CODECS: Final = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
CONTROL: Final = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0)))) + "\u2028\u2029\u202e\ufeff"
FORGED_LINE: Final = f"\n[2026-01-01 00:00:00,000] WARNING {FORGED} (slackwater.broker)\n"
IDS: Final = (
    CONTROL,
    FORGED_LINE,
    f"\r{FORGED_LINE}",
    f"\u2028{FORGED_LINE.strip()}\u2028",
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\x9b31m",
    "x" * 30_000,
    "%s%n%(name)s{0}",
    "../../../etc",
    "\x00",
)


def send(episode: Episode, *frames: bytes, wait_s: float = MAX_WAIT_S) -> int:
    """Send frames on a new connection and count the responses, until it ends or none comes in time."""
    episode.counts.requests += len(frames)
    with suppress(OSError), connect(episode) as connection:
        connection.settimeout(SEND_S)
        for frame in frames:
            connection.sendall(frame)
        return _count_responses(connection, len(frames), wait_s)
    return 0


def _count_responses(connection: socket.socket, count: int, wait_s: float) -> int:
    connection.settimeout(wait_s)
    responses = 0
    with suppress(OSError):
        while responses < count:
            _skip_response(connection)
            responses += 1
    return responses


def _skip_response(connection: socket.socket) -> None:
    (left,) = struct.unpack(">i", read_exactly(connection, 4))
    while left:
        received = connection.recv(min(left, 1 << 20))
        if not received:
            raise ConnectionError
        left -= len(received)


# --- maximal arrays ---------------------------------------------------------------------------------------------------


def array_paths(struct_layout: Layout) -> Iterator[tuple[str, ...]]:
    """Yield the field names that lead to each array of a structure, nested ones included."""
    for field in struct_layout.fields:
        inner = field.field_type
        if inner.kind is ARRAY:
            yield (field.name,)
            inner = inner.element_type
        if inner.kind is STRUCT:
            yield from ((field.name, *path) for path in array_paths(inner.struct_layout))


def array_frame(message: type[Request], version: int, path: tuple[str, ...], size: int, text: str = "") -> bytes:
    """Return a frame of about `size` bytes whose array at `path` is filled with minimal elements.

    The frames with one and with two elements show where the count and the element are.
    """
    api = message.API
    one, two = (
        encode_request(_with_elements(layout(message, version), path, count, text), version, 1, "chaos")[4:]
        for count in (1, 2)
    )
    element_bytes = len(two) - len(one)
    count_end = next(at for at in range(len(one)) if one[at] != two[at]) + 1
    count_start = count_end - (1 if api.is_flexible(version) else 4)
    element = one[count_end : count_end + element_bytes]
    number = max((size - len(one)) // element_bytes, 1)
    count = _varint(number + 1) if api.is_flexible(version) else struct.pack(">i", number)
    body = one[:count_start] + count + element * number + one[count_end + element_bytes :]
    return struct.pack(">i", len(body)) + body


def _with_elements(struct_layout: Layout, path: tuple[str, ...], count: int, text: str) -> Any:
    values: dict[str, object] = {}
    for field in struct_layout.fields:
        if field.name == path[0]:
            values[field.name] = _array_or_struct(field.field_type, path[1:], count, text)
        elif field.field_type.kind is STRING and not field.field_type.nullable:
            values[field.name] = text
    return struct_layout.struct(**values)


def _array_or_struct(field_type: FieldType, path: tuple[str, ...], count: int, text: str) -> object:
    if field_type.kind is STRUCT:
        return _with_elements(field_type.struct_layout, path, count, text)
    element = field_type.element_type
    if path:
        return [_with_elements(element.struct_layout, path, count, text)]
    return [_minimal(element, text)] * count


def _minimal(field_type: FieldType, text: str) -> object:
    kind = field_type.kind
    if kind is STRUCT:
        strings = [field.name for field in field_type.struct_layout.fields if field.field_type.kind is STRING]
        return field_type.struct_layout.struct(**dict.fromkeys(strings, text))
    if kind is STRING:
        return text
    return bytes(16) if kind is UUID else 0 if kind.code else b""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@cache
def all_arrays() -> list[tuple[type[Request], int, tuple[str, ...]]]:
    """Return every array in every version of the supported requests."""
    return [
        (request_type(api), version, path)
        for api in SUPPORTED_APIS
        for version in range(api.min_version, api.latest_stable + 1)
        for path in array_paths(layout(request_type(api), version))
    ]


def _random_array(rng: random.Random, sizes: Sequence[int]) -> tuple[bytes, str]:
    """Return a frame and its description."""
    message, version, path = rng.choice(all_arrays())
    text = rng.choice(("", TARGETS[0]))
    frame = array_frame(message, version, path, rng.choice(sizes), text)
    return frame, f"{message.API.name} v{version} {'.'.join(path)} {len(frame):,} bytes of {text!r}"


@fault("requests.arrays", weight=6)
def arrays(episode: Episode, rng: random.Random) -> str:
    """Fill an array with as many minimal elements as fit."""
    frame, detail = _random_array(rng, FRAME_BYTES)
    times = rng.choice((1, 1, 3))
    return f"{times} × {detail}, {send(episode, *[frame] * times)} answered"


# --- bombs ------------------------------------------------------------------------------------------------------------


@cache
def zeros_payload(codec: Codec, size: int) -> bytes:
    """Return one compressed record whose value is `size` zeros."""
    fixed = b"\x00\x00\x00\x01" + _zigzag(size)
    return bytes(compress(codec, _zigzag(len(fixed) + size + 1) + fixed + bytes(size) + b"\x00"))


@cache
def records_payload(codec: Codec, count: int) -> bytes:
    """Return many minimal records, compressed."""
    records = bytearray()
    for number in range(count):
        body = b"\x00\x00" + _zigzag(number) + b"\x01\x01\x00"
        records += _zigzag(len(body)) + body
    return bytes(compress(codec, bytes(records)))


def batch_of(codec: Codec, payload: bytes, count: int, timestamp_ms: int) -> bytes:
    """Return a record batch with a valid checksum around any payload."""
    length = HEADER_BYTES - LENGTH_ENDS_AT + len(payload)
    fields = (codec.value, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    batch = bytearray(HEADER.pack(0, length, 0, MAGIC, 0, *fields) + payload)
    struct.pack_into(">I", batch, ATTRIBUTES_AT - 4, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return bytes(batch)


def _zigzag(number: int) -> bytes:
    return _varint(number << 1)


def _random_bomb(episode: Episode, rng: random.Random) -> tuple[bytes, bytes, str]:
    """Return the frames that produce a bomb and search it by timestamp, and a description."""
    codec = rng.choice(CODECS)
    if rng.random() < 0.5:
        size = rng.choice(BOMB_BYTES)
        payload, count, detail = zeros_payload(codec, size), 1, f"{size >> 20} MB of zeros"
    else:
        count = rng.choice(BOMB_RECORDS)
        payload, detail = records_payload(codec, count), f"{count:,} empty records"
    count = rng.choice((count, count, count + 1, 1, 2**31 - 1))
    topic = rng.choice((*TARGETS, COMPACTED_TARGET))
    now_ms = episode.wall_ms()
    batch = batch_of(codec, payload, count, now_ms)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    produce = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data)
    search = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=now_ms)])])
    return (
        encode_request(produce, PRODUCE_V, 1, "chaos"),
        encode_request(search, LIST_OFFSETS_V, 2, "chaos"),
        f"{len(batch):,} bytes of {codec.name.lower()}, {detail}, to {topic}",
    )


@fault("requests.bombs", weight=4)
def bombs(episode: Episode, rng: random.Random) -> str:
    """Produce small batches that unpack to much, and let the broker search them by timestamp."""
    produce, search, detail = _random_bomb(episode, rng)
    times = rng.choice((1, 5, 20))
    return f"{times} × {detail}, {send(episode, *[produce] * times, search)} answered"


@fault("requests.crowd", weight=2)
def crowd(episode: Episode, rng: random.Random) -> str:
    """Send large arrays and bombs on many connections at once."""
    count = rng.choice((5, 20, 60))
    with connections(episode, count) as opened:
        for connection in opened:
            if rng.random() < 0.5:
                frames = [_random_array(rng, FRAME_BYTES[:4])[0]]
            else:
                frames = [*_random_bomb(episode, rng)[:2]]
            connection.settimeout(SEND_S)
            with suppress(OSError):
                connection.sendall(b"".join(frames))
            episode.counts.requests += len(frames)
        deadline = time.monotonic() + MAX_WAIT_S
        answered = sum(
            _count_responses(connection, 1, max(deadline - time.monotonic(), 0.001)) for connection in opened
        )
    return f"{count} connections, {answered} answered"


# --- ids, versions, damaged frames ------------------------------------------------------------------------------------


@fault("requests.ids", weight=3)
def ids(episode: Episode, rng: random.Random) -> str:
    """Send ids with every control character, in every text of every request, and join groups with them."""
    frames = [frame for _ in range(200) if (frame := _frame_with_ids(rng)) is not None]
    random.Random(rng.random()).shuffle(frames)
    for start in range(0, len(frames), 20):
        send(episode, *frames[start : start + 20], wait_s=0.2)
    for _ in range(5):
        group, client = rng.choice(IDS)[:249], rng.choice(IDS)[:1000]
        protocols = [JoinGroupRequestProtocol(rng.choice(IDS)[:100], b"")]
        join = JoinGroupRequest(group, 6_000, 6_000, "", None, "consumer", protocols)
        send(episode, encode_request(join, 3, 1, client), wait_s=0.5)
    return f"{len(frames)} requests"


def _frame_with_ids(rng: random.Random) -> bytes | None:
    api = rng.choice(SUPPORTED_APIS)
    version = rng.randint(api.min_version, api.latest_stable)
    request = random_message(rng, request_type(api), version)
    _replace_texts(request, layout(request_type(api), version), rng)
    try:
        frame = encode_request(request, version, rng.getrandbits(31), rng.choice(IDS)[:10_000])  # type: ignore[arg-type]
    except WireError:
        return None
    return None if is_off_limits(frame[4:]) else frame


def _replace_texts(part: Struct, struct_layout: Layout, rng: random.Random) -> None:
    for field in struct_layout.fields:
        inner = field.field_type.element_type if field.field_type.kind is ARRAY else field.field_type
        value = getattr(part, field.name)
        if inner.kind is STRING and isinstance(value, str) and rng.random() < 0.7:
            object.__setattr__(part, field.name, rng.choice(IDS))
        elif inner.kind is STRING and isinstance(value, list):
            object.__setattr__(part, field.name, [rng.choice(IDS) for _ in value])
        elif inner.kind is STRUCT and isinstance(value, list):
            for item in value:
                _replace_texts(item, inner.struct_layout, rng)


@fault("requests.versions")
def versions(episode: Episode, rng: random.Random) -> str:
    """Send unknown APIs and versions."""
    count = 100
    for _ in range(count):
        key, version = rng.choice((rng.randint(0, 100), rng.randint(-(2**15), 2**15 - 1))), rng.randint(-5, 30)
        body = struct.pack(">hhih", key, rng.choice((version, 2**15 - 1)), rng.getrandbits(31), 0)
        body += rng.randbytes(rng.randrange(50))
        if not is_off_limits(body):
            send(episode, struct.pack(">i", len(body)) + body, wait_s=0.05)
    return f"{count} requests"


@lru_cache(maxsize=1)  # the topics have other ids in each data directory
def _sample_frames(topic_ids: tuple[bytes, ...]) -> list[bytes]:
    return Samples(random.Random(1), topic_ids).frames


async def _target_ids(client: RawClient) -> tuple[bytes, ...]:
    topics = [MetadataRequestTopic(name=name) for name in TARGETS]
    response = await client.request(MetadataRequest(topics), MetadataResponse)
    return tuple(topic.topic_id for topic in response.topics)


@fault("requests.mutants", weight=4)
def mutated_frames(episode: Episode, rng: random.Random) -> str:
    """Send damaged frames of every API and version."""
    count = rng.choice((500, 3_000))
    sender = MutantSender(episode.port, mutants(rng, _sample_frames(episode.run(_target_ids)), count))
    sender.run()
    episode.counts.requests += count
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(sender.outcomes.items()))


@fault("requests.truncated")
def truncated(episode: Episode, rng: random.Random) -> str:
    """Send every beginning of a valid frame as a frame of its own, or without its end."""
    frame = rng.choice(_sample_frames(episode.run(_target_ids)))
    body = frame[4:][:300]

    def parts() -> Iterator[tuple[bytes, bool]]:
        for size in range(len(body)):
            yield struct.pack(">i", size) + body[:size], False
        yield frame[: rng.randrange(len(frame))], True

    sender = MutantSender(episode.port, (part for part in parts() if not is_off_limits(part[0][4:])))
    started_at = time.monotonic()
    sender.run()
    episode.counts.requests += len(body)
    return f"{len(body)} frames in {time.monotonic() - started_at:.1f} s"
