"""`__consumer_offsets` on disk: the coordinator's store on top of the partition logs.

Rules kept here
- What one turn wants written to a shard is one batch, all or none.
- Reading gives every record there is, in order; compaction may have taken older ones of a key away, and the coordinator
  lets the last one win anyway.
"""

from collections.abc import Callable, Iterable, Mapping

from slackwater.broker.groups import KeyValue
from slackwater.broker.log.partition_log import Origin
from slackwater.broker.log.validation import Refused
from slackwater.broker.topics import Topic
from slackwater.group.errors import Error
from slackwater.wire.record_batch import iter_batches
from slackwater.wire.records import Record, decode_records, encode_batch

READ_BYTES = 1024 * 1024


class OffsetsLog:
    """The shards' records, each shard a partition of one topic."""

    def __init__(self, topic: Topic, now_ms: Callable[[], int]) -> None:
        self._topic = topic
        self._now_ms = now_ms

    def read(self, shard: int) -> Iterable[KeyValue]:
        """Everything that was written, in order."""
        log = self._topic.partitions[shard].log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, READ_BYTES)
            if isinstance(data, Refused):
                raise OSError(f"{log.directory}: {data.message}")
            for batch in iter_batches(data):
                for record in decode_records(batch):
                    if record.key is not None:
                        yield record.key, record.value
                offset = batch.next_offset

    def write(self, records: Mapping[int, list[KeyValue]]) -> Mapping[int, Error]:
        """Write to shards; what became of each."""
        now_ms = self._now_ms()
        outcome: dict[int, Error] = {}
        for shard, pairs in records.items():
            batch = encode_batch(Record(key, value, timestamp=now_ms) for key, value in pairs)
            appended = self._topic.partitions[shard].log.append(batch, now_ms, Origin.COORDINATOR)
            outcome[shard] = appended.error if isinstance(appended, Refused) else Error.NONE
            if outcome[shard] is Error.NONE:
                self._topic.partitions[shard].appended()
        return outcome
