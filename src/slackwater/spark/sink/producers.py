"""The producers of a Python worker, which all its tasks reuse.

Invariants:
- One producer per distinct settings, created on first use: connecting for each task would cost more than a small task.
- A producer that has failed is closed, and the next task creates another.
- A forked process starts without producers: threads and sockets do not survive a fork.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from slackwater.client.producer.bulk import BulkProducer
from slackwater.group.errors import SlackwaterError
from slackwater.spark.clients.connections import DEFAULT_CLIENT_ID
from slackwater.spark.clients.settings import CLIENT_ID_SETTING, with_shipped_files

MAX_PRODUCERS: Final = 4
_producers: dict[tuple[int, tuple[tuple[str, str], ...]], BulkProducer] = {}


@contextmanager
def shared_producer(kafka: Mapping[str, str]) -> Iterator[BulkProducer]:
    """Use the producer for these settings; it is closed if the block raises."""
    key = (os.getpid(), tuple(sorted(kafka.items())))
    producer = _producers.pop(key, None) or create_producer(kafka)
    try:
        yield producer
    except BaseException:
        with suppress(SlackwaterError):  # records that were not delivered
            producer.close(timeout=0)
        raise
    _producers[key] = producer
    for oldest in list(_producers)[:-MAX_PRODUCERS]:
        unused = _producers.pop(oldest)
        if oldest[0] == os.getpid():
            unused.close()


def create_producer(kafka: Mapping[str, str]) -> BulkProducer:
    """Create a producer in this process."""
    return BulkProducer({CLIENT_ID_SETTING: DEFAULT_CLIENT_ID} | with_shipped_files(kafka))


def close_producers() -> None:
    """Close all producers of this process."""
    while _producers:
        key, producer = _producers.popitem()
        if key[0] == os.getpid():
            producer.close()
