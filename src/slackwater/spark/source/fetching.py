"""Fetches one range of a partition on an executor, one fetch ahead of the decoder.

Invariants:
- While the data of one fetch is decoded, the next fetch is in progress.
- Data loss is an error with failOnDataLoss, otherwise a warning.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slackwater.client.network.cluster import Cluster
from slackwater.client.network.fetch import FetchedData, FetchOptions
from slackwater.client.network.range_reader import RangeReader
from slackwater.client.network.thread import NetworkThread
from slackwater.escaping import get_logger
from slackwater.group.batches.config import DataLossError
from slackwater.group.offset_range import OffsetRange

log = get_logger("slackwater.spark.source.fetching")
DEFAULT_FETCH_BYTES: Final = 8 << 20  # about ten thousand rows; smaller Arrow batches have more overhead than content
_EXTRA_TIMEOUT_S: Final = 30.0
"""The reader reports its own timeout first; this one only ends a task whose network thread hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """The fetch settings that all tasks of a query share."""

    fetch_bytes: int = DEFAULT_FETCH_BYTES
    fetch_max_wait_ms: int = 500
    client_rack: str = ""
    read_committed: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000


class RangeFetcher:
    """Iterates over the record batches of one range, from the thread of the task."""

    def __init__(
        self, network: NetworkThread, cluster: Cluster, offset_range: OffsetRange, settings: FetchSettings
    ) -> None:
        self._network = network
        self._range = offset_range
        self._timeout_s = settings.poll_timeout_ms / 1000 + _EXTRA_TIMEOUT_S
        self._fail_on_data_loss = settings.fail_on_data_loss
        options = FetchOptions(
            max_bytes=settings.fetch_bytes,
            max_partition_bytes=settings.fetch_bytes,
            max_wait_ms=settings.fetch_max_wait_ms,
            read_committed=settings.read_committed,
            client_rack=settings.client_rack,
        )
        self._reader = RangeReader(
            cluster,
            offset_range,
            options,
            timeout_ms=settings.poll_timeout_ms,
            timeout_setting="kafkaConsumer.pollTimeoutMs",
            on_data_loss=self._on_data_loss,
        )

    def __iter__(self) -> Iterator[FetchedData]:
        pending = self._network.submit(self._reader.read(self._range.from_offset))
        try:
            while (data := pending.result(self._timeout_s)) is not None:
                pending = self._network.submit(self._reader.read(data.next_offset))
                yield data
        finally:
            pending.cancel()

    def _on_data_loss(self, lost: OffsetRange, seen: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(
                f"Data loss: {lost} is gone: {seen}. Retention deleted the records, or the topic was recreated. To "
                "skip lost records, set failOnDataLoss to false."
            )
        log.warning("Data loss: %s is gone and skipped: %s.", lost, seen)
