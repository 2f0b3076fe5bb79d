"""Fetches one range of a partition on an executor, one fetch ahead of the decoder.

Invariants:
- While one piece is decoded, the next one is being fetched.
- Data loss is an error with failOnDataLoss, otherwise a warning.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slackwater.client.network.cluster import Cluster
from slackwater.client.network.fetch import FetchedData, FetchOptions
from slackwater.client.network.range_reader import RangeReader
from slackwater.client.network.thread import NetworkThread
from slackwater.group.batches.config import DataLossError
from slackwater.group.offset_range import OffsetRange

log = logging.getLogger("slackwater.spark.source.fetching")
PIECE_BYTES: Final = 8 << 20  # about ten thousand rows; smaller Arrow batches cost Spark more than they carry
_GRACE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """The fetch settings that all tasks of a query share."""

    piece_bytes: int = PIECE_BYTES
    fetch_max_wait_ms: int = 500
    client_rack: str = ""
    read_committed: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000


class RangeFetcher:
    """Iterates over the record batches of one range, from the thread of the task."""

    def __init__(self, network: NetworkThread, cluster: Cluster, offsets: OffsetRange, settings: FetchSettings) -> None:
        self._network = network
        self._range = offsets
        self._timeout_s = settings.poll_timeout_ms / 1000 + _GRACE_S
        self._fail_on_data_loss = settings.fail_on_data_loss
        options = FetchOptions(
            max_bytes=settings.piece_bytes,
            max_partition_bytes=settings.piece_bytes,
            max_wait_ms=settings.fetch_max_wait_ms,
            read_committed=settings.read_committed,
            client_rack=settings.client_rack,
        )
        self._reader = RangeReader(
            cluster,
            offsets,
            options,
            timeout_ms=settings.poll_timeout_ms,
            timeout_setting="kafkaConsumer.pollTimeoutMs",
            on_data_loss=self._on_data_loss,
        )

    def __iter__(self) -> Iterator[FetchedData]:
        pending = self._network.submit(self._reader.read(self._range.from_offset))
        try:
            while (batches := pending.result(self._timeout_s)) is not None:
                pending = self._network.submit(self._reader.read(batches.next_offset))
                yield batches
        finally:
            pending.cancel()

    def _on_data_loss(self, lost: OffsetRange, seen: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(
                f"Data loss: {lost} is gone: {seen}. Retention deleted the records, or the topic was recreated. To "
                "skip lost records, set failOnDataLoss to false."
            )
        log.warning("Data loss: %s is gone and skipped: %s.", lost, seen)
