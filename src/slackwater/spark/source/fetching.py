"""Fetches the bytes of one range of a partition, ahead of whoever decodes them.

Rules kept here
- No fetch session: a range is asked for piece by piece, each from where the one before it ended, and the next one is
  under way while this one is decoded.
- What passes is tried again: a new leader, a broker that is away, an answer without records. Each try that brings the
  range no further counts against `kafkaConsumer.pollTimeoutMs`; a piece sets the time back.
- Records may be missing for two reasons. Compaction and transaction markers leave gaps, which nobody notices.
  Retention, a deleted topic and a log that was cut short lose data: with failOnDataLoss that is an error, else a
  warning, and the range goes on behind the loss.
- An empty answer of a broker whose log reaches past the range means that there is nothing left in it. It is believed
  when it was given twice.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slackwater.client.errors import ClientTimeoutError, NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.offsets import EARLIEST, LATEST, list_offsets
from slackwater.client.network.thread import NetworkThread
from slackwater.group.batches.config import DataLossError
from slackwater.group.errors import BrokerError, Error
from slackwater.group.offset_range import OffsetRange
from slackwater.wire.apis import FETCH
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from slackwater.wire.records.batch import end_offset
from slackwater.wire.records.compression import Buffer
from slackwater.wire.schema import NO_UUID

log = logging.getLogger("slackwater.spark.source.fetching")
BY_NAME: Final = 12
NO_SESSION: Final = -1
MAX_BYTES: Final = 2**31 - 1
PIECE_BYTES: Final = 8 << 20  # some ten thousand rows, below which a batch costs Spark more than it carries
_EMPTY_ANSWERS_BELIEVED: Final = 2
_GRACE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How pieces are asked for."""

    piece_bytes: int = PIECE_BYTES
    fetch_max_wait_ms: int = 500
    client_rack: str = ""
    read_committed: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole record batches; `aborted` are the transactions to leave out, None under read_uncommitted."""

    data: Buffer
    from_offset: int
    next_offset: int
    aborted: list[tuple[int, int]] | None


class RangeFetcher:
    """The pieces of one range, in order."""

    def __init__(self, network: NetworkThread, cluster: Cluster, wanted: OffsetRange, settings: FetchSettings) -> None:
        self._network = network
        self._cluster = cluster
        self._settings = settings
        self._wanted = wanted
        self._of = wanted.topic_partition
        self._max_bytes = settings.piece_bytes
        self._preferred_replica: int | None = None
        self._why = "nothing came"
        self._given_up_at = 0.0

    def __iter__(self) -> Iterator[Piece]:
        timeout_s = self._settings.poll_timeout_ms / 1000 + _GRACE_S
        under_way = self._network.submit(self._piece(self._wanted.from_offset))
        try:
            while (piece := under_way.result(timeout_s)) is not None:
                under_way = self._network.submit(self._piece(piece.next_offset))
                yield piece
        finally:
            under_way.cancel()

    async def _piece(self, position: int) -> Piece | None:
        """The next piece from here on; None at the end of the range."""
        config = self._cluster.config
        self._given_up_at = asyncio.get_running_loop().time() + self._settings.poll_timeout_ms / 1000
        pause_s = config.retry_backoff_ms / 1000
        empty_answers = 0
        while position < self._wanted.until_offset:
            data = await self._answer(position)
            error = Error.LEADER_NOT_AVAILABLE if data is None else Error(data.error_code)
            if error is Error.OFFSET_OUT_OF_RANGE and self._preferred_replica is None:
                position = await self._behind_the_loss(position)
                continue
            if data is not None and error is Error.NONE:
                if (piece := self._taken(data, position)) is not None:
                    return piece
                empty_answers += not data.records and self._reach(data) >= self._wanted.until_offset
                if empty_answers >= _EMPTY_ANSWERS_BELIEVED:
                    return None
            if data is not None:
                self._judge(error)
            await self._wait(pause_s, position)
            pause_s = min(pause_s * 2, config.retry_backoff_max_ms / 1000)
        return None

    async def _answer(self, position: int) -> PartitionData | None:
        """Ask once; None if there was nobody to ask."""
        try:
            return await self._fetch(position)
        except NetworkError as error:
            self._why = str(error)
            self._preferred_replica = None
            self._cluster.topics.pop(self._of.topic, None)  # its leader may be another by now
            return None

    async def _fetch(self, position: int) -> PartitionData | None:
        cluster = self._cluster
        known = cluster.topics.get(self._of.topic)
        leader = cluster.leader(*self._of)
        if known is None or leader is None:
            await cluster.refresh([self._of.topic])
            known, leader = cluster.topics.get(self._of.topic), cluster.leader(*self._of)
        if known is None or leader is None:
            self._why = "the partition has no leader" if known is not None else "there is no such topic"
            return None
        node = leader.leader if self._preferred_replica is None else self._preferred_replica
        connection = await cluster.connection_to(node)
        version = connection.version_of(FETCH)
        if known.topic_id == NO_UUID:
            version = min(version, BY_NAME)
        settings = self._settings
        wish = FetchPartition(
            partition=self._of.partition,
            current_leader_epoch=leader.leader_epoch,
            fetch_offset=position,
            partition_max_bytes=self._max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=int(settings.read_committed),
            session_epoch=NO_SESSION,
            topics=[FetchTopic(topic=known.name, topic_id=known.topic_id, partitions=[wish])],
            rack_id=settings.client_rack,
        )
        timeout_s = (cluster.config.request_timeout_ms + settings.fetch_max_wait_ms) / 1000
        answer = await connection.request(request, FetchResponse, timeout_s=timeout_s, version=version)
        if answer.error_code or not answer.responses or not answer.responses[0].partitions:
            return PartitionData(error_code=answer.error_code or Error.UNKNOWN_SERVER_ERROR)
        return answer.responses[0].partitions[0]

    def _taken(self, data: PartitionData, position: int) -> Piece | None:
        """What came, if it brings the range further."""
        if data.preferred_read_replica >= 0 and not data.records:
            self._preferred_replica = data.preferred_read_replica
            return None
        if not data.records:
            return None
        end = end_offset(data.records)
        if end is None:  # a broker from before KIP-74 cuts off even the first batch
            self._max_bytes = min(self._max_bytes * 2, MAX_BYTES)
            return None
        if end <= position:
            return None
        aborted = None
        if self._settings.read_committed:
            aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        return Piece(data.records, position, end, aborted)

    def _reach(self, data: PartitionData) -> int:
        """How far a reader gets in this log."""
        return data.last_stable_offset if self._settings.read_committed else data.high_watermark

    def _judge(self, error: Error) -> None:
        """Raise what no second try mends."""
        if error is Error.NONE:
            self._why = "the broker has no records there"
            return
        self._preferred_replica = None
        if not error.retriable and error not in (Error.OFFSET_OUT_OF_RANGE, Error.UNKNOWN_SERVER_ERROR):
            raise BrokerError(error, f"{self._of} cannot be read: {error.name}.")
        self._why = error.name
        self._cluster.topics.pop(self._of.topic, None)  # what was known of its leader is old

    async def _wait(self, pause_s: float, position: int) -> None:
        """Pause before the next try, or give up."""
        if asyncio.get_running_loop().time() + pause_s > self._given_up_at:
            raise ClientTimeoutError(
                f"No records of {self._of} from offset {position} on came within {self._settings.poll_timeout_ms} ms "
                f"(kafkaConsumer.pollTimeoutMs): {self._why.rstrip('.')}."
            )
        await asyncio.sleep(pause_s)

    async def _behind_the_loss(self, position: int) -> int:
        """Where to go on when the position is not in the log."""
        begins, ends = await self._log()
        if begins <= position <= ends:
            return position  # the leader has changed; the new one has it
        until = self._wanted.until_offset
        go_on = min(begins, until) if position < begins else until
        self._lost(position, go_on, f"its log has the offsets from {begins} until {ends}")
        return go_on

    async def _log(self) -> tuple[int, int]:
        """Where the log begins and ends, by its leader."""
        found = []
        for place in (EARLIEST, LATEST):
            at = (await list_offsets(self._cluster, {self._of: place}))[self._of]
            found.append(at.offset if at is not None else 0)
        return found[0], found[1]

    def _lost(self, from_offset: int, until_offset: int, seen: str) -> None:
        gone = OffsetRange(*self._of, from_offset, until_offset)
        if self._settings.fail_on_data_loss:
            raise DataLossError(
                f"Data loss: {gone} is gone: {seen}. They were deleted by retention, or the topic was made anew. To "
                "skip what is gone, set failOnDataLoss to false."
            )
        log.warning("Data loss: %s is gone and skipped: %s.", gone, seen)
