"""What consumers subscribe to, as far as the coordinator looks into their metadata.

Rules kept here
- The reader of subscriptions stands on numpy, which takes longer to load than a broker to start: it is loaded when the
  first member of a consumer group joins.
"""

from collections.abc import Iterable
from typing import Final

CONSUMER: Final = "consumer"  # the protocol type whose metadata can be read


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these; None where one of them cannot be read."""
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, decode_subscription

    topics: set[str] = set()
    try:
        for metadata in subscriptions:
            topics.update(decode_subscription(metadata).topics)
    except MalformedMetadata:
        return None
    return frozenset(topics)


def is_overlong(metadata: bytes) -> bool:
    """Whether a subscription announces more than there is; one that is unreadable otherwise is none of these."""
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, OverlongArray, decode_subscription

    try:
        decode_subscription(metadata)
    except OverlongArray:
        return True
    except MalformedMetadata:
        return False
    return False
