"""The brokers and clients that every scenario of the system tests runs with."""

from collections.abc import Iterable
from typing import Final

import pytest

from tests.interop_heavy.restartable_brokers import APACHE, SLACKWATER
from tests.system.clients import JAVA, LIBRDKAFKA, OURS, Client

PAIRS: Final = ((SLACKWATER, OURS), (SLACKWATER, LIBRDKAFKA), (SLACKWATER, JAVA), (APACHE, OURS))


def _parametrize(pairs: Iterable[tuple[str, Client]]) -> pytest.MarkDecorator:
    params = [
        pytest.param(
            broker,
            client,
            id=f"{'apache' if broker == APACHE else broker}-{client.name}",
            marks=[pytest.mark.java] if broker == APACHE or client is JAVA else [],
        )
        for broker, client in pairs
    ]
    return pytest.mark.parametrize(("broker", "client"), params, indirect=["broker"], scope="session")


with_every_client = _parametrize(PAIRS)
with_clients_that_mix_protocols = _parametrize(pair for pair in PAIRS if pair[1].can_mix_protocols)
with_clients_that_have_sticky = _parametrize(pair for pair in PAIRS if pair[1].has_sticky)
