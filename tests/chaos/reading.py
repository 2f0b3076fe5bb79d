"""Reads what a partition holds, also if parts of it are damaged.

Invariants:
- A fetch that fails or returns nothing before the end of the log, a batch that fails its checksum, and a batch with an
  impossible offset make the offsets up to the next known batch unreadable. Reading continues there.
- A gap before a known batch is not an error: the ledger decides whether the records were skipped in silence.
- Every fetch advances, so reading ends.
"""

from bisect import bisect_right
from typing import Final

from slackwater.group.errors import Error
from slackwater.wire.errors import WireError
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.records.batch import RecordBatch, check_batch, iter_batches
from slackwater.wire.records.record import Record, decode_records
from tests.broker.raw_client import FETCH_V, READ_BYTES, RawClient
from tests.chaos.oracles.records import Content, PartitionLedger

UNKNOWN_NUMBER: Final = -1


class Unreadable(Exception):
    """The response of a fetch has an error, or a batch cannot be what was written."""


async def read_partition(client: RawClient, ledger: PartitionLedger) -> Content:
    """Read a partition from offset 0 to its end."""
    content = Content(end_offset=await client.end_offset(ledger.topic, ledger.partition))
    bases = [*sorted(ledger.batches), content.end_offset]
    offset = 0
    while offset < content.end_offset:
        start, failure = offset, ""
        try:
            for batch in iter_batches(await _fetch(client, ledger.topic, ledger.partition, offset)):
                _check(batch, offset, content, ledger)
                content.batches[batch.base_offset] = batch.last_offset
                content.numbers |= {record.offset: number_of(record) for record in decode_records(batch)}
                offset = batch.next_offset
        except (WireError, Unreadable) as error:
            failure = str(error)
        if offset == start:  # otherwise the next fetch starts with the batch that failed
            resumed_at = bases[min(bisect_right(bases, offset), len(bases) - 1)]
            content.unreadable.append((range(offset, resumed_at), failure or "the response has no complete batch"))
            offset = resumed_at
    return content


def _check(batch: RecordBatch, offset: int, content: Content, ledger: PartitionLedger) -> None:
    check_batch(batch)
    is_known = bool(ledger.keys) or batch.base_offset <= offset or batch.base_offset in ledger.batches
    if not is_known or not offset < batch.next_offset <= content.end_offset:
        raise Unreadable(f"a batch has offsets {batch.base_offset} to {batch.last_offset}; expected was {offset}")


async def _fetch(client: RawClient, topic: str, partition: int, offset: int) -> bytes:
    fetched = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic, partitions=[fetched])])
    response = await client.request(request, FetchResponse, FETCH_V)
    error = response.error_code or response.responses[0].partitions[0].error_code
    if error:
        raise Unreadable(Error(error).name)
    return bytes(response.responses[0].partitions[0].records or b"")


def number_of(record: Record) -> int:
    """Return the number in a record."""
    digits = (record.value or b"").rstrip(b".")
    return int(digits) if digits.isdigit() else UNKNOWN_NUMBER
