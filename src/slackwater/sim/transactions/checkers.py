"""What must never happen to transactions: Jepsen's anomalies, as checks of a finished run.

Invariants:
- A check compares the journals of the applications with what a `read_committed` consumer reads.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.states import ONGOING, PREPARED
from slackwater.sim.transactions.broker import SimTransactionBroker
from slackwater.sim.transactions.producer import JournalEntry, Outcome


class Anomaly(Exception):  # what the simulator looks for
    """A check failed."""


Committed = Mapping[TopicPartition, Sequence[str]]
Check = Callable[[SimTransactionBroker, Sequence[JournalEntry], Committed], None]


def no_lost_write(_broker: SimTransactionBroker, journal: Sequence[JournalEntry], committed: Committed) -> None:
    """A record whose commit was acknowledged is read."""
    for entry in journal:
        if entry.outcome is Outcome.COMMITTED:
            for partition, value in entry.values.items():
                if value not in committed[partition]:
                    raise Anomaly(
                        f"lost write: the commit of {value} was acknowledged, and {partition} does not have it"
                    )


def no_aborted_read(_broker: SimTransactionBroker, journal: Sequence[JournalEntry], committed: Committed) -> None:
    """A record of a transaction that was aborted, or that was never asked to commit, is not read."""
    for entry in journal:
        if entry.outcome in (Outcome.OPEN, Outcome.ABORTED, Outcome.ABORT_UNKNOWN):
            for partition, value in entry.values.items():
                if value in committed[partition]:
                    raise Anomaly(f"aborted read: {value} in {partition}, although {entry.outcome.value}")


def no_torn_transaction(_broker: SimTransactionBroker, journal: Sequence[JournalEntry], committed: Committed) -> None:
    """All records of a transaction are read, or none."""
    for entry in journal:
        read = [partition for partition, value in entry.values.items() if value in committed[partition]]
        if read and len(read) != len(entry.values):
            raise Anomaly(f"torn transaction: of {sorted(entry.values.values())} only {read} are read")


def no_duplicate(_broker: SimTransactionBroker, _journal: Sequence[JournalEntry], committed: Committed) -> None:
    """No record is read twice."""
    for partition, values in committed.items():
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise Anomaly(f"duplicate: {twice[0]} is twice in {partition}")


def keeps_order(_broker: SimTransactionBroker, journal: Sequence[JournalEntry], committed: Committed) -> None:
    """Each process's records are read in the order in which it wrote them."""
    del journal
    for partition, values in committed.items():
        last: dict[str, int] = {}
        for value in values:
            process, number, _ = value.split("/")
            if int(number) <= last.get(process, 0):
                raise Anomaly(f"order: {value} in {partition} comes after transaction {last[process]} of the process")
            last[process] = int(number)


def nothing_hangs(broker: SimTransactionBroker, _journal: Sequence[JournalEntry], _committed: Committed) -> None:
    """At rest, every transaction is complete, and every partition is readable to its end."""
    for transaction in broker.coordinator.transactions.values():
        if transaction.state is ONGOING or transaction.state in PREPARED:
            raise Anomaly(f"hanging: {transaction.transactional_id} is {transaction.state.value}")
    for topic_partition, partition in broker.partitions.items():
        if partition.has_open_transaction:
            raise Anomaly(f"hanging: {topic_partition} has an open transaction that the coordinator does not know")


CHECKS: Final[tuple[Check, ...]] = (
    no_lost_write,
    no_aborted_read,
    no_torn_transaction,
    no_duplicate,
    keeps_order,
    nothing_hangs,
)
