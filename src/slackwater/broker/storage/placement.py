"""Where replicas go: all of them to this one broker.

Rules kept here
- What Kafka checks of an assignment is checked, in its words: no broker twice, no broker that is not there.
"""

from collections.abc import Iterable

from slackwater.group.errors import BrokerError, Error


def check_replicas(brokers: list[int], node_id: int) -> None:
    """Raise `BrokerError` if one partition's replicas cannot be where a client wants them."""
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
    """How many partitions an assignment names; raise `BrokerError` if it has gaps or names other brokers."""
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
    """A replica assignment that cannot be."""
    return BrokerError(Error.INVALID_REPLICA_ASSIGNMENT, message)
