"""What the batches of a query want done, in order.

Rules kept here
- `Hold` and `Release` go to the member of the same name; `Commit` and `Fetch` too, and each is answered, sooner or
  later, by one call of `commit_done` or `fetched` with its id.
- `Happened` is for people: a line in the log, a figure in the progress.
"""

from collections.abc import Mapping
from enum import Enum

from slackwater.group.member.effects import OffsetAndMetadata
from slackwater.group.message import message
from slackwater.group.topic_partition import TopicPartition


class What(Enum):
    """What is worth telling."""

    STARTED = "starts"
    HANDED_OVER = "was handed over"
    HANDOVER_TIMED_OUT = "was released before its batch had ended"
    RESET_OBEYED = "starts where an operator has put it"
    REPLAYED = "is read again"
    LEFT_OUT = "is left out of the batch that is read again"


@message
class Hold:
    """Work on these partitions is in progress."""

    partitions: frozenset[TopicPartition]


@message
class Release:
    """It is done."""

    partitions: frozenset[TopicPartition]


@message
class Commit:
    """Commit these offsets, and tell `commit_done`."""

    commit_id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]


@message
class Fetch:
    """Look up what the group has committed, and tell `fetched`."""

    fetch_id: int
    partitions: tuple[TopicPartition, ...]


@message
class Happened:
    """Something happened to a partition; `at` and `before` are offsets, `length_ms` how long it took."""

    what: What
    partition: TopicPartition
    at: int = -1
    before: int = -1
    length_ms: int = 0


BatchEffect = Hold | Release | Commit | Fetch | Happened
