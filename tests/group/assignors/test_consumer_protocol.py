"""Encoding and decoding of subscriptions and assignments."""

import numpy as np
import pytest

from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    MalformedMetadata,
    OverlongArray,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.assignors.partitions import PartitionsByTopic
from slackwater.group.topic_partition import TopicPartition


def test_subscription_v1_bytes() -> None:
    subscription = Subscription(("t", "a"), b"\x07", [TopicPartition("t", 1), TopicPartition("t", 0)], version=1)
    data = encode_subscription(subscription)
    assert data.hex(" ", 1) == (
        "00 01 00 00 00 02 00 01 61 00 01 74 00 00 00 01 07 "  # version, topics sorted, user data
        "00 00 00 01 00 01 74 00 00 00 02 00 00 00 00 00 00 00 01"  # owned, sorted
    )
    assert decode_subscription(data).owned_partitions == (TopicPartition("t", 0), TopicPartition("t", 1))


def test_topic_without_owned_partitions_is_omitted() -> None:
    owned = PartitionsByTopic(("a", "t"), np.array([0, 1]), np.array([5]))
    encoded = encode_subscription(Subscription(("t",), owned_partitions=owned))
    assert encoded == encode_subscription(Subscription(("t",), owned_partitions=[TopicPartition("t", 5)]))


def test_assignment_bytes() -> None:
    data = encode_assignment(Assignment([TopicPartition("t", 3), TopicPartition("t", 1)]))
    assert data.hex(" ", 1) == "00 03 00 00 00 01 00 01 74 00 00 00 02 00 00 00 03 00 00 00 01 ff ff ff ff"


def test_empty_bytes_decode_as_no_partitions() -> None:
    assert decode_assignment(b"") == Assignment(())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "0 bytes end where 2 were announced"),
        ("ffff", "subscription version -1 is negative"),
        ("0000 ffffffff", "array of length -1"),
        ("0000 00000001 ffff", "null where a string is required"),
        ("0000 00000001 0002 c328 ffffffff", "not UTF-8"),
        ("0000 00000001 0009 74", "announced"),
    ],
)
def test_invalid_bytes_are_malformed(data: str, message: str) -> None:
    with pytest.raises(MalformedMetadata, match=message):
        decode_subscription(bytes.fromhex(data))


def test_negative_assignment_version_is_malformed() -> None:
    with pytest.raises(MalformedMetadata, match="assignment version -2"):
        decode_assignment(b"\xff\xfe")


def test_array_beyond_end_is_overlong() -> None:
    with pytest.raises(OverlongArray, match="array of 1000000 elements announced with 0 bytes left"):
        decode_subscription(bytes.fromhex("0000 000f4240"))


def test_uncached_subscription_decodes_equally() -> None:
    # Names of two lengths, one not in ASCII, one without partitions: blocks and single rows in one array.
    topics = [f"topic-{at:03}" for at in range(300)] + [f"t{at}" for at in range(10, 60)] + ["tópico-01"] * 1
    owned = [TopicPartition(topic, at) for topic in topics for at in range(2 if topic.endswith("7") else 1)]
    subscription = Subscription(tuple(sorted(topics)), None, sorted(owned), 4, "rack")
    assert decode_subscription(encode_subscription(subscription)) == subscription
    accented = [TopicPartition(f"tópico-{at:02}", at) for at in range(40)]
    assert decode_assignment(encode_assignment(Assignment(accented))).partitions == tuple(accented)
    nameless = Subscription(("",) * 40, None, [])
    assert decode_subscription(encode_subscription(nameless)) == nameless


def test_values_compare_by_content() -> None:
    subscription = Subscription(("t",), b"", [TopicPartition("t", 0)], 1, "r", 3)
    same = Subscription(("t",), b"", (TopicPartition("t", 0),), 1, "r", 3)
    assert subscription == same
    assert len({subscription, same}) == 1
    assert subscription != Subscription(("t",), b"", (), 1, "r", 3)
    assert subscription != "t"
    assert eval(repr(subscription)) == subscription
    assignment = Assignment([TopicPartition("t", 0)], b"x")
    assert eval(repr(assignment)) == assignment
    assert assignment != Assignment([TopicPartition("t", 0)])
    assert assignment != b"x"
