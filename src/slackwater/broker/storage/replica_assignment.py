"""Replica placement: all replicas are on this broker.

Kafka's checks on manual assignments are made with Kafka's messages: no broker twice, no unknown broker.
"""

from collections.abc import Iterable

from slackwater.group.errors import BrokerError, Error


def check_replicas(brokers: list[int], node_id: int) -> None:
    """Raise `BrokerError` unless the replica list of a partition is valid."""
    if not brokers:
        raise invalid_assignment("The manual partition assignment includes an empty replica list.")
    for broker in sorted(brokers):
        if brokers.count(broker) > 1:
            raise invalid_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
        if broker != node_id:
            raise invalid_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )


def check_assignment(partitions: Iterable[tuple[int, list[int]]], node_id: int) -> int:
    """Return the number of partitions in an assignment; raise `BrokerError` if it is invalid."""
    seen: set[int] = set()
    for partition, brokers in partitions:
        if partition in seen:
            raise invalid_assignment(f"Found multiple manual partition assignments for partition {partition}")
        seen.add(partition)
        check_replicas(brokers, node_id)
    if seen != set(range(len(seen))):
        raise invalid_assignment("partitions should be a consecutive 0-based integer sequence")
    return len(seen)


def invalid_assignment(message: str) -> BrokerError:
    """Return the error for an invalid replica assignment."""
    return BrokerError(Error.INVALID_REPLICA_ASSIGNMENT, message)
