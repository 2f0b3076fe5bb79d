"""librdkafka's consumer (confluent-kafka) as a verifiable consumer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.system.programs.verifiable_consumer import (
    POLL_S,
    CommitFailed,
    Partition,
    VerifiableConsumer,
    main,
    print_partitions,
)

MAX_RECORDS: Final = 500


def _names(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [(partition.topic, partition.partition) for partition in partitions]


def _with_offsets(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]


def _is_fatal(error: KafkaError) -> bool:
    return bool(error.fatal()) or error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


class Librdkafka(VerifiableConsumer):
    """A `confluent_kafka.Consumer`. Offsets are stored for auto-commit after the records are printed."""

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__(topic, settings)
        self._consumer = Consumer({**settings, "enable.auto.offset.store": False})

    def subscribe(self) -> None:
        self._consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: print_partitions("partitions_assigned", _names(partitions)),
            on_revoke=lambda _, partitions: print_partitions("partitions_revoked", _names(partitions)),
        )

    def poll(self) -> Sequence[tuple[Partition, int]]:
        records: list[tuple[Partition, int]] = []
        for message in self._consumer.consume(MAX_RECORDS, POLL_S):
            error = message.error()
            if error is not None:
                if _is_fatal(error):
                    raise KafkaException(error)
                continue  # librdkafka recovers from every other error
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            records.append(((topic, partition), offset))
        return records

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        try:
            committed = self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=False)
        except KafkaException as error:
            if _is_fatal(error.args[0]):
                raise
            raise CommitFailed(str(error)) from error
        errors = [partition.error for partition in committed or () if partition.error is not None]
        if errors:
            raise CommitFailed(str(errors[0]))

    def store(self, offsets: Mapping[Partition, int]) -> None:
        self._consumer.store_offsets(offsets=_with_offsets(offsets))

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    main(Librdkafka)
