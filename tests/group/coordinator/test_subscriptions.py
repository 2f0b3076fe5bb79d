"""Reading the topics of subscriptions."""

from slackwater.group.assignors.consumer_protocol import Subscription, encode_subscription
from slackwater.group.coordinator.subscriptions import is_overlong, topics_of

A_AND_B = encode_subscription(Subscription(("a", "b")))
C = encode_subscription(Subscription(("c",), version=0))
OVERLONG = b"\0\0" + b"\x7f\xff\xff\xff"


def test_unreadable_subscription_gives_no_topics() -> None:
    assert topics_of([]) == frozenset()
    assert topics_of([A_AND_B, C]) == frozenset({"a", "b", "c"})
    assert topics_of([A_AND_B, b"\0"]) is None


def test_only_an_array_that_is_too_long_is_overlong() -> None:
    assert is_overlong(OVERLONG)
    assert not is_overlong(A_AND_B)
    assert not is_overlong(b"\0")
