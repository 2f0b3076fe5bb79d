"""A transactional producer gets one clear error at once: the broker has no transactions."""

import time

import pytest

from slackwater.broker.handlers.find_coordinator import NO_TRANSACTIONS
from tests.interop.clients import CONFLUENT, JAVA, ClientError, Driver

AT_ONCE_S = 10.0  # the clients' own timeouts are 40 to 60 s
WITH_MESSAGE = (JAVA, CONFLUENT)  # the others show only the name of the error; the broker's log has the message


def test_transactional_producer_fails_at_once(driver: Driver) -> None:
    started = time.monotonic()
    with pytest.raises(ClientError) as failure:
        driver.call("init_transactions", transactional_id="bank")
    assert time.monotonic() - started < AT_ONCE_S
    if driver.client in WITH_MESSAGE:
        assert NO_TRANSACTIONS in str(failure.value)
