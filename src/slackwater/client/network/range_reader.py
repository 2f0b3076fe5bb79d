"""Reads a range of offsets of one partition, fetch by fetch. Used by Spark executors and by the admin client.

Invariants:
- Fetches are sessionless: other readers of the partition do not notice them.
- A retriable error, an unreachable broker and an empty response are retried until `timeout_ms` has passed without
  progress. Every response with records resets the timeout.
- Gaps left by compaction and transaction markers are no data loss. Records deleted by retention, by a topic deletion
  or by a truncated log are: `on_data_loss` receives the lost range and may raise. If it returns, reading continues
  after the lost range.
- An empty response of a broker whose log reaches past the range means that the range holds no more records. Two such
  responses end the range.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.backoff import RetryBackoff
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.fetch import (
    FetchedData,
    FetchOptions,
    FetchStatus,
    fetch_position,
    fetch_status,
    fetched_data,
    send_fetch,
)
from slackwater.client.network.fetch_session import sessionless_request
from slackwater.client.network.offsets import EARLIEST, LATEST, list_offsets
from slackwater.group.errors import Error
from slackwater.group.offset_range import OffsetRange
from slackwater.wire.messages.fetch import PartitionData

MAX_FETCH_BYTES: Final = 2**31 - 1
_EMPTY_RESPONSES_AT_END: Final = 2

OnDataLoss = Callable[[OffsetRange, str], None]


class RangeReader:
    """The record batches of one range, in order. Runs on the network thread's loop."""

    def __init__(
        self,
        cluster: Cluster,
        offsets: OffsetRange,
        options: FetchOptions,
        *,
        timeout_ms: int,
        timeout_setting: str,
        on_data_loss: OnDataLoss,
    ) -> None:
        """`timeout_setting` is the name of the setting that the timeout error suggests."""
        self._cluster = cluster
        self._range = offsets
        self._partition = offsets.topic_partition
        self._options = options
        self._timeout_ms = timeout_ms
        self._timeout_setting = timeout_setting
        self._on_data_loss = on_data_loss
        self._preferred_replica: int | None = None
        self._last_failure = "no response"

    async def read(self, position: int) -> FetchedData | None:
        """Return the next batches from `position` on, or None at the end of the range."""
        backoff = RetryBackoff(self._cluster.config, self._timeout_ms / 1000)
        empty_responses = 0
        while position < self._range.until_offset:
            data = await self._fetch(position)
            if data is not None:
                error = Error(data.error_code)
                status = fetch_status(error)
                if status is FetchStatus.OUT_OF_RANGE and self._preferred_replica is None:
                    position = await self._resolve_out_of_range(position)
                    continue
                if status is FetchStatus.OK:
                    if (batches := self._accept(data, position)) is not None:
                        return batches
                    empty_responses += not data.records and self._readable_end(data) >= self._range.until_offset
                    if empty_responses >= _EMPTY_RESPONSES_AT_END:
                        return None
                    self._last_failure = "the broker returned no records"
                else:
                    self._on_error(error, status, position)
            if backoff.is_exhausted:
                raise self._timeout_error(position)
            await backoff.wait()
        return None

    async def _fetch(self, position: int) -> PartitionData | None:
        """Send one request; None if the partition has no reachable leader."""
        try:
            return await self._fetch_from_leader(position)
        except NetworkError as error:
            self._last_failure = str(error)
            self._preferred_replica = None
            self._cluster.topics.pop(self._partition.topic, None)  # the leader may have moved
            return None

    async def _fetch_from_leader(self, position: int) -> PartitionData | None:
        cluster, partition = self._cluster, self._partition
        leader = cluster.leader(*partition)
        if leader is None:
            await cluster.refresh([partition.topic])
            leader = cluster.leader(*partition)
        if leader is None:
            is_known = partition.topic in cluster.topics
            self._last_failure = "the partition has no leader" if is_known else "the topic does not exist"
            return None
        node_id = leader.leader if self._preferred_replica is None else self._preferred_replica
        connection = await cluster.connection_to(node_id)
        request = sessionless_request(
            partition, fetch_position(cluster, partition, position, self._options.max_partition_bytes)
        )
        response = await send_fetch(cluster, connection, request, self._options)
        if response.error_code or not response.responses or not response.responses[0].partitions:
            return PartitionData(error_code=response.error_code or Error.UNKNOWN_SERVER_ERROR)
        return response.responses[0].partitions[0]

    def _accept(self, data: PartitionData, position: int) -> FetchedData | None:
        """Return the batches of a response, if they advance the position."""
        if not data.records:
            if data.preferred_read_replica >= 0:
                self._preferred_replica = data.preferred_read_replica
            return None
        batches = fetched_data(data, position, read_committed=self._options.read_committed)
        if batches is None:  # brokers before KIP-74 cut even the first batch at the limit
            max_bytes = min(self._options.max_partition_bytes * 2, MAX_FETCH_BYTES)
            self._options = replace(self._options, max_bytes=max_bytes, max_partition_bytes=max_bytes)
        return batches

    def _readable_end(self, data: PartitionData) -> int:
        return data.last_stable_offset if self._options.read_committed else data.high_watermark

    def _on_error(self, error: Error, status: FetchStatus, position: int) -> None:
        """Prepare a retry, or raise an error that no retry resolves."""
        self._preferred_replica = None
        if status is FetchStatus.FATAL:
            text = f"{self._partition} cannot be read at offset {position}: {error.name}."
            raise self._cluster.error(error, text, f"Read on topic {self._partition.topic}")
        self._last_failure = error.name
        self._cluster.topics.pop(self._partition.topic, None)  # the leader may have moved

    def _timeout_error(self, position: int) -> ClientTimeoutError:
        return ClientTimeoutError(
            f"No records of {self._partition} from offset {position} arrived within {self._timeout_ms} ms "
            f"({self._timeout_setting}): {self._last_failure.rstrip('.')}."
        )

    async def _resolve_out_of_range(self, position: int) -> int:
        """Return the offset to continue from when the log does not contain the position."""
        start, end = await self._log_bounds()
        if start <= position <= end:
            return position  # the leader changed, and the new leader has the offset
        until = self._range.until_offset
        next_position = min(start, until) if position < start else until
        lost = OffsetRange(*self._partition, position, next_position)
        self._on_data_loss(lost, f"the log contains the offsets from {start} until {end}")
        return next_position

    async def _log_bounds(self) -> tuple[int, int]:
        bounds = []
        for timestamp in (EARLIEST, LATEST):
            offset = (await list_offsets(self._cluster, {self._partition: timestamp}))[self._partition]
            bounds.append(offset.offset if offset is not None else 0)
        return bounds[0], bounds[1]
