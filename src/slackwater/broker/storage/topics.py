"""The topics of a broker: names, ids, partitions and settings, stored across restarts.

Invariants:
- `topics.json` lists all topics and is replaced atomically: after a crash a topic exists or it does not.
- A partition directory without a topic was left by a crash during creation or deletion, and is removed.
- Every partition directory has Kafka's `partition.metadata` file with the topic id.
- Topic ids are never reused, so a client's old id cannot match a new topic with the same name.
- Names follow Kafka: letters, digits, '.', '_' and '-', at most 249 characters. Two names that differ only in '.' and
  '_' collide, because Kafka's metrics cannot distinguish them.
"""

import contextlib
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from slackwater.broker.config import SYNONYMS, Settings, Value, format_value, parse_topic_settings
from slackwater.broker.storage.directory import (
    PARTITION_METADATA,
    read_topic_id,
    rename_for_deletion,
    write_topic_id,
)
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import replace_file
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC

log = logging.getLogger("slackwater.broker.storage.topics")
INTERNAL: Final = frozenset({OFFSETS_TOPIC, EVENTS_TOPIC, TRANSACTIONS_TOPIC})
FILE: Final = "topics.json"
MAX_PARTITIONS: Final = 10_000
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True, eq=False)
class Partition:
    """One partition and the callbacks that wait for new records."""

    topic: "Topic"
    index: int
    log: PartitionLog
    waiters: dict[Callable[[], None], None] = field(default_factory=dict)

    def wake_waiters(self) -> None:
        """Call the callbacks that wait for new records."""
        if self.waiters:
            for wake in list(self.waiters):
                wake()

    def leader_epoch_error(self, current_leader_epoch: int) -> Error | None:
        """Return the error for a client's leader epoch, or None; a negative epoch is not checked (KIP-320)."""
        epoch = self.log.leader_epoch
        if current_leader_epoch < 0 or current_leader_epoch == epoch:
            return None
        return Error.FENCED_LEADER_EPOCH if current_leader_epoch < epoch else Error.UNKNOWN_LEADER_EPOCH


@dataclass(slots=True, eq=False)
class Topic:
    """A topic; `overrides` are the settings of the topic itself."""

    name: str
    topic_id: bytes
    overrides: dict[str, Value]
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Whether the topic is one of Kafka's internal topics."""
        return self.name in INTERNAL


class Topics:
    """The topics of a broker."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        now_ms: Callable[[], int],
        new_id: Callable[[], bytes],
        remove: Callable[[Sequence[Path]], None] | None = None,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._now_ms = now_ms
        self._new_id = new_id
        self._remove = remove or remove_directories  # the broker removes large files in a thread
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._collision_names: dict[str, str] = {}  # name with '_' for '.' → name
        self.on_partitions_created: Callable[[str, int], None] = lambda name, count: None

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, name: str) -> Topic | None:
        """Return the topic with this name."""
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return one partition."""
        topic = self._topics.get(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    # --- create and delete --------------------------------------------------------------------------------------------

    def load(self, *, clean_shutdown: bool = False) -> None:
        """Open all topics, and remove partition directories that a crash left behind."""
        log_config(self._settings, {})  # report unusable settings now, not when the first topic is created
        for topic, partitions in self._read_file():
            self._open(topic, partitions, is_new=False, clean_shutdown=clean_shutdown)
            self._add(topic)
        known = {f"{topic.name}-{partition.index}" for topic in self for partition in topic.partitions}
        for directory in self._directory.iterdir():
            if directory.is_dir() and re.fullmatch(r".+-\d+", directory.name) and directory.name not in known:
                shutil.rmtree(directory)

    def _read_file(self) -> list[tuple[Topic, int]]:
        path = self._directory / FILE
        if not path.exists():
            return []
        try:
            return [
                (
                    Topic(row["name"], bytes.fromhex(row["topic_id"]), parse_topic_settings(row["settings"])),
                    row["partitions"],
                )
                for row in json.loads(path.read_bytes())
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"Cannot parse the list of topics in {path}. Repair the file, or use another directory."
            ) from error

    def create(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> Topic:
        """Create a topic. If this raises OSError, nothing is left of it."""
        self.check(name, partitions, settings or {})
        topic = Topic(name, self._new_id(), parse_topic_settings(settings or {}))
        try:
            self._open(topic, partitions)
            self._add(topic)
            self._save()
        except OSError:
            self._remove_names(topic)
            self._discard(topic, 0)
            raise
        self.on_partitions_created(topic.name, partitions)
        return topic

    def check(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Raise `BrokerError` if this topic cannot be created."""
        if not is_legal_name(name):
            raise BrokerError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic name {name!r} is illegal; use 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'.",
            )
        if name in self._topics:
            raise BrokerError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if (other := self._collision_names.get(_collision_name(name))) is not None:
            raise BrokerError(Error.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise BrokerError(
                Error.INVALID_PARTITIONS, f"The number of partitions is {partitions}; use 1 to {MAX_PARTITIONS}."
            )
        self.check_settings(settings)

    def check_settings(self, settings: Mapping[str, str]) -> dict[str, Value]:
        """Parse the settings of a topic; raise `BrokerError` if they are invalid."""
        try:
            overrides = parse_topic_settings(settings)
            log_config(self._settings, overrides)
        except UsageError as error:
            raise BrokerError(Error.INVALID_CONFIG, str(error)) from error
        return overrides

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its records. If this raises OSError, the topic is unchanged."""
        self._remove_names(topic)
        try:
            self._save()
        except OSError:
            self._add(topic)
            raise
        renamed = []
        for partition in topic.partitions:
            partition.log.close_unclean()
            with contextlib.suppress(OSError):  # the next start deletes it
                renamed.append(rename_for_deletion(partition.log.directory, topic.topic_id.hex()))
            partition.wake_waiters()  # waiting fetches get an error
        self._remove(renamed)

    def add_partitions(self, topic: Topic, partitions: int) -> None:
        """Grow a topic to this number of partitions. If this raises OSError, the topic is unchanged."""
        before = len(topic.partitions)
        try:
            self._open(topic, partitions)
            self._save()
        except OSError:
            self._discard(topic, before)
            raise
        self.on_partitions_created(topic.name, partitions)

    def alter(self, topic: Topic, overrides: dict[str, Value]) -> None:
        """Replace the settings of a topic. If this raises OSError, the settings are unchanged."""
        previous, topic.overrides = topic.overrides, overrides
        try:
            self._save()
        except OSError:
            topic.overrides = previous
            raise
        self._configure(topic)

    def configure(self) -> None:
        """Apply changed broker settings to every log."""
        for topic in self:
            self._configure(topic)

    def close(self, *, clean: bool = True) -> None:
        """Close all logs; `clean=False` leaves them as a killed process does."""
        for topic in self:
            for partition in topic.partitions:
                if clean:
                    partition.log.close()
                else:
                    partition.log.close_unclean()

    # --- internal -----------------------------------------------------------------------------------------------------

    def config(self, topic: Topic) -> LogConfig:
        """Return the log settings of a topic."""
        return log_config(self._settings, topic.overrides)

    def _configure(self, topic: Topic) -> None:
        config = self.config(topic)
        for partition in topic.partitions:
            partition.log.config = config

    def _open(self, topic: Topic, partitions: int, *, is_new: bool = True, clean_shutdown: bool = False) -> None:
        config = self.config(topic)
        for index in range(len(topic.partitions), partitions):
            path = self._path(topic, index)
            if is_new and path.is_dir():
                shutil.rmtree(path)  # left by a deletion that failed
            partition_log = PartitionLog.open(path, config, self._now_ms(), clean_shutdown=clean_shutdown)
            topic.partitions.append(Partition(topic, index, partition_log))
            for tail in partition_log.truncated_tails:
                log.warning("%s", tail)
            _check_topic_id(path, topic)

    def _add(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._collision_names[_collision_name(topic.name)] = topic.name

    def _remove_names(self, topic: Topic) -> None:
        self._topics.pop(topic.name, None)
        self._by_id.pop(topic.topic_id, None)
        if self._collision_names.get(_collision_name(topic.name)) == topic.name:
            del self._collision_names[_collision_name(topic.name)]

    def _discard(self, topic: Topic, first: int) -> None:
        """Remove partitions that could not be created; the next start deletes what remains on disk."""
        for partition in topic.partitions[first:]:
            partition.log.close_unclean()
            shutil.rmtree(partition.log.directory, ignore_errors=True)
        del topic.partitions[first:]

    def _path(self, topic: Topic, index: int) -> Path:
        return self._directory / f"{topic.name}-{index}"

    def _save(self) -> None:
        rows = [
            {
                "name": topic.name,
                "topic_id": topic.topic_id.hex(),
                "partitions": len(topic.partitions),
                "settings": {name: format_value(value) for name, value in topic.overrides.items()},
            }
            for topic in self
        ]
        replace_file(self._directory / FILE, json.dumps(rows, indent=1).encode(), sync=True)


def log_config(settings: Settings, overrides: Mapping[str, Value]) -> LogConfig:
    """Return the log settings of a topic with these overrides; raise `UsageError` if they are invalid."""
    return LogConfig.from_settings(
        {name: format_value(settings.for_topic(name, overrides)) for name in SYNONYMS}
        | {"producer.id.expiration.ms": format_value(settings["producer.id.expiration.ms"])}
    )


def _check_topic_id(directory: Path, topic: Topic) -> None:
    """Write `partition.metadata` if it is missing; raise `UsageError` if the directory belongs to another topic."""
    topic_id = read_topic_id(directory)
    if topic_id is None:
        write_topic_id(directory, topic.topic_id)
    elif topic_id != topic.topic_id:
        raise UsageError(
            f"{directory / PARTITION_METADATA} has topic id {topic_id.hex()}, but topic {topic.name!r} has "
            f"{topic.topic_id.hex()} in {FILE}: the directory is from another topic. Move it out of the data directory."
        )


def is_legal_name(name: str) -> bool:
    """Whether this is a valid topic name."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def remove_directories(paths: Sequence[Path]) -> None:
    """Remove directories; the next start removes what cannot be removed now."""
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _collision_name(name: str) -> str:
    return name.replace(".", "_")
