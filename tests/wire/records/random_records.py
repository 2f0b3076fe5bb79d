"""Records of every shape, from a seed."""

from random import Random

from slackwater.wire.records.record import Record

NAMES = ("trace", "ключ", "", "x" * 200)


def maybe_bytes(random: Random, most: int) -> bytes | None:
    """Nothing, emptiness, or bytes that compress and bytes that do not."""
    size = random.choice((0, 1, 63, 64, 65, random.randint(0, most)))
    return random.choice((None, b"", random.randbytes(size), bytes([random.randrange(256)]) * size))


def random_records(random: Random, *, large: bool = False, most: int = 40) -> list[Record]:
    """One record or more, by rising offset; with `large`, more than a block of any codec holds."""
    base = random.choice((0, 5, 2**33, 2**62))
    clock = random.choice((0, 1_700_000_000_000, 2**61))
    records = []
    offset = base
    for _ in range(random.randint(1, most)):
        headers = tuple((random.choice(NAMES), maybe_bytes(random, 50)) for _ in range(random.choice((0, 0, 1, 3))))
        timestamp = random.choice((-1, clock, clock + random.randint(0, 10**6)))
        value = maybe_bytes(random, 50_000 if large else 400)
        records.append(Record(maybe_bytes(random, 100), value, headers, timestamp, offset))
        offset += random.choice((1, 1, 1, 70, 10_000))
    return records
