"""Offsets of a group as lines of text, in the format of `kafka-consumer-groups --export` and `--from-file`.

Invariants:
- A line is `topic,partition,offset`; Kafka's export of several groups is `group,topic,partition,offset`. Both are read,
  and lines of other groups are ignored.
- A wrong line is an error that names the file and the line; nothing is moved then.
"""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition

if TYPE_CHECKING:
    from slackwater.client.admin import OffsetChange


def format_offsets(changes: "Iterable[OffsetChange]") -> str:
    """Return one line per partition."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((*change.partition, change.new) for change in changes)
    return text.getvalue()


def read_offsets(path: Path, group: str) -> dict[TopicPartition, int]:
    """Return the offsets of a group in a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}.") from None
    offsets: dict[TopicPartition, int] = {}
    for number, words in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        if not words:
            continue
        words = [word.strip() for word in words]
        if len(words) not in (3, 4) or not all(word.isascii() and word.isdigit() for word in words[-2:]):
            raise UsageError(f"{path}, line {number}, is {lines[number - 1]!r}; use topic,partition,offset.")
        if len(words) == 4 and words[0] != group:
            continue
        partition = TopicPartition(words[-3], int(words[-2]))
        if partition in offsets:
            raise UsageError(f"{path}, line {number}, names {partition} a second time.")
        offsets[partition] = int(words[-1])
    if not offsets:
        raise UsageError(f"{path} has no offsets of group {group}; use lines of topic,partition,offset.")
    return offsets
