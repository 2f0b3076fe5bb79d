"""The offset of a micro-batch as JSON in Spark's offset log.

Invariants:
- Keys are in a fixed order: Spark compares the text, and equal text means no new data.
- An offset of Spark's Kafka source, `{"orders":{"0":23}}`, is accepted, so that a query can move to this source with
  its checkpoint. Its numbers are starting offsets; a batch is the range between two of them.
- Anything else is an error that shows the offset.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from slackwater.group.batches.offset import BatchOffset
from slackwater.group.errors import UsageError
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

VERSION: Final = 1
SPARK_OFFSET_SEQ: Final = 1  # a batch of Spark's Kafka source counts as the first one
_MAX_SHOWN: Final = 120


def to_json(offset: BatchOffset) -> dict[str, Any]:
    """Convert an offset to JSON."""
    return {
        "v": VERSION,
        "token": offset.checkpoint_id,
        "seq": offset.seq,
        "group": offset.group_id,
        "generation": offset.generation_id,
        "ranges": _by_topic(
            {part.topic_partition: [part.from_offset, part.until_offset] for part in offset.ranges.values()}
        ),
        "starts": _by_topic(offset.starts),
    }


def from_json(value: Mapping[str, Any], *, new_checkpoint_id: str) -> BatchOffset:
    """Parse an offset. `new_checkpoint_id` is for the checkpoint if Spark's Kafka source wrote it."""
    try:
        if "v" not in value:
            return BatchOffset(
                new_checkpoint_id,
                SPARK_OFFSET_SEQ,
                None,
                starts={partition: _number(offset) for partition, offset in _flat(value)},
            )
        if value["v"] != VERSION:
            raise UsageError(
                f"A newer version of Slackwater wrote this checkpoint (offset version {value['v']!r}, supported is "
                f"{VERSION}). Use that version, or another checkpoint."
            )
        ranges = {
            partition: OffsetRange(*partition, _number(bounds[0]), _number(bounds[1]))
            for partition, bounds in _flat(value["ranges"])
        }
        return BatchOffset(
            str(value["token"]),
            _number(value["seq"]),
            value["group"],
            _number(value["generation"]),
            ranges,
            {partition: _number(offset) for partition, offset in _flat(value.get("starts", {}))},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        text = json.dumps(value)
        shown = text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
        raise UsageError(
            f"The checkpoint has an offset of another source: {shown}. Use a separate checkpointLocation for this "
            "query."
        ) from None


def batch_from_spark_offsets(
    start: BatchOffset, end: BatchOffset, earliest: Mapping[TopicPartition, int]
) -> BatchOffset:
    """Return the batch between two offsets of Spark's Kafka source; new partitions start at `earliest`."""
    ranges = {
        partition: OffsetRange(*partition, start.starts.get(partition, earliest.get(partition, until)), until)
        for partition, until in end.starts.items()
    }
    return BatchOffset(end.checkpoint_id, end.seq, None, ranges=ranges)


def _by_topic(values: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    topics: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return topics


def _flat(topics: Mapping[str, Mapping[str, Any]]) -> list[tuple[TopicPartition, Any]]:
    return [
        (TopicPartition(topic, int(partition)), value)
        for topic, partitions in topics.items()
        for partition, value in partitions.items()
    ]


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value
