"""What consumers subscribe to, as far as the coordinator looks into their metadata.

Rules kept here
- The reader of subscriptions stands on numpy, which takes longer to load than a broker to start: it is loaded when the
  first member of a consumer group joins.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

CONSUMER: Final = "consumer"  # the protocol type whose metadata can be read
_SHORT: Final = 1_024


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these; None where one of them cannot be read."""
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, decode_subscription

    topics: set[str] = set()
    try:
        for metadata in set(subscriptions):  # most members of a group say the same
            topics.update(decode_subscription(metadata).topics)
    except MalformedMetadata:
        return None
    return frozenset(topics)


def is_overlong(metadata: bytes) -> bool:
    """Whether a subscription announces more than there is; one that is unreadable otherwise is none of these."""
    return _is_overlong_short(metadata) if len(metadata) <= _SHORT else _is_overlong(metadata)


@lru_cache(maxsize=4_096)  # every member of a group says the same, at every join
def _is_overlong_short(metadata: bytes) -> bool:
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
