"""`__consumer_offsets` on disk: the coordinator's store on top of the partition logs.

Rules kept here
- The topic is made when it is first needed, as in Kafka; until then there is nothing to read. A disk that has no room
  for it refuses the write, and the next one tries again.
- What one turn wants written to a shard is one batch, all or none.
- Reading gives every record there is, in order; compaction may have taken older ones of a key away, and the coordinator
  lets the last one win anyway.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from slackwater.broker.groups.coordinator_shell import KeyValue
from slackwater.broker.storage.durability import Durability
from slackwater.broker.storage.log.partition_log import AppendOrigin, PartitionLog
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.topics import OFFSETS_TOPIC, Topic, Topics
from slackwater.group.errors import Error
from slackwater.wire.records.batch import iter_batches
from slackwater.wire.records.record import BatchBuilder, decode_records

log = logging.getLogger("slackwater.broker.offsets")
READ_BYTES = 1024 * 1024


class OffsetsTopicStore:
    """The shards' records, each shard a partition of one topic."""

    def __init__(
        self, topics: Topics, durability: Durability, *, create: Callable[[], Topic], now_ms: Callable[[], int]
    ) -> None:
        self._topics = topics
        self._durability = durability
        self._create = create
        self._now_ms = now_ms

    def read(self, shard: int) -> Iterable[KeyValue]:
        """Everything that was written, in order."""
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            return
        stored = topic.partitions[shard].log
        offset = stored.log_start_offset
        while offset < stored.log_end_offset:
            data = stored.read(offset, READ_BYTES)
            if isinstance(data, Rejection):
                raise OSError(f"{stored.directory}: {data.message}")
            for batch in iter_batches(data):
                for record in decode_records(batch):
                    if record.key is not None:
                        yield record.key, record.value
                offset = batch.next_offset

    def write(self, records: Mapping[int, list[KeyValue]], settled: Callable[[Mapping[int, Error]], None]) -> None:
        """Write to shards; `settled` hears what became of each."""
        try:
            topic = self._topics.get(OFFSETS_TOPIC) or self._create()
        except OSError as error:
            log.warning("%s cannot be made: %s.", OFFSETS_TOPIC, error.strerror)
            refused = dict.fromkeys(records, Error.KAFKA_STORAGE_ERROR)
            self._durability.written((), lambda _failed: settled(refused))  # in its turn, after those before it
            return
        now_ms = self._now_ms()
        outcome: dict[int, Error] = {}
        logs: dict[int, PartitionLog] = {}
        for shard, pairs in records.items():
            partition = topic.partitions[shard]
            batch = BatchBuilder()
            batch.extend(pairs, now_ms)
            appended = partition.log.append(batch.build(), now_ms, AppendOrigin.COORDINATOR)
            if isinstance(appended, Rejection):
                outcome[shard] = appended.error
            else:
                logs[shard] = partition.log
                partition.wake_waiters()

        def flushed(failed: frozenset[PartitionLog]) -> None:
            for shard, written in logs.items():
                outcome[shard] = Error.KAFKA_STORAGE_ERROR if written in failed else Error.NONE
            settled(outcome)

        self._durability.written(logs.values(), flushed)
