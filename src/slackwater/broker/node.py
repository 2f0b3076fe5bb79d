"""One broker's parts, put together: what a handler has to work with.

Rules kept here
- A part is made here, once, and knows only what it is given.
- Nothing here listens or blocks: `server` owns the sockets, the loop's timers and the thread.
- Two clocks: `clock` stamps records and times the log; `group_clock` drives the timers of groups, and a test may hold
  it still and move it by hand.
"""

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

from slackwater.broker.appends import Appends
from slackwater.broker.clock import Clock
from slackwater.broker.config import Settings
from slackwater.broker.connection import Call, Connection
from slackwater.broker.durability import Durability, InThread
from slackwater.broker.events import Events
from slackwater.broker.groups import Groups
from slackwater.broker.handlers import ANSWERED
from slackwater.broker.log.directory import DataDirectory
from slackwater.broker.metrics import Metrics
from slackwater.broker.offsets_log import OffsetsLog
from slackwater.broker.topics import OFFSETS_TOPIC, Topic, Topics
from slackwater.group.coordinator import CoordinatorConfig
from slackwater.group.events import GroupEvent

_MINUTE_MS: Final = 60_000


class Node:
    """A broker, as its handlers see it."""

    def __init__(
        self,
        settings: Settings,
        directory: DataDirectory,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        group_clock: Clock,
        in_thread: InThread,
        turn_begins: Callable[[], None],
        wake_groups_at: Callable[[int], None],
        advertised: tuple[str, int] | None = None,
    ) -> None:
        self.settings = settings
        self.directory = directory
        self.loop = loop
        self.clock = clock
        self.in_thread = in_thread
        self.node_id = directory.node_id
        self.cluster_id = directory.cluster_id
        self.advertised = advertised
        self.apis = ANSWERED
        self.metrics = Metrics()
        self.topics = Topics(directory.path, settings, now_ms=clock.now_ms, new_id=partial(secrets.token_bytes, 16))
        self.durability = Durability(always=settings.text("flush") == "always", in_thread=in_thread)
        self.appends = Appends(self.durability, now_ms=clock.now_ms, turn_begins=turn_begins)
        self.groups = Groups(
            coordinator_config(settings, directory.cluster_id),
            OffsetsLog(self.topics, self.durability, create=self.create_offsets_topic, now_ms=clock.now_ms),
            now_ms=group_clock.now_ms,
            wake_at=wake_groups_at,
            tell=self._tell,
            turn_begins=turn_begins,
        )
        self.events = Events(
            self.topics,
            node_id=self.node_id,
            shard_of=self.groups.coordinator.shard_of,
            publish=settings.flag("group.events.enable"),
            turn_begins=turn_begins,
        )
        self.events.subscribe(self.metrics.hear)

    def load(self) -> None:
        """Open what the last run left."""
        self.topics.load(clean_shutdown=self.directory.clean_shutdown)
        self.groups.load()

    def end_turn(self) -> None:
        """Write what this turn gathered."""
        self.appends.end_turn()
        self.groups.end_turn()
        self.events.end_turn()
        self.durability.end_turn()

    def address(self, call: Call) -> tuple[str, int]:
        """Where a client reaches this broker: what it was told to advertise, or the address the client came to."""
        return self.advertised or call.connection.listener

    def create_offsets_topic(self) -> Topic:
        """Make `__consumer_offsets`."""
        settings = self.settings
        return self.topics.create(
            OFFSETS_TOPIC,
            settings.number("offsets.topic.num.partitions"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.number("offsets.topic.segment.bytes")),
            },
        )

    def closed(self, connection: Connection) -> None:
        """A client has gone."""

    def close(self, *, clean: bool) -> None:
        """Let go of everything; `clean=False` leaves what a kill leaves."""
        self.topics.close(clean=clean)
        self.directory.close(clean=clean)

    def _tell(self, events: list[GroupEvent]) -> None:
        self.events.tell(events)


def coordinator_config(settings: Settings, cluster_id: str) -> CoordinatorConfig:
    """The coordinator's part of the settings."""
    return CoordinatorConfig(
        group_min_session_timeout_ms=settings.number("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=settings.number("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=settings.number("group.initial.rebalance.delay.ms"),
        group_max_size=settings.number("group.max.size"),
        offsets_topic_num_partitions=settings.number("offsets.topic.num.partitions"),
        offsets_retention_ms=settings.number("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=settings.number("offsets.retention.check.interval.ms"),
        offset_metadata_max_bytes=settings.number("offset.metadata.max.bytes"),
        cluster=cluster_id,
    )
