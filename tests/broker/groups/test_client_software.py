"""The name of a client's software (KIP-511) in the event of its first join."""

import asyncio

import pytest

from slackwater import Broker, Consumer
from slackwater.client.network.connection import BrokerConnection
from slackwater.group.events import EventKind, MemberJoined
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.client.helpers import QUICK, poll_until


def software_of_joins(broker: Broker) -> list[str | None]:
    details = [event.detail for event in broker.events("g") if event.kind is EventKind.MEMBER_JOINED]
    return [detail.client_software for detail in details if isinstance(detail, MemberJoined)]


@pytest.mark.parametrize("security", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_first_join_names_the_client_software(security: str) -> None:
    with Broker(security=security) as broker:
        broker.create_topic("t", 1)
        with Consumer(QUICK | broker.client_config() | {"group.id": "g"}) as member:
            member.subscribe(["t"])
            poll_until(member, lambda: member.assignment)
        assert software_of_joins(broker) == ["slackwater"]


def test_long_software_name_is_cut() -> None:
    request = JoinGroupRequest(
        "g", 10_000, 10_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )

    async def join(host: str, port: str) -> None:
        connection = await BrokerConnection.connect(
            host, int(port), client_id="c", timeout_s=10, client_software="x" * 30_000
        )
        await connection.request(request, JoinGroupResponse, timeout_s=10, version=3)
        connection.abort("the test is over")

    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        asyncio.run(join(*broker.bootstrap_servers.split(":")))
        assert software_of_joins(broker) == ["x" * 100]
