"""Random records and fetch responses, reproducible from a seed."""

from collections.abc import Sequence
from random import Random

from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, encode_batch

HEADER_KEYS = ("trace", "ключ", "", "x" * 200)


def maybe_bytes(random: Random, max_size: int) -> bytes | None:
    """None, empty, compressible or incompressible bytes."""
    size = random.choice((0, 1, 63, 64, 65, random.randint(0, max_size)))
    return random.choice((None, b"", random.randbytes(size), bytes([random.randrange(256)]) * size))


def random_records(random: Random, *, large: bool = False, max_count: int = 40) -> list[Record]:
    """At least one record, with increasing offsets; `large` values exceed the block size of every codec."""
    clock = random.choice((0, 1_700_000_000_000, 2**61))
    offset = random.choice((0, 5, 2**33, 2**62))
    records = []
    for _ in range(random.randint(1, max_count)):
        headers = tuple(
            (random.choice(HEADER_KEYS), maybe_bytes(random, 50)) for _ in range(random.choice((0, 0, 1, 3)))
        )
        timestamp = random.choice((-1, clock, clock + random.randint(0, 10**6)))
        value = maybe_bytes(random, 50_000 if large else 400)
        records.append(Record(maybe_bytes(random, 100), value, headers, timestamp, offset))
        offset += random.choice((1, 1, 1, 70, 10_000))
    return records


def random_response(random: Random, codecs: Sequence[Codec] = tuple(Codec), batches: int = 6) -> bytes:
    """Batches with increasing offsets from 0 on, with both timestamp types."""
    parts = []
    next_offset = 0
    for _ in range(batches):
        records = random_records(random)
        first = records[0].offset
        moved = [
            record._replace(offset=record.offset - first + next_offset, timestamp=min(record.timestamp, 2**40))
            for record in records
        ]
        append_time = random.choice((None, 1_700_000_000_000))
        parts.append(
            encode_batch(moved, base_offset=next_offset, codec=random.choice(codecs), log_append_time_ms=append_time)
        )
        next_offset = moved[-1].offset + 1
    return b"".join(parts)
