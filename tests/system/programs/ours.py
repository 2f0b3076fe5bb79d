"""Our consumer as a verifiable consumer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slackwater import Consumer
from slackwater.client.consumer.consumer import RebalanceListener
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from tests.system.programs.verifiable_consumer import (
    POLL_S,
    CommitFailed,
    Partition,
    VerifiableConsumer,
    main,
    print_partitions,
)


def _names(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [(partition.topic, partition.partition) for partition in partitions]


class Listener(RebalanceListener):
    """Prints callbacks; lost partitions are printed as revoked."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        print_partitions("partitions_assigned", _names(partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print_partitions("partitions_revoked", _names(partitions))


class OurConsumer(VerifiableConsumer):
    """A `slackwater.Consumer`."""

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__(topic, settings)
        self._consumer = Consumer(settings)

    def subscribe(self) -> None:
        self._consumer.subscribe([self.topic], listener=Listener())

    def poll(self) -> Sequence[tuple[Partition, int]]:
        return [((record.topic, record.partition), record.offset) for record in self._consumer.poll(POLL_S)]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        try:
            self._consumer.commit({TopicPartition(*partition): offset for partition, offset in offsets.items()})
        except SlackwaterError as error:
            is_fenced = isinstance(error, BrokerError) and error.error is Error.FENCED_INSTANCE_ID
            if is_fenced or isinstance(error, UsageError):
                raise
            raise CommitFailed(str(error)) from error

    def store(self, offsets: Mapping[Partition, int]) -> None:
        """Nothing to do: the consumer commits the records of earlier polls, and in `close` those of the last one."""

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    main(OurConsumer)
