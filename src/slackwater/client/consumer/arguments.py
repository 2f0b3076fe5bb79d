"""What an application hands over to a consumer, checked.

Rules kept here
- Whatever is wrong is one sentence: what it was, and what it should have been.
- A partition may be given as a pair, a single topic as its name, an offset as a number.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard

from slackwater.client.consumer.base import RebalanceListener
from slackwater.group.errors import UsageError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

LIKE: Final = "TopicPartition('orders', 0)"
_LISTENS: Final = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


def topic_names(topics: object) -> list[str]:
    """Names of topics."""
    wanted = [topics] if isinstance(topics, str) else topics
    names = list(wanted) if isinstance(wanted, Iterable) else None
    if wanted is not None and (names is None or not all(isinstance(name, str) and name for name in names)):
        raise UsageError(f"The topics are {topics!r}; give a list of their names.")
    return names or []


def topic_pattern(pattern: object) -> str:
    """A pattern as text, with the flags that text can carry."""
    if isinstance(pattern, str):
        return pattern
    if not isinstance(pattern, re.Pattern):
        raise UsageError(f"The pattern is {type(pattern).__name__}; give a str, or what re.compile makes of one.")
    if not isinstance(pattern.pattern, str):
        raise UsageError(f"The pattern is of {type(pattern.pattern).__name__}; topics have names of str.")
    flags = "".join(
        letter
        for letter, flag in (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL), ("x", re.VERBOSE))
        if pattern.flags & flag
    )
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


def rebalance_listener(listener: RebalanceListener | None) -> RebalanceListener | None:
    """A listener, or none."""
    if listener is not None and not any(callable(getattr(listener, name, None)) for name in _LISTENS):
        raise UsageError(
            f"The listener is {type(listener).__name__}; give an object with {', '.join(_LISTENS)}, or some of them."
        )
    return listener


def topic_partition(partition: object) -> TopicPartition:
    """One partition."""
    found = _partition(partition)
    if found is None:
        raise UsageError(f"The partition is {partition!r}; give one like {LIKE}.")
    return found


def topic_partitions(partitions: object) -> list[TopicPartition]:
    """Several partitions."""
    if not isinstance(partitions, str) and isinstance(partitions, Iterable):
        given = list(partitions)
        found = [one for one in map(_partition, given) if one is not None]
        if len(found) == len(given):
            return found
    raise UsageError(f"The partitions are {partitions!r}; give a list like [{LIKE}].")


def offsets_to_commit(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets by partition."""
    if not isinstance(offsets, Mapping):
        raise UsageError(f"The offsets are {type(offsets).__name__}; give a dict like {{{LIKE}: 42}}.")
    return {topic_partition(partition): position(at) for partition, at in offsets.items()}


def position(offset: object) -> OffsetAndMetadata:
    """An offset."""
    at = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)  # type: ignore[arg-type]
    if not _is_whole(at.offset):
        raise UsageError(f"The offset is {offset!r}; give a whole number.")
    return at


def timestamp(milliseconds: object, where: object = None) -> int:
    """A time, in milliseconds."""
    if not _is_whole(milliseconds) or milliseconds < 0:
        prefix = "" if where is None else f"{where}: "
        raise UsageError(f"{prefix}the time {milliseconds!r} cannot be; use whole milliseconds since 1970.")
    return milliseconds


def seconds(timeout: object) -> float:
    """How long to wait; less than nothing is nothing."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
        raise UsageError(f"The timeout is {timeout!r}; give seconds.")
    return max(float(timeout), 0.0)


def _partition(partition: object) -> TopicPartition | None:
    match partition:
        case (str(topic), int(number)) if topic and number >= 0 and not isinstance(number, bool):
            return TopicPartition(topic, number)
        case _:
            return None


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
