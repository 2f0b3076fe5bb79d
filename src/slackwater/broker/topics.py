"""The broker's topics: names, ids, partitions and their settings, remembered across restarts.

Rules kept here
- What topics there are stands in one small file, replaced as a whole: after a crash a topic is there or it is not.
- A directory without a topic is what a crash in the middle of a creation or a deletion left behind, and is removed.
- A topic's id is never used again, so that a client's old id cannot reach a new topic of the same name.
- Names are Kafka's: letters, digits, '.', '_' and '-', 249 at most.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from slackwater.broker.config import SYNONYMS, Settings, Value, parse_topic, show
from slackwater.broker.log.config import LogConfig
from slackwater.broker.log.files import replace_file
from slackwater.broker.log.partition_log import PartitionLog
from slackwater.group.errors import BrokerError, Error, UsageError

OFFSETS_TOPIC: Final = "__consumer_offsets"
EVENTS_TOPIC: Final = "__group_events"
INTERNAL: Final = frozenset({OFFSETS_TOPIC, EVENTS_TOPIC, "__transaction_state"})
FILE: Final = "topics.json"
MAX_PARTITIONS: Final = 10_000
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True, eq=False)
class Partition:
    """One partition and whoever waits for it to grow."""

    topic: "Topic"
    index: int
    log: PartitionLog
    waiting: dict[Callable[[], None], None] = field(default_factory=dict)

    def appended(self) -> None:
        """Wake whoever waits."""
        if self.waiting:
            for wake in list(self.waiting):
                wake()


@dataclass(slots=True, eq=False)
class Topic:
    """A topic; `overrides` are the settings that are its own."""

    name: str
    topic_id: bytes
    overrides: dict[str, Value]
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Whether clients should leave it alone."""
        return self.name in INTERNAL


class Topics:
    """All topics of a broker."""

    def __init__(
        self, directory: Path, settings: Settings, *, now_ms: Callable[[], int], new_id: Callable[[], bytes]
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._now_ms = now_ms
        self._new_id = new_id
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this id."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition."""
        topic = self._topics.get(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    # --- coming and going ---------------------------------------------------------------------------------------------

    def load(self, *, clean_shutdown: bool = False) -> None:
        """Open everything that was there when the broker stopped, and remove what a crash left half done."""
        path = self._directory / FILE
        rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        for row in rows:
            topic = Topic(row["name"], bytes.fromhex(row["topic_id"]), parse_topic(row["settings"]))
            self._open(topic, row["partitions"], clean_shutdown=clean_shutdown)
            self._enter(topic)
        known = {f"{topic.name}-{partition.index}" for topic in self for partition in topic.partitions}
        for directory in self._directory.iterdir():
            if directory.is_dir() and re.fullmatch(r".+-\d+", directory.name) and directory.name not in known:
                shutil.rmtree(directory)

    def create(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> Topic:
        """Make a topic."""
        self.check(name, partitions, settings or {})
        topic = Topic(name, self._new_id(), parse_topic(settings or {}))
        self._open(topic, partitions)
        self._enter(topic)
        self._save()
        return topic

    def check(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Raise `BrokerError` if such a topic cannot be made."""
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise BrokerError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic name {name!r} is illegal; use 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'.",
            )
        if name in self._topics:
            raise BrokerError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise BrokerError(
                Error.INVALID_PARTITIONS, f"{partitions} partitions cannot be; use 1 to {MAX_PARTITIONS}."
            )
        try:
            parse_topic(settings)
        except UsageError as error:
            raise BrokerError(Error.INVALID_CONFIG, str(error)) from error

    def delete(self, topic: Topic) -> None:
        """Forget a topic and its records."""
        del self._topics[topic.name], self._by_id[topic.topic_id]
        self._save()
        for partition in topic.partitions:
            partition.log.close()
            shutil.rmtree(self._path(topic, partition.index))
            partition.appended()  # whoever waits finds nothing any more

    def grow(self, topic: Topic, partitions: int) -> None:
        """Add partitions up to this number."""
        self._open(topic, partitions)
        self._save()

    def alter(self, topic: Topic, overrides: dict[str, Value]) -> None:
        """Give a topic other settings."""
        topic.overrides = overrides
        for partition in topic.partitions:
            partition.log.config = self.config(topic)
        self._save()

    def close(self, *, clean: bool = True) -> None:
        """Close all logs; `clean=False` leaves them as a kill does."""
        for topic in self:
            for partition in topic.partitions:
                if clean:
                    partition.log.close()
                else:
                    partition.log.abandon()

    # --- inside -------------------------------------------------------------------------------------------------------

    def config(self, topic: Topic) -> LogConfig:
        """A topic's settings as its logs know them."""
        return LogConfig.from_settings(
            {name: show(self._settings.of_topic(name, topic.overrides)) for name in SYNONYMS}
            | {"producer.id.expiration.ms": show(self._settings["producer.id.expiration.ms"])}
        )

    def _open(self, topic: Topic, partitions: int, *, clean_shutdown: bool = False) -> None:
        config = self.config(topic)
        for index in range(len(topic.partitions), partitions):
            log = PartitionLog.open(self._path(topic, index), config, self._now_ms(), clean_shutdown=clean_shutdown)
            topic.partitions.append(Partition(topic, index, log))

    def _enter(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _path(self, topic: Topic, index: int) -> Path:
        return self._directory / f"{topic.name}-{index}"

    def _save(self) -> None:
        rows = [
            {
                "name": topic.name,
                "topic_id": topic.topic_id.hex(),
                "partitions": len(topic.partitions),
                "settings": {name: show(value) for name, value in topic.overrides.items()},
            }
            for topic in self
        ]
        replace_file(self._directory / FILE, json.dumps(rows, indent=1).encode(), sync=True)
