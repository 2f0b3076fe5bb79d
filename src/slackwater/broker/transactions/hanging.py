"""Transactions that are open in a log although the coordinator does not know them: their end was lost.

A power failure or a damaged file can take the end. Readers with read_committed stop there. Whether the transaction was
committed is not known, so an operator decides.
"""

from collections.abc import Iterable, Iterator

from slackwater.broker.storage.topics import Topic
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.transactions.transaction import Transaction


def describe_hanging(topics: Iterable[Topic], transactions: Iterable[Transaction]) -> Iterator[str]:
    """Return a sentence for each partition with such a transaction."""
    known = {
        (each.stored.producer_id, topic_partition)
        for each in transactions
        for topic_partition in each.stored.partitions
    }
    for topic in topics:
        for partition in topic.partitions:
            for offset, producer_id in partition.log.producers.open_transactions.items():
                if (producer_id, TopicPartition(topic.name, partition.index)) not in known:
                    name, index = topic.name, partition.index
                    yield (
                        f"{name}-{index} has a transaction of producer {producer_id} that does not end: the "
                        "transaction coordinator does not know it. Readers with read_committed stop at offset "
                        f"{offset}. To end it: kafka-transactions.sh abort --topic {name} --partition {index} "
                        f"--start-offset {offset}"
                    )
                    break
