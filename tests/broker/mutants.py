"""Requests that are nearly right: frames of every API and version the broker answers, damaged in some way.

Rules kept here
- The samples reach into the broker: they name topics and groups that are there, and carry records. Half of their fields
  are chance all the same.
- Everything follows from the seed.
- What is left out, because a broker that does as it is told would be disturbed by it rightly: requests that can still
  be read and then ask for more than MOST_PARTITIONS partitions, change the broker's own settings, or name what belongs
  to the client that must not notice (`is_off_limits`).
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
from slackwater.wire.envelope import decode_request, encode_request
from slackwater.wire.errors import WireError
from slackwater.wire.records.batch import ATTRIBUTES_AT
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.schema import Request
from tests.wire.samples import random_message

TOPICS: Final = ("target-a", "target-b", "__consumer_offsets")
GROUPS: Final = tuple(f"target-{number}" for number in range(20))
PROTECTED: Final = b"protected"
MOST_PARTITIONS: Final = 8
BROKER_RESOURCE: Final = 4
SAMPLES_PER_VERSION: Final = 12
_TOPIC_FIELDS: Final = frozenset({"topic", "name", "topic_name"})
_TIMES: Final = frozenset({"session_timeout_ms", "rebalance_timeout_ms", "max_wait_ms", "timeout_ms"})


class Samples:
    """Frames that are right, by API and version."""

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
            self._aim(request)
            client_id = self._rng.choice(("c", None, ""))
            try:
                frame = encode_request(request, version, self._rng.getrandbits(31), client_id)
            except WireError:
                continue  # it was aimed at something that this version has no field for
            if not is_off_limits(frame[4:]):
                return frame

    def _aim(self, part: Any) -> None:
        """Let half of the fields that name something name something that is there."""
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, list):
                for one in value:
                    if is_dataclass(one):
                        self._aim(one)
            elif is_dataclass(value):
                continue  # what is one value is frozen
            else:
                object.__setattr__(part, field.name, self._aimed(field.name, value))

    def _aimed(self, name: str, value: Any) -> Any:
        rng = self._rng
        if name in _TIMES and isinstance(value, int):
            return rng.choice((0, 1, 100))  # nobody waits for long
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
        made = [Record(rng.randbytes(3), rng.randbytes(9), [("h", b"x")], 1) for _ in range(rng.randint(1, 4))]
        producer_id = rng.choice((-1, 1, 2))
        sequence = rng.randint(0, 3) if producer_id >= 0 else -1
        epoch = 0 if producer_id >= 0 else -1
        codec = rng.choice(list(Codec))
        batch = encode_batch(made, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        if rng.random() < 0.5:
            # What is wrong in here is found only by looking behind a checksum that is right.
            for _ in range(rng.randint(1, 3)):
                batch[rng.randrange(ATTRIBUTES_AT, len(batch))] = rng.choice((0, 1, 0x7F, 0xFF, rng.getrandbits(8)))
            struct.pack_into(">I", batch, ATTRIBUTES_AT - 4, crc32c(bytes(batch[ATTRIBUTES_AT:])))
        return bytes(batch)


def is_off_limits(body: bytes) -> bool:
    """Whether a request can be read and asks for what this test does not want."""
    if PROTECTED in body:
        return True
    key = int.from_bytes(body[:2], "big")
    if key not in (CREATE_TOPICS.key, CREATE_PARTITIONS.key, ALTER_CONFIGS.key, INCREMENTAL_ALTER_CONFIGS.key):
        return False
    try:
        _, request = decode_request(body)
    except WireError:
        return False
    asked: Any = request
    if key == CREATE_TOPICS.key:
        wanted = [max(one.num_partitions, len(one.assignments)) for one in asked.topics]
        return any(count > MOST_PARTITIONS for count in wanted)
    if key == CREATE_PARTITIONS.key:
        return any(one.count > MOST_PARTITIONS for one in asked.topics)
    return any(one.resource_type == BROKER_RESOURCE for one in asked.resources)


def mutants(rng: random.Random, samples: list[bytes], count: int) -> Iterator[tuple[bytes, bool]]:
    """Damaged frames, and whether bytes behind one could be read as a part of it."""
    made = 0
    while made < count:
        frame, is_loose = _mutate(rng, samples)
        if not is_off_limits(frame[4:]):
            made += 1
            yield frame, is_loose


def _mutate(rng: random.Random, samples: list[bytes]) -> tuple[bytes, bool]:
    body = bytearray(rng.choice(samples)[4:])
    kind = rng.random()
    if kind < 0.45:
        for _ in range(rng.choice((1, 1, 2, 5))):
            body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.getrandbits(8)))
    elif kind < 0.75:
        at = rng.randrange(len(body))
        body[at] ^= 1 << rng.randrange(8)
    elif kind < 0.82:
        del body[rng.randrange(len(body)) :]
    elif kind < 0.87:
        other = rng.choice(samples)[4:]
        body = body[: rng.randrange(len(body))] + other[rng.randrange(len(other)) :]
    elif kind < 0.92:
        at = rng.randrange(len(body))
        body[at:at] = rng.randbytes(rng.randint(1, 20))
    elif kind < 0.98:
        # The numbers that say how long something is.
        at = rng.randrange(max(len(body) - 4, 1))
        body[at : at + 4] = struct.pack(">i", rng.choice((-1, -2, 0, 1, 2**31 - 1, -(2**31), 1 << 20)))
    else:
        return _wrong_size(rng, bytes(body)), True
    return struct.pack(">i", len(body)) + body, False


def _wrong_size(rng: random.Random, body: bytes) -> bytes:
    size = rng.choice((len(body) + rng.randint(1, 100), rng.randint(0, len(body)), -1, 2**31 - 1, 1 << 24))
    return struct.pack(">i", size) + body
