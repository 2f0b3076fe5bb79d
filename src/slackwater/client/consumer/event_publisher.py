"""A member's own group events, written to `__group_events` for whoever watches the group.

Rules kept here
- Best effort: whatever goes wrong costs events, never the consumer. What waits is bounded, and the oldest goes first.
- The key is the group, the value the event's JSON line, as in the broker's own events.
- A cluster that refuses the topic is asked no more, and the log says so once.
"""

import asyncio
import logging
from collections import deque
from typing import Final

from slackwater.client.errors import NetworkError
from slackwater.client.network.cluster import Cluster
from slackwater.client.network.thread import NetworkThread
from slackwater.client.producer.partitioner import partition_for_key
from slackwater.group.errors import BrokerError, Error, SlackwaterError
from slackwater.group.events import GroupEvent
from slackwater.wire.apis import PRODUCE
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.schema import NO_UUID

log = logging.getLogger("slackwater.client.events")
EVENTS_TOPIC: Final = "__group_events"
MAX_WAITING: Final = 1_000
MAX_BATCH: Final = 100
_BY_NAME: Final = 12
_ATTEMPTS: Final = 5


class EventPublisher:
    """Writes events; `publish` and everything else is called on the network's thread."""

    def __init__(self, cluster: Cluster, network: NetworkThread, topic: str = EVENTS_TOPIC) -> None:
        self._cluster = cluster
        self._network = network
        self._topic = topic
        self._waiting: deque[GroupEvent] = deque(maxlen=MAX_WAITING)
        self._refused = False
        self._task: asyncio.Task[None] | None = None

    def publish(self, event: GroupEvent) -> None:
        """Write this soon."""
        if self._refused:
            return
        self._waiting.append(event)
        if self._task is None or self._task.done():
            self._task = self._network.loop.create_task(self._write_all())

    async def finish(self, timeout_s: float) -> None:
        """Give what waits a little more time."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=timeout_s)

    async def _write_all(self) -> None:
        pause_s = self._cluster.config.retry_backoff_ms / 1000
        failures = 0
        while self._waiting and not self._refused:
            events = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
            while not self._refused:
                try:
                    await self._write(events)
                    failures = 0
                    break
                except SlackwaterError as error:
                    failures += 1
                    passing = isinstance(error, NetworkError) or (isinstance(error, BrokerError) and error.retriable)
                    if not passing or failures >= _ATTEMPTS:
                        self._give_up(error)
                except Exception:
                    log.exception("Group events could not be written.")
                    self._refused = True
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, self._cluster.config.retry_backoff_max_ms / 1000)

    def _give_up(self, error: SlackwaterError) -> None:
        self._refused = True
        self._waiting.clear()
        prefix = self._cluster.config.log_prefix
        log.warning("%sThis member's events are not written to %s any more: %s", prefix, self._topic, error)

    async def _write(self, events: list[GroupEvent]) -> None:
        topic = self._cluster.topics.get(self._topic)
        if topic is None or not topic.partitions:
            topic = (await self._cluster.refresh([self._topic], create=True)).get(self._topic)
            if topic is None or not topic.partitions:
                error = topic.error if topic is not None else Error.UNKNOWN_TOPIC_OR_PARTITION
                raise BrokerError(error, f"The topic {self._topic} cannot be written to: {error.name}.")
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
            version = min(version, _BY_NAME)
        data = TopicProduceData(
            name=self._topic,
            topic_id=topic.topic_id,
            partition_data=[PartitionProduceData(index=partition, records=memoryview(encode_batch(records)))],
        )
        request = ProduceRequest(acks=1, timeout_ms=timeout_ms, topic_data=[data])
        answer = await connection.send(request, timeout_s=timeout_ms / 1000, version=version)
        assert isinstance(answer, ProduceResponse)
        for row in answer.responses:
            for one in row.partition_responses:
                if one.error_code:
                    self._cluster.topics.pop(self._topic, None)
                    error = Error(one.error_code)
                    raise BrokerError(error, f"{self._topic} refused them: {error.name}.")
