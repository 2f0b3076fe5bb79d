"""Reads the topics of consumer subscriptions.

The decoder uses numpy, which loads more slowly than the broker starts, so it is imported on first use.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

CONSUMER: Final = "consumer"  # the protocol type whose metadata the coordinator reads
_MAX_CACHED_BYTES: Final = 1_024
_MAX_TOPICS: Final = 100  # in one event


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions, or None if one is unreadable."""
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, decode_subscription

    topics: set[str] = set()
    try:
        for metadata in set(subscriptions):  # most members of a group have equal subscriptions
            topics.update(decode_subscription(metadata).topics)
    except MalformedMetadata:
        return None
    return frozenset(topics)


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """Return the first topics of one subscription in their order; none if it is unreadable."""
    return _subscribed_topics_cached(metadata) if len(metadata) <= _MAX_CACHED_BYTES else _subscribed_topics(metadata)


@lru_cache(maxsize=4_096)
def _subscribed_topics_cached(metadata: bytes) -> tuple[str, ...]:
    return _subscribed_topics(metadata)


def _subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    return tuple(sorted(topics_of([metadata]) or ())[:_MAX_TOPICS])


def is_overlong(metadata: bytes) -> bool:
    """Whether an array of the subscription has a length beyond the end of the data."""
    return is_overlong_cached(metadata) if len(metadata) <= _MAX_CACHED_BYTES else _is_overlong(metadata)


@lru_cache(maxsize=4_096)  # most members of a group have equal subscriptions
def is_overlong_cached(metadata: bytes) -> bool:
    return _is_overlong(metadata)


def _is_overlong(metadata: bytes) -> bool:
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, OverlongArray, decode_subscription

    try:
        decode_subscription(metadata)
    except OverlongArray:
        return True
    except MalformedMetadata:
        return False
    return False
