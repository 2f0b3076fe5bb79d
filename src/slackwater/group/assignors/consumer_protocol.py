"""The bytes of protocol type `consumer`: what a member says of itself when it joins, and what the leader gives it.

Rules kept here
- Subscription v0 holds topics and user data, v1 adds the partitions owned, v2 the generation they were owned in,
  v3 the rack. A version newer than ours is read as the newest we know; what follows is left unread.
- Decoding raises `MalformedMetadata` and nothing else; `OverlongArray` is the case in which an array announces more
  elements than there are bytes, which the coordinator refuses at the door (the others it tolerates, EX-09).
- Bytes are written as the Java client writes them: owned partitions grouped by topic, topics in order of first
  appearance after sorting.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from slackwater.group.errors import PeerError
from slackwater.group.message import message
from slackwater.group.topic_partition import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
NEWEST_VERSION: Final = 3
NO_GENERATION: Final = -1


class MalformedMetadata(PeerError):
    """Bytes that are no subscription or assignment."""


class OverlongArray(MalformedMetadata):
    """An array that announces more elements than the bytes that are left could hold."""


@message
class Subscription:
    """What a member tells the leader: what it wants, and what it still holds."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    version: int = NEWEST_VERSION


@message
class Assignment:
    """What the leader gives one member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Write a subscription in its own version."""
    version = subscription.version
    out = [struct.pack(">hi", version, len(subscription.topics))]
    out += [_string(topic) for topic in subscription.topics]
    out.append(_bytes(subscription.user_data))
    if version >= 1:
        out.append(_partitions(subscription.owned_partitions))
    if version >= 2:
        out.append(struct.pack(">i", subscription.generation_id))
    if version >= 3:
        out.append(_string(subscription.rack_id))
    return b"".join(out)


# Members of one group mostly send the same bytes, and send them again at every rejoin.
@lru_cache(maxsize=4096)
def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription of any version; raise `MalformedMetadata` when it is none."""
    reader = _Reader(data)
    version = reader.int16()
    if version < 0:
        raise MalformedMetadata(f"subscription version {version} is negative; expected 0 to {NEWEST_VERSION}")
    topics = tuple(reader.string() for _ in range(reader.array(2)))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation_id = reader.int32() if version >= 2 else NO_GENERATION
    rack_id = reader.nullable_string() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation_id, rack_id, min(version, NEWEST_VERSION))


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """Write one member's assignment."""
    return struct.pack(">h", version) + _partitions(assignment.partitions) + _bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Read one member's assignment; no bytes at all (a member the leader left out) read as nothing assigned."""
    if not data:
        return Assignment(())
    reader = _Reader(data)
    version = reader.int16()
    if version < 0:
        raise MalformedMetadata(f"assignment version {version} is negative; expected 0 to {NEWEST_VERSION}")
    return Assignment(reader.partitions(), reader.nullable_bytes())


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _bytes(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    out = [struct.pack(">i", len(by_topic))]
    for topic, numbers in by_topic.items():
        out += [_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(out)


class _Reader:
    """Reads big-endian fields in order, and never past the end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise MalformedMetadata(f"{len(self.data)} bytes end where {end} were announced")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def array(self, element_size: int) -> int:
        """The length of an array whose elements take at least `element_size` bytes."""
        length = self.int32()
        if length < 0:
            raise MalformedMetadata(f"array of length {length}")
        if length * element_size > len(self.data) - self.at:
            raise OverlongArray(f"array of {length} elements announced with {len(self.data) - self.at} bytes left")
        return length

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedMetadata(f"a string is not UTF-8: {error}") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedMetadata("null where a string is required")
        return text

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self.take(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.array(6)):
            topic = self.string()
            count = self.array(4)
            numbers = struct.unpack(f">{count}i", self.take(4 * count))
            found += [TopicPartition(topic, number) for number in numbers]
        return tuple(found)
