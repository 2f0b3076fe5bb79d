"""Writes the group events of a member to `__group_events`.

Invariants:
- Best effort: a failure loses events and never affects the consumer. Pending events are bounded; the oldest are dropped
  first.
- The key is the group, the value is the JSON line of the event, as in the broker's own events.
- After a permanent error, nothing more is written; the log reports it once.
"""

import asyncio
from collections import deque
from typing import Final

from slackwater.client.errors import NetworkError
from slackwater.client.network.backoff import RetryBackoff
from slackwater.client.network.cluster import LAST_PRODUCE_VERSION_BY_NAME, Cluster
from slackwater.client.network.thread import NetworkThread
from slackwater.client.producer.partitioner import partition_for_key
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.events import GroupEvent
from slackwater.group.internal_topics import EVENTS_TOPIC
from slackwater.wire.apis import PRODUCE
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.schema import NO_UUID

log = get_logger("slackwater.client.events")
MAX_PENDING: Final = 1_000
MAX_BATCH: Final = 100
_MAX_ATTEMPTS: Final = 5


class EventPublisher:
    """Writes events. All methods are called on the network thread."""

    def __init__(self, cluster: Cluster, network: NetworkThread, topic: str = EVENTS_TOPIC) -> None:
        self._cluster = cluster
        self._network = network
        self._topic = topic
        self._pending: deque[GroupEvent] = deque(maxlen=MAX_PENDING)
        self._disabled = False
        self._task: asyncio.Task[None] | None = None

    def publish(self, event: GroupEvent) -> None:
        """Write this event soon."""
        if self._disabled:
            return
        self._pending.append(event)
        if self._task is None or self._task.done():
            self._task = self._network.loop.create_task(self._write_all())

    async def finish(self, timeout_s: float) -> None:
        """Wait for the pending events, up to a timeout."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=timeout_s)

    async def _write_all(self) -> None:
        backoff = RetryBackoff(self._cluster.config)
        failures = 0
        while self._pending and not self._disabled:
            events = [self._pending.popleft() for _ in range(min(len(self._pending), MAX_BATCH))]
            while not self._disabled:
                try:
                    await self._write(events)
                    failures = 0
                    break
                except SlackwaterError as error:
                    failures += 1
                    is_retriable = isinstance(error, NetworkError) or (
                        isinstance(error, BrokerError) and error.retriable
                    )
                    if not is_retriable or failures >= _MAX_ATTEMPTS:
                        self._give_up(error)
                except Exception:
                    log.exception("Writing group events failed.")
                    self._disabled = True
                await backoff.wait()

    def _give_up(self, error: SlackwaterError) -> None:
        self._disabled = True
        self._pending.clear()
        prefix = self._cluster.config.log_prefix
        log.warning("%sNo more events of this member are written to %s: %s", prefix, self._topic, error)

    async def _write(self, events: list[GroupEvent]) -> None:
        topic = self._cluster.topics.get(self._topic)
        if topic is None or not topic.partitions:
            topic = (await self._cluster.refresh([self._topic], create=True)).get(self._topic)
            if topic is None or not topic.partitions:
                error = topic.error if topic is not None else Error.UNKNOWN_TOPIC_OR_PARTITION
                raise BrokerError(error, f"The topic {self._topic} cannot be written: {error.name}.")
        partition = partition_for_key(events[0].group.encode(), len(topic.partitions))
        leader = self._cluster.leader(self._topic, partition)
        if leader is None:
            self._cluster.topics.pop(self._topic, None)
            raise BrokerError(Error.LEADER_NOT_AVAILABLE)
        records = [Record(event.group.encode(), event.to_json().encode(), (), event.time_ms) for event in events]
        timeout_ms = self._cluster.config.request_timeout_ms
        connection = await self._cluster.connection_to(leader.leader)
        version = connection.version_of(PRODUCE)
        if topic.topic_id == NO_UUID:
            version = min(version, LAST_PRODUCE_VERSION_BY_NAME)
        data = TopicProduceData(
            name=self._topic,
            topic_id=topic.topic_id,
            partition_data=[PartitionProduceData(index=partition, records=memoryview(encode_batch(records)))],
        )
        request = ProduceRequest(acks=1, timeout_ms=timeout_ms, topic_data=[data])
        response = await connection.send(request, timeout_s=timeout_ms / 1000, version=version)
        assert isinstance(response, ProduceResponse)
        for topic_response in response.responses:
            for partition_response in topic_response.partition_responses:
                if partition_response.error_code:
                    self._cluster.topics.pop(self._topic, None)
                    error = Error(partition_response.error_code)
                    raise BrokerError(error, f"Writing to {self._topic} failed: {error.name}.")
