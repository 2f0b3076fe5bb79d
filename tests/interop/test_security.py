"""Stock clients on a secured broker; `interop_heavy/test_secured_clients.py` has the other combinations."""

import pytest

from slackwater import Broker
from tests.interop.secured_clients import ROUND_TRIPS


@pytest.mark.parametrize("client", ROUND_TRIPS)
@pytest.mark.parametrize(("protocol", "mechanism"), [("SSL", ""), ("SASL_SSL", "SCRAM-SHA-512")])
def test_stock_client_uses_a_secured_broker(client: str, protocol: str, mechanism: str) -> None:
    with Broker(security=protocol, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders")
        config = broker.client_config("alice", mechanism=mechanism or "PLAIN")
        assert ROUND_TRIPS[client](config, "orders") == client.removesuffix("-kafka").encode()
