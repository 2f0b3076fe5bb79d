"""Checks the arguments of the consumer API.

A partition may be a pair, a single topic may be a string, an offset may be an int.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeGuard

from slackwater.client.consumer.rebalance_listener import AnyListener
from slackwater.group.errors import UsageError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition

EXAMPLE: Final = "TopicPartition('orders', 0)"
_LISTENER_METHODS: Final = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


def check_topics(topics: object) -> list[str]:
    """Return topic names."""
    values = [topics] if isinstance(topics, str) else topics
    names = list(values) if isinstance(values, Iterable) else None
    if values is not None and (names is None or not all(isinstance(name, str) and name for name in names)):
        raise UsageError(f"The topics are {topics!r}; pass a list of topic names.")
    return names or []


def check_pattern(pattern: object) -> str:
    """Return a pattern as a string, with its flags inlined."""
    if isinstance(pattern, str):
        return pattern
    if not isinstance(pattern, re.Pattern):
        raise UsageError(f"The pattern is {type(pattern).__name__}; pass a str, or the result of re.compile().")
    if not isinstance(pattern.pattern, str):
        raise UsageError(f"The pattern is of {type(pattern.pattern).__name__}; topic names are str.")
    flags = "".join(
        letter
        for letter, flag in (("i", re.IGNORECASE), ("m", re.MULTILINE), ("s", re.DOTALL), ("x", re.VERBOSE))
        if pattern.flags & flag
    )
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


def check_listener(listener: AnyListener | None) -> AnyListener | None:
    """Return a listener, or None."""
    if listener is not None and not any(callable(getattr(listener, name, None)) for name in _LISTENER_METHODS):
        raise UsageError(
            f"The listener is {type(listener).__name__}; pass an object with {', '.join(_LISTENER_METHODS)}, or some "
            "of them."
        )
    return listener


def check_partition(partition: object) -> TopicPartition:
    """Return one partition."""
    checked = _to_partition(partition)
    if checked is None:
        raise UsageError(f"The partition is {partition!r}; pass one like {EXAMPLE}.")
    return checked


def check_partitions(partitions: object) -> list[TopicPartition]:
    """Return several partitions."""
    if not isinstance(partitions, str) and isinstance(partitions, Iterable):
        values = list(partitions)
        checked = [partition for partition in map(_to_partition, values) if partition is not None]
        if len(checked) == len(values):
            return checked
    raise UsageError(f"The partitions are {partitions!r}; pass a list like [{EXAMPLE}].")


def check_offsets(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets by partition."""
    if not isinstance(offsets, Mapping):
        raise UsageError(f"The offsets are {type(offsets).__name__}; pass a dict like {{{EXAMPLE}: 42}}.")
    return {check_partition(partition): check_offset(offset) for partition, offset in offsets.items()}


def check_offset(offset: object) -> OffsetAndMetadata:
    """Return one offset."""
    checked = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)  # type: ignore[arg-type]
    if not _is_int(checked.offset):
        raise UsageError(f"The offset is {offset!r}; pass an int.")
    return checked


def check_timestamp(timestamp_ms: object, context: object = None) -> int:
    """Return a time in milliseconds; `context` is what the error starts with."""
    if not _is_int(timestamp_ms) or timestamp_ms < 0:
        prefix = "" if context is None else f"{context}: "
        raise UsageError(f"{prefix}{timestamp_ms!r} is not a timestamp; use whole milliseconds since 1970.")
    return timestamp_ms


def check_timeout(timeout: object) -> float:
    """Return a timeout in seconds; negative values are 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
        raise UsageError(f"The timeout is {timeout!r}; pass seconds.")
    return max(float(timeout), 0.0)


def _to_partition(partition: object) -> TopicPartition | None:
    match partition:
        case (str(topic), int(number)) if topic and number >= 0 and not isinstance(number, bool):
            return TopicPartition(topic, number)
        case _:
            return None


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
