"""Records of KIP-848 groups, as Kafka 4.3.1 writes them."""

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.internal_topics.consumer_groups import (
    ConsumerGroupKey,
    ConsumerGroupMember,
    decode_consumer_group_key,
    decode_epoch,
    decode_member,
)

GROUP = b"\x00\x03\x00\rrecommend-121"
MEMBER = b"\x00\x05\x00\rrecommend-121\x00\x16lVRBSjFSSKe10P5PVTDmBQ"
EPOCH = b"\x00\x00\x00\x00\x00\x02\x01\x00\x08\xcf\xecVR.d\x06\x18"
SUBSCRIBED = b"\x02\x15recommend.events.121\x01"
JOINED = b"\x00\x00\x00\x00\x10recommend-121-2\x0b/127.0.0.1" + SUBSCRIBED + b"\x00\x00\x0f\xa0\x00\x01\x00\x01\x00"


def test_group_epoch() -> None:
    assert decode_consumer_group_key(GROUP) == ConsumerGroupKey(3, "recommend-121", None)
    assert decode_epoch(EPOCH) == 2


def test_member() -> None:
    assert decode_consumer_group_key(MEMBER) == ConsumerGroupKey(5, "recommend-121", "lVRBSjFSSKe10P5PVTDmBQ")
    assert decode_member(JOINED) == ConsumerGroupMember(
        group_instance_id=None,
        rack_id=None,
        client_id="recommend-121-2",
        client_host="/127.0.0.1",
        subscribed_topics=("recommend.events.121",),
        subscribed_regex="",
        rebalance_timeout_ms=4000,
    )


def test_other_keys_give_none() -> None:
    assert decode_consumer_group_key(b"\x00\x02\x00\x01g") is None
    assert decode_consumer_group_key(b"\x00\x08\x00\x01g\x00\x01m") is None


@pytest.mark.parametrize("length", range(len(JOINED) - 8))
def test_truncated_member_is_rejected(length: int) -> None:
    with pytest.raises(WireError):
        decode_member(JOINED[:length])


def test_unsupported_version_is_rejected() -> None:
    with pytest.raises(WireError, match="version 7"):
        decode_epoch(b"\x00\x07\x00\x00\x00\x02")
