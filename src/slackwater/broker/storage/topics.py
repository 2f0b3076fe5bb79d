"""The broker's topics: names, ids, partitions and their settings, remembered across restarts.

Rules kept here
- What topics there are stands in one small file, replaced as a whole: after a crash a topic is there or it is not.
- A directory without a topic is what a crash in the middle of a creation or a deletion left behind, and is removed.
- A topic's id is never used again, so that a client's old id cannot reach a new topic of the same name.
- Names are Kafka's: letters, digits, '.', '_' and '-', 249 at most. Two names that differ in '.' and '_' only cannot
  both be, because Kafka's metrics cannot tell them apart.
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
from slackwater.broker.storage.directory import rename_for_deletion
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import replace_file
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.group.errors import BrokerError, Error, UsageError

log = logging.getLogger("slackwater.broker.storage.topics")
OFFSETS_TOPIC: Final = "__consumer_offsets"
EVENTS_TOPIC: Final = "__group_events"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL: Final = frozenset({OFFSETS_TOPIC, EVENTS_TOPIC, TRANSACTIONS_TOPIC})
FILE: Final = "topics.json"
MAX_PARTITIONS: Final = 10_000
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True, eq=False)
class Partition:
    """One partition and whoever waits for it to grow."""

    topic: "Topic"
    index: int
    log: PartitionLog
    waiters: dict[Callable[[], None], None] = field(default_factory=dict)

    def wake_waiters(self) -> None:
        """Wake whoever waits."""
        if self.waiters:
            for wake in list(self.waiters):
                wake()

    def leader_epoch_error(self, current_leader_epoch: int) -> Error | None:
        """What to tell a client that believes in another leader epoch; below 0 it believes in none (KIP-320)."""
        epoch = self.log.leader_epoch
        if current_leader_epoch < 0 or current_leader_epoch == epoch:
            return None
        return Error.FENCED_LEADER_EPOCH if current_leader_epoch < epoch else Error.UNKNOWN_LEADER_EPOCH


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
        self._remove = remove or remove_directories  # large files take their time; a broker does it in its thread
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._plain_names: dict[str, str] = {}  # with '_' for '.', to find names that collide

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
        log_config(self._settings, {})  # what no log can work with is said now, not when the first topic is made
        for topic, partitions in self._remembered():
            self._open(topic, partitions, clean_shutdown=clean_shutdown)
            self._enter(topic)
        known = {f"{topic.name}-{partition.index}" for topic in self for partition in topic.partitions}
        for directory in self._directory.iterdir():
            if directory.is_dir() and re.fullmatch(r".+-\d+", directory.name) and directory.name not in known:
                shutil.rmtree(directory)

    def _remembered(self) -> list[tuple[Topic, int]]:
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
                f"{path} cannot be read as the list of topics. Mend it, or use another directory."
            ) from error

    def create(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> Topic:
        """Make a topic; an `OSError` leaves nothing of it."""
        self.check(name, partitions, settings or {})
        topic = Topic(name, self._new_id(), parse_topic_settings(settings or {}))
        try:
            self._open(topic, partitions)
            self._enter(topic)
            self._save()
        except OSError:
            self._leave(topic)
            self._discard(topic, 0)
            raise
        return topic

    def check(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Raise `BrokerError` if such a topic cannot be made."""
        if not is_legal_name(name):
            raise BrokerError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic name {name!r} is illegal; use 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'.",
            )
        if name in self._topics:
            raise BrokerError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if (other := self._plain_names.get(_plain(name))) is not None:
            raise BrokerError(Error.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise BrokerError(
                Error.INVALID_PARTITIONS, f"{partitions} partitions cannot be; use 1 to {MAX_PARTITIONS}."
            )
        self.check_settings(settings)

    def check_settings(self, settings: Mapping[str, str]) -> dict[str, Value]:
        """A topic's own settings, read; raise `BrokerError` if no log can work with them."""
        try:
            overrides = parse_topic_settings(settings)
            log_config(self._settings, overrides)
        except UsageError as error:
            raise BrokerError(Error.INVALID_CONFIG, str(error)) from error
        return overrides

    def delete(self, topic: Topic) -> None:
        """Forget a topic and its records; an `OSError` leaves the topic as it was."""
        self._leave(topic)
        try:
            self._save()
        except OSError:
            self._enter(topic)
            raise
        doomed = []
        for partition in topic.partitions:
            partition.log.abandon()
            with contextlib.suppress(OSError):  # the next start removes it
                doomed.append(rename_for_deletion(partition.log.directory, topic.topic_id.hex()))
            partition.wake_waiters()  # whoever waits finds nothing any more
        self._remove(doomed)

    def grow(self, topic: Topic, partitions: int) -> None:
        """Add partitions up to this number; an `OSError` leaves the topic as it was."""
        before = len(topic.partitions)
        try:
            self._open(topic, partitions)
            self._save()
        except OSError:
            self._discard(topic, before)
            raise

    def alter(self, topic: Topic, overrides: dict[str, Value]) -> None:
        """Give a topic other settings; an `OSError` leaves those it has."""
        before, topic.overrides = topic.overrides, overrides
        try:
            self._save()
        except OSError:
            topic.overrides = before
            raise
        self._configure(topic)

    def configure(self) -> None:
        """The broker's settings have changed: tell every log what holds for it now."""
        for topic in self:
            self._configure(topic)

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
        return log_config(self._settings, topic.overrides)

    def _configure(self, topic: Topic) -> None:
        config = self.config(topic)
        for partition in topic.partitions:
            partition.log.config = config

    def _open(self, topic: Topic, partitions: int, *, clean_shutdown: bool = False) -> None:
        config = self.config(topic)
        for index in range(len(topic.partitions), partitions):
            opened = PartitionLog.open(self._path(topic, index), config, self._now_ms(), clean_shutdown=clean_shutdown)
            for cut in opened.truncated_tails:
                log.warning("%s", cut)
            topic.partitions.append(Partition(topic, index, opened))

    def _enter(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._plain_names[_plain(topic.name)] = topic.name

    def _leave(self, topic: Topic) -> None:
        self._topics.pop(topic.name, None)
        self._by_id.pop(topic.topic_id, None)
        if self._plain_names.get(_plain(topic.name)) == topic.name:
            del self._plain_names[_plain(topic.name)]

    def _discard(self, topic: Topic, kept: int) -> None:
        """Take back partitions that could not be made; what the disk keeps of them the next start removes."""
        for partition in topic.partitions[kept:]:
            partition.log.abandon()
            shutil.rmtree(partition.log.directory, ignore_errors=True)
        del topic.partitions[kept:]

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
    """What a log of a topic with these settings of its own goes by; `UsageError` if it cannot."""
    return LogConfig.from_settings(
        {name: format_value(settings.of_topic(name, overrides)) for name in SYNONYMS}
        | {"producer.id.expiration.ms": format_value(settings["producer.id.expiration.ms"])}
    )


def is_legal_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def remove_directories(paths: Sequence[Path]) -> None:
    """Remove directories and all that is in them; what cannot be removed stays for the next start."""
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _plain(name: str) -> str:
    return name.replace(".", "_")
