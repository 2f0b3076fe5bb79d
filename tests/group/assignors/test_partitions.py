"""Partitions by topic."""

import numpy as np

from slackwater.group.assignors.partitions import NO_PARTITIONS, PartitionsByTopic
from slackwater.group.topic_partition import TopicPartition

PARTITIONS = [TopicPartition("b", 2), TopicPartition("a", 1), TopicPartition("b", 0)]


def test_partitions_are_grouped_by_topic() -> None:
    grouped = PartitionsByTopic.of(PARTITIONS)
    assert tuple(grouped) == (TopicPartition("b", 2), TopicPartition("b", 0), TopicPartition("a", 1))
    assert [(topic, numbers.tolist()) for topic, numbers in grouped.runs()] == [("b", [2, 0]), ("a", [1])]
    assert len(grouped) == 3
    assert PartitionsByTopic.of(grouped) is grouped
    assert repr(grouped) == "PartitionsByTopic(b-2, b-0, a-1)"


def test_empty_partitions_are_a_singleton() -> None:
    assert PartitionsByTopic.of([]) is NO_PARTITIONS
    assert tuple(NO_PARTITIONS) == ()


def test_equality_ignores_run_boundaries() -> None:
    whole = PartitionsByTopic.of([TopicPartition("a", 1), TopicPartition("a", 2)])
    split = PartitionsByTopic(("a", "x", "a"), np.array([1, 0, 1]), np.array([1, 2]))
    assert whole == split
    assert hash(whole) == hash(split)
    assert whole != PartitionsByTopic.of([TopicPartition("a", 1), TopicPartition("b", 2)])
    assert whole != PartitionsByTopic.of([TopicPartition("a", 1)])
    assert whole != (TopicPartition("a", 1), TopicPartition("a", 2))
