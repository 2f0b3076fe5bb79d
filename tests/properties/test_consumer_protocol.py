"""The consumer protocol for any subscription, any assignment and any bytes."""

import struct
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.group.assignors import get_assignor
from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    MalformedMetadata,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.assignors.sticky import StickyAssignor
from slackwater.group.java_order import sorted_as_java
from slackwater.group.topic_partition import TopicPartition

names = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from([f"topic-{at:02}" for at in range(40)])
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
# For long lists of names with one length, the codec works on blocks.
many = st.lists(
    st.builds(TopicPartition, st.from_regex(r"[a-c]{2}[0-9]", fullmatch=True), st.integers(0, 3)), max_size=90
)
user_data = st.none() | st.binary(max_size=20)


def subscriptions(version: int | None = None) -> st.SearchStrategy[Subscription]:
    return st.builds(
        Subscription,
        (st.lists(names, max_size=5) | st.lists(st.from_regex(r"t[0-9]{3}", fullmatch=True), max_size=60)).map(tuple),
        user_data,
        st.lists(partitions, max_size=8, unique=True) | many,
        st.integers(-1, 2**31 - 1),
        st.none() | names,
        st.integers(0, 3) if version is None else st.just(version),
    )


def as_encoded(subscription: Subscription) -> Subscription:
    """Return the subscription with only the fields of its version, sorted as it is encoded."""
    version = subscription.version
    topics = sorted_as_java({topic for topic, _ in subscription.owned})
    positions = {topic: position for position, topic in enumerate(topics)}
    owned = sorted(
        subscription.owned_partitions, key=lambda partition: (positions[partition.topic], partition.partition)
    )
    return Subscription(
        tuple(sorted_as_java(subscription.topics)),
        subscription.user_data,
        owned if version >= 1 else (),
        subscription.generation_id if version >= 2 else -1,
        subscription.rack_id if version >= 3 else None,
        version,
    )


@given(subscriptions())
def test_subscription_round_trip_in_every_version(subscription: Subscription) -> None:
    decoded = decode_subscription(encode_subscription(subscription))
    assert decoded == as_encoded(subscription)
    assert hash(decoded) == hash(as_encoded(subscription))
    assert encode_subscription(decoded) == encode_subscription(subscription)


@given(subscriptions(version=3), st.integers(4, 2**15 - 1), st.binary(max_size=20))
def test_newer_version_is_read_as_newest_known(subscription: Subscription, version: int, rest: bytes) -> None:
    data = struct.pack(">h", version) + encode_subscription(subscription)[2:] + rest
    assert decode_subscription(data) == as_encoded(subscription)


@given(st.lists(partitions, max_size=8) | many, user_data, st.integers(0, 3))
def test_assignment_round_trip(assigned: list[TopicPartition], data: bytes | None, version: int) -> None:
    assignment = Assignment(assigned, data)
    decoded = decode_assignment(encode_assignment(assignment, version))
    assert decoded == assignment
    assert hash(decoded) == hash(assignment)
    assert sorted(decoded.partitions) == sorted(assigned)


@given(st.binary(max_size=80))
@example(b"")
@example(b"\xff\xff")
@example(b"\x00\x01\x7f\xff\xff\xff")
@example(b"\x00\x01\x00\x00\x00\x01\xff\xff")
def test_arbitrary_bytes_raise_only_malformed(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with suppress(MalformedMetadata):
            decode(data)


@given(subscriptions(), st.data())
def test_damaged_subscription_raises_only_malformed(subscription: Subscription, data: st.DataObject) -> None:
    raw = bytearray(encode_subscription(subscription))
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(raw)))
    for damaged in (bytes(raw), bytes(raw[:end])):
        with suppress(MalformedMetadata):
            decode_subscription(damaged)


@given(subscriptions())
def test_truncated_subscription_is_malformed(subscription: Subscription) -> None:
    raw = encode_subscription(subscription)
    for end in {0, 1, len(raw) // 2, len(raw) - 1}:
        with pytest.raises(MalformedMetadata):
            decode_subscription(raw[:end])


@given(st.lists(partitions, max_size=8, unique=True) | many, st.integers(-1, 2**31 - 1))
def test_sticky_user_data_round_trip(owned: list[TopicPartition], generation_id: int) -> None:
    data = get_assignor("sticky").user_data(owned, generation_id)
    assert data is not None
    with_generation = StickyAssignor().claim(Subscription((), data))
    assert sorted(with_generation.owned) == sorted(owned)
    assert with_generation.generation_id == generation_id
    without = StickyAssignor().claim(Subscription((), data[:-4]))
    assert without.owned == with_generation.owned
    assert without.generation_id == -1
