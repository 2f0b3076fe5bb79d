"""Tests of replica placement."""

import pytest

from slackwater.broker.storage.replica_assignment import check_assignment, check_replicas
from slackwater.group.errors import BrokerError, Error


def test_one_replica_on_this_broker_is_valid() -> None:
    check_replicas([3], 3)
    assert check_assignment([(1, [3]), (0, [3])], 3) == 2


@pytest.mark.parametrize("brokers", [[], [3, 3], [4], [3, 4], [-1]])
def test_other_replicas_are_rejected(brokers: list[int]) -> None:
    with pytest.raises(BrokerError) as raised:
        check_replicas(brokers, 3)
    assert raised.value.error is Error.INVALID_REPLICA_ASSIGNMENT
