"""Random ids: what `uuid` makes of them."""

import threading
import uuid

from slackwater.broker.uuids import random_uuid


def test_they_are_random_uuids_and_no_two_are_the_same() -> None:
    made = [random_uuid() for _ in range(1_000)]
    assert len(set(made)) == len(made)
    for text in made:
        read = uuid.UUID(text)
        assert (read.version, read.variant, str(read)) == (4, uuid.RFC_4122, text)


def test_every_other_bit_is_sometimes_set_and_sometimes_not() -> None:
    ones, zeros = 0, 0
    for _ in range(200):
        number = uuid.UUID(random_uuid()).int
        ones |= number
        zeros |= ~number
    fixed = 0xF << 76 | 0x3 << 62
    assert (ones | fixed) & (zeros | fixed) & (2**128 - 1) == 2**128 - 1


def test_several_brokers_in_one_process_may_ask_at_once() -> None:
    made: list[list[str]] = [[] for _ in range(4)]

    def ask(mine: list[str]) -> None:
        mine += [random_uuid() for _ in range(2_000)]

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for mine in made for one in mine}) == 8_000
