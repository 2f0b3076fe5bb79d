"""Which batches of a query are committed: decision records in a compacted topic.

A decision record is written in a transaction of its own, together with the input offsets of the batch. It names the
transactions of all tasks. When it is committed, the batch is: the driver, or its successor, commits those transactions
and then writes that they have ended.

Invariants:
- One key per query, its transactionalIdPrefix. Only the driver whose producer was initialized last can write it.
- Records are read up to the high watermark, and only those of committed transactions count: an open transaction of
  another query does not hide a decision.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from slackwater.client.admin import topics
from slackwater.client.network.cluster import Cluster, TopicMetadata
from slackwater.client.network.offsets import EARLIEST, LATEST, list_offsets
from slackwater.client.network.transactions import OpenTransaction
from slackwater.client.producer.partitioner import partition_for_key
from slackwater.group.errors import BrokerError, Error, PeerError
from slackwater.group.offset_range import OffsetRange
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.clients.connections import ClusterConnection
from slackwater.spark.source.fetching import FetchSettings, RangeFetcher
from slackwater.wire.records.batch import RecordBatch, iter_batches
from slackwater.wire.records.record import ControlType, control_type, decode_records

VERSION: Final = 1
PARTITIONS: Final = 4
_BROKER_DEFAULT: Final = -1
# Small segments that are compacted soon: the topic is read from its start.
CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch that is committed. `transactions` are those that the driver ends; none are left if `is_ended`."""

    query_id: str
    batch_id: int
    transactions: tuple[OpenTransaction, ...] = ()
    is_ended: bool = False

    def ended(self) -> "Decision":
        """Return the decision after its transactions have ended."""
        return Decision(self.query_id, self.batch_id, is_ended=True)

    def to_bytes(self) -> bytes:
        """Convert the decision to the value of a record."""
        value = {
            "v": VERSION,
            "query": self.query_id,
            "batch": self.batch_id,
            "ended": self.is_ended,
            "transactions": [list(transaction) for transaction in self.transactions],
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the value of a record."""
        try:
            value: Mapping[str, Any] = json.loads(data)
            if value["v"] != VERSION:
                raise PeerError(
                    f"A newer version of Slackwater wrote the decisions of this query (version {value['v']!r}, "
                    f"supported is {VERSION}). Use that version, or another transactionalIdPrefix."
                )
            transactions = tuple(OpenTransaction(*row) for row in value["transactions"])
            return cls(str(value["query"]), int(value["batch"]), transactions, bool(value["ended"]))
        except (ValueError, KeyError, TypeError) as error:
            raise PeerError(f"A decision record of this query cannot be read: {error!r}.") from error


async def find_topic(cluster: Cluster, name: str) -> TopicMetadata:
    """Return the decision topic; create it if it does not exist."""
    found = (await cluster.refresh([name])).get(name)
    if found is None or found.error is Error.UNKNOWN_TOPIC_OR_PARTITION:
        try:
            await topics.create_topic(cluster, name, PARTITIONS, _BROKER_DEFAULT, CONFIGS, validate_only=False)
        except BrokerError as error:
            if error.error is not Error.TOPIC_ALREADY_EXISTS:
                raise
    return await _wait_for(cluster, name)


async def _wait_for(cluster: Cluster, name: str) -> TopicMetadata:
    # ListOffsets waits for the leaders.
    await list_offsets(cluster, {TopicPartition(name, 0): LATEST})
    metadata = (await cluster.refresh([name])).get(name)
    if metadata is None or metadata.error is not Error.NONE:
        error = metadata.error if metadata is not None else Error.UNKNOWN_TOPIC_OR_PARTITION
        raise cluster.error(error, f"The topic {name} cannot be read: {error.name}.", f"Read on topic {name}")
    return metadata


def decision_partition(prefix: str, topic: TopicMetadata) -> int:
    """Return the partition of the records of a query."""
    return partition_for_key(prefix.encode(), len(topic.partitions))


class Decisions(NamedTuple):
    """The last decision of a query, and those whose transactions are open."""

    last: Decision | None
    pending: list[Decision]


def read_decisions(connection: ClusterConnection, topic: TopicMetadata, prefix: str) -> Decisions:
    """Return the last decision of a query, and those that may still be committed or aborted."""
    partition = TopicPartition(topic.name, decision_partition(prefix, topic))
    cluster = connection.cluster
    first, end = (
        connection.network.run(list_offsets(cluster, {partition: position}))[partition]
        for position in (EARLIEST, LATEST)
    )
    assert first is not None
    assert end is not None
    last: Decision | None = None
    pending: dict[int, Decision] = {}
    for batch in _batches(connection, OffsetRange(*partition, first.offset, end.offset)):
        if batch.is_control:
            decided = pending.pop(batch.producer_id, None)
            if decided is not None and control_type(batch) == ControlType.COMMIT:
                last = decided
            continue
        for record in decode_records(batch):
            if record.key == prefix.encode() and record.value is not None:
                pending[batch.producer_id] = Decision.from_bytes(record.value)
    return Decisions(last, list(pending.values()))


def _batches(connection: ClusterConnection, offsets: OffsetRange) -> Iterator[RecordBatch]:
    if not offsets.size:
        return
    settings = FetchSettings(fail_on_data_loss=False)
    for data in RangeFetcher(connection.network, connection.cluster, offsets, settings):
        yield from iter_batches(data.data)
