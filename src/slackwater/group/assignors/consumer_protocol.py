"""The embedded protocol of protocol type `consumer`: subscriptions and assignments as bytes.

Invariants:
- Subscription v0 has topics and user data, v1 adds the owned partitions, v2 their generation, v3 the rack. A newer
  version is read as v3; further bytes are ignored.
- Decoding raises only `MalformedMetadata`; its subclass `OverlongArray` means an array length beyond the remaining
  bytes, which the coordinator rejects (it tolerates the other errors, EX-09).
- Bytes equal the Java client's: a subscription's topics and owned partitions sorted, an assignment's partitions grouped
  by topic, topics in order of first appearance.
- Partitions stay arrays between bytes and assignor; `owned_partitions` and `partitions` create tuples.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import pack
from typing import Final

import numpy as np

from slackwater.group.assignors.partition_codec import (
    INT16,
    INT32,
    ConsumerProtocolReader,
    MalformedMetadata,
    OverlongArray,
    encode_partitions,
)
from slackwater.group.assignors.partitions import NO_PARTITIONS, IntArray, PartitionsByTopic
from slackwater.group.java_order import sorted_as_java
from slackwater.group.messages import NO_GENERATION
from slackwater.group.topic_partition import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
NEWEST_VERSION: Final = 3

__all__ = [
    "NEWEST_VERSION",
    "PROTOCOL_TYPE",
    "Assignment",
    "MalformedMetadata",
    "OverlongArray",
    "Subscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]

_MAX_CACHED_BYTES: Final = 4096  # bytes; longer subscriptions list owned partitions and do not repeat


class Subscription:
    """A member's subscription: its topics and the partitions it still owns. Immutable."""

    __slots__ = ("generation_id", "owned", "rack_id", "topics", "user_data", "version")

    def __init__(
        self,
        topics: tuple[str, ...],
        user_data: bytes | None = None,
        owned_partitions: Iterable[TopicPartition] | PartitionsByTopic = NO_PARTITIONS,
        generation_id: int = NO_GENERATION,
        rack_id: str | None = None,
        version: int = NEWEST_VERSION,
    ) -> None:
        self.topics: Final = topics
        self.user_data: Final = user_data
        self.owned: Final = PartitionsByTopic.of(owned_partitions)
        self.generation_id: Final = generation_id
        self.rack_id: Final = rack_id
        self.version: Final = version

    @property
    def owned_partitions(self) -> tuple[TopicPartition, ...]:
        """The owned partitions as tuples; `owned` is the same as arrays."""
        return tuple(self.owned)

    def _values(self) -> tuple[object, ...]:
        return self.topics, self.user_data, self.owned, self.generation_id, self.rack_id, self.version

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Subscription) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return (
            f"Subscription(topics={self.topics!r}, user_data={self.user_data!r}, "
            f"owned_partitions={self.owned_partitions!r}, generation_id={self.generation_id}, "
            f"rack_id={self.rack_id!r}, version={self.version})"
        )


class Assignment:
    """One member's assignment. Immutable."""

    __slots__ = ("assigned", "user_data")

    def __init__(
        self, partitions: Iterable[TopicPartition] | PartitionsByTopic, user_data: bytes | None = None
    ) -> None:
        self.assigned: Final = PartitionsByTopic.of(partitions)
        self.user_data: Final = user_data

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions as tuples; `assigned` is the same as arrays."""
        return tuple(self.assigned)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Assignment):
            return NotImplemented
        return self.assigned == other.assigned and self.user_data == other.user_data

    def __hash__(self) -> int:
        return hash((self.assigned, self.user_data))

    def __repr__(self) -> str:
        return f"Assignment(partitions={self.partitions!r}, user_data={self.user_data!r})"


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a subscription in its own version."""
    version = subscription.version
    out = [pack(">hi", version, len(subscription.topics))]
    out += map(_string, sorted_as_java(subscription.topics))
    out.append(_bytes(subscription.user_data))
    if version >= 1:
        out.append(encode_partitions(_sorted(subscription.owned)))
    if version >= 2:
        out.append(INT32.pack(subscription.generation_id))
    if version >= 3:
        out.append(_string(subscription.rack_id))
    return b"".join(out)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription of any version; raises `MalformedMetadata`."""
    return decode_subscription_cached(data) if len(data) <= _MAX_CACHED_BYTES else _decode_subscription(data)


def _decode_subscription(data: bytes) -> Subscription:
    reader = ConsumerProtocolReader(data)
    version = _version(reader, "subscription")
    topics = reader.strings()
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else NO_PARTITIONS
    generation_id = reader.int32() if version >= 2 else NO_GENERATION
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation_id, rack_id, min(version, NEWEST_VERSION))


# Members of one group mostly send the same bytes, at every rejoin.
decode_subscription_cached = lru_cache(maxsize=4096)(_decode_subscription)


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """Encode one member's assignment."""
    return INT16.pack(version) + encode_partitions(assignment.assigned) + _bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Decode one member's assignment; empty bytes (a member without an assignment) mean no partitions."""
    if not data:
        return Assignment(NO_PARTITIONS)
    reader = ConsumerProtocolReader(data)
    _version(reader, "assignment")
    return Assignment(reader.partitions(), reader.nullable_bytes())


def _version(reader: ConsumerProtocolReader, kind: str) -> int:
    version = reader.int16()
    if version < 0:
        raise MalformedMetadata(f"{kind} version {version} is negative; expected 0 to {NEWEST_VERSION}")
    return version


def _sorted(partitions: PartitionsByTopic) -> PartitionsByTopic:
    """The same partitions by topic and number, each topic once."""
    runs: dict[str, list[IntArray]] = {}
    for topic, numbers in partitions.runs():
        if len(numbers):
            runs.setdefault(topic, []).append(numbers)
    if not runs:
        return NO_PARTITIONS
    topics = sorted_as_java(runs)
    sorted_numbers = [
        np.sort(runs[topic][0] if len(runs[topic]) == 1 else np.concatenate(runs[topic])) for topic in topics
    ]
    return PartitionsByTopic(
        tuple(topics),
        np.array([len(numbers_of_topic) for numbers_of_topic in sorted_numbers]),
        np.concatenate(sorted_numbers),
    )


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return INT16.pack(len(raw)) + raw


def _bytes(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else INT32.pack(len(data)) + data
