"""The name of a client's software (KIP-511) in the event of its first join."""

import pytest

from slackwater import Broker, Consumer
from slackwater.group.events import EventKind, MemberJoined
from tests.client.helpers import QUICK, poll_until


@pytest.mark.parametrize("security", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_first_join_names_the_client_software(security: str) -> None:
    with Broker(security=security) as broker:
        broker.create_topic("t", 1)
        with Consumer(QUICK | broker.client_config() | {"group.id": "g"}) as member:
            member.subscribe(["t"])
            poll_until(member, lambda: member.assignment)
        details = [event.detail for event in broker.events("g") if event.kind is EventKind.MEMBER_JOINED]
    assert [detail.client_software for detail in details if isinstance(detail, MemberJoined)] == ["slackwater"]
