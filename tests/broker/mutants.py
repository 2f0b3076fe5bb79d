"""Damaged requests: mutations of valid frames of every supported API and version.

Invariants:
- About half of the fields in a sample refer to existing topics and groups, or hold valid records. The rest is random.
- The seed determines everything.
- Requests with valid effects that would disturb the test are left out (`is_off_limits`): more than MAX_PARTITIONS
  partitions, changes of broker settings, and names that belong to the protected client.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from crc32c import crc32c

from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.wire.apis import ALTER_CONFIGS, CREATE_PARTITIONS, CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS, Api
from slackwater.wire.codec import request_type
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import ATTRIBUTES_AT
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.request_response import decode_request, encode_request
from slackwater.wire.schema import Request
from tests.wire.samples import random_message

TOPICS: Final = ("target-a", "target-b", "__consumer_offsets")
GROUPS: Final = tuple(f"target-{number}" for number in range(20))
PROTECTED: Final = b"protected"
MAX_PARTITIONS: Final = 8
BROKER_RESOURCE: Final = 4
SAMPLES_PER_VERSION: Final = 12
_TOPIC_FIELDS: Final = frozenset({"topic", "name", "topic_name"})
_TIMES: Final = frozenset({"session_timeout_ms", "rebalance_timeout_ms", "max_wait_ms", "timeout_ms"})


class Samples:
    """Valid frames of every API and version."""

    def __init__(self, rng: random.Random, topic_ids: tuple[bytes, ...]) -> None:
        self._rng = rng
        self._topic_ids = topic_ids
        self.frames = [
            self._frame(api, version)
            for api in SUPPORTED_APIS
            for version in range(api.min_version, api.latest_stable + 1)
            for _ in range(SAMPLES_PER_VERSION)
        ]

    def _frame(self, api: Api, version: int) -> bytes:
        while True:
            request = random_message(self._rng, request_type(api), version)
            assert isinstance(request, Request)
            self._use_existing_names(request)
            client_id = self._rng.choice(("c", None, ""))
            try:
                frame = encode_request(request, version, self._rng.getrandbits(31), client_id)
            except WireError:
                continue  # this version does not have the changed field
            if not is_off_limits(frame[4:]):
                return frame

    def _use_existing_names(self, part: Any) -> None:
        """Change about half of the names and ids to existing ones."""
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, list):
                for item in value:
                    if is_dataclass(item):
                        self._use_existing_names(item)
            elif is_dataclass(value):
                continue  # single nested structures are frozen
            else:
                object.__setattr__(part, field.name, self._field_value(field.name, value))

    def _field_value(self, name: str, value: Any) -> Any:
        rng = self._rng
        if name in _TIMES and isinstance(value, int):
            return rng.choice((0, 1, 100))  # keep waits short
        if name == "num_partitions" or name == "count":
            return rng.randint(-1, 2)
        if rng.random() < 0.5:
            return value
        if name in _TOPIC_FIELDS:
            return rng.choice(TOPICS)
        if name == "group_id":
            return rng.choice(GROUPS)
        if name == "topic_id":
            return rng.choice(self._topic_ids)
        if name == "records":
            return self._records()
        if name in ("index", "partition", "partition_index"):
            return rng.randint(0, 2)
        if name in ("member_id", "protocol_type", "protocol_name"):
            return rng.choice(("", "consumer", "m"))
        if name == "acks":
            return rng.choice((-1, 1))
        return value

    def _records(self) -> bytes:
        rng = self._rng
        records = [Record(rng.randbytes(3), rng.randbytes(9), [("h", b"x")], 1) for _ in range(rng.randint(1, 4))]
        producer_id = rng.choice((-1, 1, 2))
        sequence = rng.randint(0, 3) if producer_id >= 0 else -1
        epoch = 0 if producer_id >= 0 else -1
        codec = rng.choice(list(Codec))
        batch = encode_batch(
            records, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        if rng.random() < 0.5:
            # The checksum is valid, so only the checks of the content can reject this batch.
            for _ in range(rng.randint(1, 3)):
                batch[rng.randrange(ATTRIBUTES_AT, len(batch))] = rng.choice((0, 1, 0x7F, 0xFF, rng.getrandbits(8)))
            struct.pack_into(">I", batch, ATTRIBUTES_AT - 4, crc32c(bytes(batch[ATTRIBUTES_AT:])))
        return bytes(batch)


def is_off_limits(body: bytes) -> bool:
    """Whether a request can be decoded and would disturb the test."""
    if PROTECTED in body:
        return True
    key = int.from_bytes(body[:2], "big")
    if key not in (CREATE_TOPICS.key, CREATE_PARTITIONS.key, ALTER_CONFIGS.key, INCREMENTAL_ALTER_CONFIGS.key):
        return False
    try:
        _, request = decode_request(body)
    except WireError:
        return False
    decoded: Any = request
    if key == CREATE_TOPICS.key:
        counts = [max(entry.num_partitions, len(entry.assignments)) for entry in decoded.topics]
        return any(count > MAX_PARTITIONS for count in counts)
    if key == CREATE_PARTITIONS.key:
        return any(entry.count > MAX_PARTITIONS for entry in decoded.topics)
    return any(entry.resource_type == BROKER_RESOURCE for entry in decoded.resources)


def mutants(rng: random.Random, samples: list[bytes], count: int) -> Iterator[tuple[bytes, bool]]:
    """Yield damaged frames, each with whether it may include the bytes that follow it."""
    yielded = 0
    while yielded < count:
        frame, has_wrong_size = _mutate(rng, samples)
        if not is_off_limits(frame[4:]):
            yielded += 1
            yield frame, has_wrong_size


def _mutate(rng: random.Random, samples: list[bytes]) -> tuple[bytes, bool]:
    body = bytearray(rng.choice(samples)[4:])
    kind = rng.random()
    if kind < 0.45:
        for _ in range(rng.choice((1, 1, 2, 5))):
            body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.getrandbits(8)))
    elif kind < 0.75:
        position = rng.randrange(len(body))
        body[position] ^= 1 << rng.randrange(8)
    elif kind < 0.82:
        del body[rng.randrange(len(body)) :]
    elif kind < 0.87:
        other = rng.choice(samples)[4:]
        body = body[: rng.randrange(len(body))] + other[rng.randrange(len(other)) :]
    elif kind < 0.92:
        position = rng.randrange(len(body))
        body[position:position] = rng.randbytes(rng.randint(1, 20))
    elif kind < 0.98:
        # Lengths and counts.
        position = rng.randrange(max(len(body) - 4, 1))
        body[position : position + 4] = struct.pack(">i", rng.choice((-1, -2, 0, 1, 2**31 - 1, -(2**31), 1 << 20)))
    else:
        return _wrong_size(rng, bytes(body)), True
    return struct.pack(">i", len(body)) + body, False


def _wrong_size(rng: random.Random, body: bytes) -> bytes:
    size = rng.choice((len(body) + rng.randint(1, 100), rng.randint(0, len(body)), -1, 2**31 - 1, 1 << 24))
    return struct.pack(">i", size) + body
