"""The offset of a batch, as it stands in Spark's offset log.

Rules kept here
- Keys stand in a fixed order: Spark compares texts, and an equal text means that there is nothing new.
- An offset of Spark's own Kafka source, `{"orders":{"0":23}}`, is where a query may go on that was moved here. It has
  no batch of its own: its numbers are starts, and a batch is what lies between two of them.
- Anything else is refused with what was seen.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from slackwater.group.batches.offset import BatchOffset
from slackwater.group.errors import UsageError
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition

VERSION: Final = 1
SPARK_OFFSET_SEQ: Final = 1  # every batch of Spark's own source is the first one here
_SHOWN: Final = 120


def to_json(offset: BatchOffset) -> dict[str, Any]:
    """What Spark writes down."""
    return {
        "v": VERSION,
        "token": offset.token,
        "seq": offset.seq,
        "group": offset.group_id,
        "generation": offset.generation_id,
        "ranges": _by_topic(
            {one.topic_partition: [one.from_offset, one.until_offset] for one in offset.ranges.values()}
        ),
        "starts": _by_topic(offset.starts),
    }


def from_json(found: Mapping[str, Any], *, token: str) -> BatchOffset:
    """What Spark has kept; `token` is the name for a checkpoint that was written by Spark's own source."""
    try:
        if "v" not in found:
            return BatchOffset(token, SPARK_OFFSET_SEQ, None, starts={at: _number(value) for at, value in _flat(found)})
        if found["v"] != VERSION:
            raise UsageError(
                f"This checkpoint was written by a newer Slackwater (its offsets have version {found['v']!r}, this one "
                f"knows {VERSION}); use that, or another checkpoint."
            )
        ranges = {at: OffsetRange(*at, _number(value[0]), _number(value[1])) for at, value in _flat(found["ranges"])}
        return BatchOffset(
            str(found["token"]),
            _number(found["seq"]),
            found["group"],
            _number(found["generation"]),
            ranges,
            {at: _number(value) for at, value in _flat(found.get("starts", {}))},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        text = json.dumps(found)
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
        raise UsageError(
            f"The checkpoint has an offset that is neither this source's nor that of Spark's kafka source: {shown}. "
            "Use a checkpoint of its own for this query."
        ) from None


def batch_from_spark_offsets(
    start: BatchOffset, end: BatchOffset, earliest: Mapping[TopicPartition, int]
) -> BatchOffset:
    """A batch of Spark's own source: what lies between two of its offsets; partitions it had not known are new."""
    ranges = {
        at: OffsetRange(*at, start.starts.get(at, earliest.get(at, until)), until) for at, until in end.starts.items()
    }
    return BatchOffset(end.token, end.seq, None, ranges=ranges)


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
