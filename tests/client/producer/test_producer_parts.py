"""Partitioners, batches and deliveries of the producer."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, TimeoutError, as_completed, wait

import pytest

from slackwater.client.errors import ClientTimeoutError
from slackwater.client.producer.accumulator import Accumulator, ProducerBatch, ProducerIdAndEpoch
from slackwater.client.producer.delivery import BatchOutcome, Delivery, RecordMetadata
from slackwater.client.producer.partitioner import KeyPartitioner, StickyPartitioner, murmur2, partition_for_key
from slackwater.group.errors import SlackwaterError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.records.batch import RecordBatch
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import NO_HEADERS, PackedRecord, decode_records

P0 = TopicPartition("t", 0)
TIMEOUT_S = 60.0


# --- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_murmur2_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_cached_keys_keep_their_partition() -> None:
    keys = [b"%d" % number for number in range(25_000)] + [b"x" * 200]
    partitioner = KeyPartitioner(7)
    for _ in range(2):
        assert [partitioner.partition(key) for key in keys] == [partition_for_key(key, 7) for key in keys]


def test_keyless_records_stick_for_one_batch() -> None:
    partitioner = StickyPartitioner([0, 2, 5], batch_bytes=100)
    partitions = [partitioner.partition(50) for _ in range(3_000)]
    pairs = list(zip(partitions[::2], partitions[1::2], strict=True))
    assert all(first == second for first, second in pairs)
    assert all(last != following for last, following in zip(partitions[1::2], partitions[2::2], strict=False))
    assert Counter(partitions).keys() == {0, 2, 5}


def test_single_partition_is_always_chosen() -> None:
    partitioner = StickyPartitioner([3], batch_bytes=1)
    assert {partitioner.partition(10) for _ in range(5)} == {3}


# --- batches ----------------------------------------------------------------------------------------------------------


def packed(number: int) -> PackedRecord:
    return (b"k%d" % number, b"v" * 50, NO_HEADERS, 1_000 + number)


def filled(accumulator: Accumulator, count: int) -> list[Delivery]:
    queue = accumulator.queue(P0)
    return [accumulator.append(queue, packed(number), 67, None, 0.0)[0] for number in range(count)]


def test_batch_size_is_an_upper_bound() -> None:
    accumulator = Accumulator(batch_bytes=1_000, linger_s=1.0, memory_bytes=10_000)
    filled(accumulator, 40)
    for batch in accumulator.queue(P0).batches:
        assert len(batch.close(ProducerIdAndEpoch(1, 0), 0, Codec.NONE, None)) <= batch.size <= 1_000


def test_released_batches_free_memory() -> None:
    accumulator = Accumulator(batch_bytes=1_000, linger_s=1.0, memory_bytes=3_000)
    filled(accumulator, 30)
    assert accumulator.used_bytes == sum(batch.size for batch in accumulator.queue(P0).batches)
    for batch in list(accumulator.queue(P0).batches):
        assert not accumulator.is_empty
        accumulator.release(batch)
    assert (accumulator.used_bytes, accumulator.is_empty) == (0, True)


def test_a_closed_batch_takes_no_more_records() -> None:
    accumulator = Accumulator(batch_bytes=1_000, linger_s=1.0, memory_bytes=10_000)
    filled(accumulator, 1)
    (first,) = accumulator.queue(P0).batches
    first.close(ProducerIdAndEpoch(1, 0), 0, Codec.NONE, None)
    accumulator.queue(P0).restart_sequences()  # its bytes are discarded, but they may have been written
    filled(accumulator, 1)
    assert [batch.count for batch in accumulator.queue(P0).batches] == [1, 1]


def test_split_keeps_records_order_and_memory() -> None:
    batch = ProducerBatch(P0, 0.0)
    batch.records = [packed(number) for number in range(7)]
    batch.size = 1_001
    first_half, second_half = batch.split()
    assert first_half.records + second_half.records == batch.records
    assert first_half.size + second_half.size == batch.size
    keys = [
        record.key
        for half in (first_half, second_half)
        for record in decode_records(RecordBatch(half.close(ProducerIdAndEpoch(1, 0), 0, Codec.NONE, None)))
    ]
    assert keys == [b"k%d" % number for number in range(7)]
    third_quarter, last_quarter = second_half.split()
    assert [part.first for part in (first_half, third_quarter, last_quarter)] == [0, 3, 5]


# --- deliveries -------------------------------------------------------------------------------------------------------


def deliveries(outcome: BatchOutcome, count: int) -> list[Delivery]:
    return [Delivery(outcome, number, 1_000 + number) for number in range(count)]


def finish(outcome: BatchOutcome, base_offset: int = 10) -> None:
    assert outcome.add_part(0, base_offset)
    outcome.complete()


def test_future_returns_metadata_of_its_record() -> None:
    outcome = BatchOutcome(P0)
    futures = deliveries(outcome, 3)
    assert not futures[1].done()
    assert futures[1].running()
    with pytest.raises(TimeoutError):
        futures[1].result(0)
    finish(outcome)
    assert [future.result(0) for future in futures] == [RecordMetadata("t", 0, 10 + n, 1_000 + n) for n in range(3)]
    assert futures[0].exception(0) is None


def test_log_append_time_and_unknown_offset() -> None:
    outcome = BatchOutcome(P0)
    futures = deliveries(outcome, 2)
    outcome.add_part(0, -1, 77)
    outcome.complete()
    assert {future.result(0) for future in futures} == {RecordMetadata("t", 0, -1, 77)}


def test_failed_batch_fails_every_record() -> None:
    outcome = BatchOutcome(P0)
    futures = deliveries(outcome, 2)
    outcome.add_part(0, error=ClientTimeoutError("too late"))
    outcome.complete()
    for future in futures:
        with pytest.raises(ClientTimeoutError, match="too late"):
            future.result(0)
        assert isinstance(future.exception(0), ClientTimeoutError)


def test_parts_of_split_batch_complete_together() -> None:
    outcome = BatchOutcome(P0)
    futures = deliveries(outcome, 6)
    outcome.split()
    outcome.split()
    assert not outcome.add_part(2, 40)
    assert not outcome.add_part(0, 30)
    assert not futures[0].done()
    assert outcome.add_part(5, error=ClientTimeoutError("too late"))
    outcome.complete()
    assert [future.result(0).offset for future in futures[:5]] == [30, 31, 40, 41, 42]
    assert isinstance(futures[5].exception(0), ClientTimeoutError)


def test_sent_record_cannot_be_cancelled() -> None:
    outcome = BatchOutcome(P0)
    (future,) = deliveries(outcome, 1)
    assert not future.cancel()
    finish(outcome)
    assert not future.cancelled()
    assert future.result(0).offset == 10


def test_all_threads_waiting_for_a_batch_continue() -> None:
    outcome = BatchOutcome(P0)
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda future=future: results.append(future.result(TIMEOUT_S).offset))
        for future in deliveries(outcome, 4)
    ]
    for thread in threads:
        thread.start()
    finish(outcome)
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert sorted(results) == [10, 11, 12, 13]


def test_wait_and_as_completed_accept_deliveries() -> None:
    first_batch, second_batch = BatchOutcome(P0), BatchOutcome(P0)
    early, late = deliveries(first_batch, 2), deliveries(second_batch, 2)
    all_deliveries: Sequence[Future[RecordMetadata]] = [*early, *late]
    threading.Timer(0.05, finish, [first_batch]).start()
    done, _ = wait(all_deliveries, TIMEOUT_S, FIRST_COMPLETED)
    assert done
    assert done <= set(early)
    threading.Timer(0.05, finish, [second_batch, 20]).start()
    assert {future.result().offset for future in as_completed(all_deliveries, TIMEOUT_S)} == {10, 11, 20, 21}
    assert wait(all_deliveries, 0).not_done == set()


def test_asyncio_can_await_a_delivery() -> None:
    async def main() -> int:
        outcome = BatchOutcome(P0)
        (future,) = deliveries(outcome, 1)
        waiting = asyncio.wrap_future(future)
        await asyncio.to_thread(finish, outcome)
        return (await asyncio.wait_for(waiting, TIMEOUT_S)).offset

    assert asyncio.run(main()) == 10


def test_callbacks_run_in_order_despite_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcome = BatchOutcome(P0)
    calls: list[str] = []

    def on_delivery(metadata: RecordMetadata | None, error: SlackwaterError | None) -> None:
        assert metadata is not None
        calls.append(f"callback {metadata.offset}")
        if metadata.offset == 11:
            raise ValueError("mine")

    futures = deliveries(outcome, 3)
    for future in reversed(futures):
        future.add_done_callback(lambda done: calls.append(f"future {done.result().offset}"))
    for future in futures:
        outcome.add_callback(future.number, 0, on_delivery)
    finish(outcome)
    assert calls == ["future 10", "callback 10", "future 11", "callback 11", "future 12", "callback 12"]
    assert "A delivery callback failed." in caplog.text
    futures[0].add_done_callback(lambda done: calls.append("late"))
    assert calls[-1] == "late"
