"""The topics of a broker: names, ids, partitions and settings, stored across restarts.

Invariants:
- `topics.json` lists all topics and is replaced atomically: after a crash a topic exists or it does not. A creation
  ends, and a deletion begins, with the renaming of the partition directories (`partition_directory`). A start finishes
  or undoes the renaming of listed topics, and removes the directories of an unfinished creation or deletion.
- Every partition directory has Kafka's `partition.metadata` file with the topic id. A topic that `topics.json` has lost
  is added again from these files. Its settings are lost; it keeps all records until it is configured again.
- The broker removes nothing else. A directory that belongs to no topic is logged and stays.
- Topic ids are never reused, so a client's old id cannot match a new topic with the same name.
- Names follow Kafka: letters, digits, '.', '_' and '-', at most 249 characters. Two names that differ only in '.' and
  '_' collide, because Kafka's metrics cannot distinguish them.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slackwater.broker.config import SYNONYMS, Settings, Value, format_value, parse_topic_settings
from slackwater.broker.slices import Sliced, run_to_completion
from slackwater.broker.storage.descriptors import check_descriptors
from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import replace_file
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.partition_directory import (
    PARTITION_METADATA,
    TOPIC_ID_BYTES,
    PartitionDirectory,
    Unfinished,
    plain_name,
    read_topic_id,
    remove_partition_directory,
    unfinished_name,
    write_topic_id,
)
from slackwater.escaping import get_logger
from slackwater.group.errors import BrokerError, Error, UsageError
from slackwater.group.internal_topics import EVENTS_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC

log = get_logger("slackwater.broker.storage.topics")
INTERNAL: Final = frozenset({OFFSETS_TOPIC, EVENTS_TOPIC, TRANSACTIONS_TOPIC})
FILE: Final = "topics.json"
MAX_PARTITIONS: Final = 10_000
# A topic that has lost its settings must not lose its records to the broker's default retention.
KEEP_RECORDS: Final[Mapping[str, str]] = {"retention.ms": "-1", "retention.bytes": "-1"}
_MAX_LOGGED_REFUSALS: Final = 1000
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


_Rows = dict[str, tuple[Topic, int]]  # topics and their numbers of partitions, by name


class Topics:
    """The topics of a broker."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        *,
        wall_ms: Callable[[], int],
        new_id: Callable[[], bytes],
        remove: Callable[[Sequence[Path]], None] | None = None,
        lost_settings: Callable[[str], Mapping[str, str]] = lambda _name: KEEP_RECORDS,
    ) -> None:
        """Create an empty collection.

        `remove` removes partition directories. `lost_settings` returns the settings of a topic that `topics.json` lost.
        """
        self._directory = directory
        self._settings = settings
        self._wall_ms = wall_ms
        self._new_id = new_id
        self._remove = remove or remove_directories  # the broker removes large files in a thread
        self._lost_settings = lost_settings
        self._refused: set[str] = set()  # topics for which `check_room` has logged the reason
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._growing: set[str] = set()  # topics whose partitions are being created
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
        """Open all topics, and finish what a crash has interrupted."""
        log_config(self._settings, {})  # report unusable settings now, not when the first topic is created
        rows = self._read_file()
        with os.scandir(self._directory) as entries:
            names = {entry.name for entry in entries if entry.is_dir()}
        parsed = (PartitionDirectory.parse(self._directory / name) for name in names)
        directories = [directory for directory in parsed if directory is not None]
        has_lost_topics = self._add_lost_topics(rows, (each for each in directories if each.unfinished is None))
        unfinished = {(each.topic_id, each.partition): each.path for each in directories if each.unfinished is not None}
        for topic, partitions in rows.values():
            self._finish_renaming(topic, partitions, names, unfinished)
            self._add(topic)
            self._open(topic, partitions, clean_shutdown=clean_shutdown)
        if has_lost_topics:
            self._save()
        remove_directories(list(unfinished.values()))

    def _add_lost_topics(self, rows: _Rows, directories: Iterable[PartitionDirectory]) -> bool:
        """Add the partitions that are on disk but not in `topics.json`; return whether there are any."""
        has_lost_topics = False
        # The last partition first: it gives the number of partitions.
        for directory in sorted(directories, key=lambda each: (each.topic, -each.partition)):
            name, index = directory.topic, directory.partition
            topic, partitions = rows.get(name, (None, 0))
            if index < partitions:
                continue
            topic_id = read_topic_id(directory.path)
            if topic_id is None or not is_legal_name(name) or index >= MAX_PARTITIONS:
                log.warning("Ignored the directory %s: it belongs to no topic of this broker.", directory.path)
                continue
            if topic is None:
                topic = Topic(name, topic_id, parse_topic_settings(self._lost_settings(name)))
                log.warning(
                    "Restored topic %s with %d partitions, which is missing in %s. Its settings are lost; it uses %s.",
                    name,
                    index + 1,
                    FILE,
                    ", ".join(f"{setting}={format_value(value)}" for setting, value in topic.overrides.items()),
                )
            elif topic.topic_id == topic_id:
                log.warning(
                    "Restored partitions of topic %s that are missing in %s: %d to %d.", name, FILE, partitions, index
                )
            else:
                log.warning(
                    "Ignored the directory %s: its topic id is %s, and that of topic %s is %s.",
                    directory.path,
                    topic_id.hex(),
                    name,
                    topic.topic_id.hex(),
                )
                continue
            rows[name] = (topic, index + 1)
            has_lost_topics = True
        return has_lost_topics

    def _finish_renaming(
        self, topic: Topic, partitions: int, names: Set[str], unfinished: dict[tuple[bytes | None, int], Path]
    ) -> None:
        """Give the directories of a listed topic their plain names; `names` are those of all directories."""
        for index in range(partitions):
            if plain_name(topic.name, index) in names:
                continue
            path = self._path(topic, index)
            renamed = unfinished.pop((topic.topic_id, index), None)
            if renamed is None:
                log.warning("The partition directory %s is missing. Its records are lost; it starts empty.", path)
            else:
                os.rename(renamed, path)
                log.info("Renamed %s to %s.", renamed.name, path.name)

    def _read_file(self) -> _Rows:
        """Read `topics.json`; a missing or empty file has no topics."""
        path = self._directory / FILE
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return {row["name"]: _parse_row(row) for row in json.loads(text or b"[]")}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"Cannot parse the list of topics in {path}. Repair the file, or move it away: the broker then "
                "restores the topics without their settings."
            ) from error

    def create(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> Topic:
        """Create a topic. If this raises OSError, nothing is left of it."""
        return run_to_completion(self.create_in_slices(name, partitions, settings))

    def create_in_slices(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> Sliced[Topic]:
        """Create a topic like `create`, in slices. It exists for other requests when it is complete."""
        self.check(name, partitions, settings or {})
        topic = Topic(name, self._new_id(), parse_topic_settings(settings or {}))
        self._collision_names[_collision_name(name)] = name
        self._growing.add(name)
        created: list[Partition] = []
        try:
            yield from self._create_partitions(topic, range(partitions), created)
            topic.partitions.extend(created)
            self._add(topic)
            self._save()
        except BaseException:  # a disk error, or the broker stops
            self._remove_names(topic)
            self._discard(created)
            raise
        finally:
            self._growing.discard(name)
        self.on_partitions_created(topic.name, partitions)
        yield from self._rename_new(created)
        return topic

    def is_being_created(self, name: str) -> bool:
        """Whether a request is creating this topic now."""
        return name in self._growing and name not in self._topics

    def check(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Raise `BrokerError` if this topic cannot be created."""
        if not is_legal_name(name):
            raise BrokerError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic name {name!r} is illegal; use 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'.",
            )
        if name in self._topics or name in self._growing:
            raise BrokerError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if (other := self._collision_names.get(_collision_name(name))) is not None:
            raise BrokerError(Error.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise BrokerError(
                Error.INVALID_PARTITIONS, f"The number of partitions is {partitions}; use 1 to {MAX_PARTITIONS}."
            )
        self.check_settings(settings)
        self.check_room(name, range(partitions))

    def check_room(self, topic: str, indexes: range) -> None:
        """Raise `BrokerError` if these partitions cannot be created: their names or the descriptors are taken."""
        try:
            check_descriptors(len(indexes))
            self._check_names(topic, indexes)
        except BrokerError as error:
            # A metadata response has no message, and clients repeat the request.
            if topic not in self._refused and len(self._refused) < _MAX_LOGGED_REFUSALS:
                self._refused.add(topic)
                log.warning("Partitions of topic %s were not created: %s", topic, error)
            raise

    def _check_names(self, topic: str, indexes: range) -> None:
        for index in indexes:
            name = plain_name(topic, index)
            if os.path.lexists(self._directory / name):
                raise BrokerError(
                    Error.INVALID_TOPIC_EXCEPTION,
                    f"The data directory contains {name!r}, which does not belong to a topic. Move it away, or use "
                    "another topic name.",
                )

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
        try:
            for partition in topic.partitions:
                partition.log.move(self._unfinished_path(topic, partition.index, Unfinished.DELETION))
            self._remove_names(topic)
            self._save()
        except OSError:
            self._add(topic)
            for partition in topic.partitions:
                self._rename(partition)
            raise
        for partition in topic.partitions:
            partition.log.is_deleted = True
            partition.log.close_unclean()
            partition.wake_waiters()  # waiting fetches get an error
        log.info(
            "Deleted topic %s with id %s and %d partitions.", topic.name, topic.topic_id.hex(), len(topic.partitions)
        )
        self._remove([partition.log.directory for partition in topic.partitions])

    def add_partitions(self, topic: Topic, partitions: int) -> None:
        """Grow a topic to this number of partitions. If this raises OSError, the topic is unchanged."""
        run_to_completion(self.add_partitions_in_slices(topic, partitions))

    def add_partitions_in_slices(self, topic: Topic, partitions: int) -> Sliced[None]:
        """Grow a topic like `add_partitions`, in slices. All new partitions appear together."""
        before = len(topic.partitions)
        if topic.name in self._growing:
            raise BrokerError(
                Error.INVALID_PARTITIONS, f"Another request is adding partitions to topic '{topic.name}'."
            )
        self.check_room(topic.name, range(before, partitions))
        self._growing.add(topic.name)
        created: list[Partition] = []
        try:
            yield from self._create_partitions(topic, range(before, partitions), created)
            if self._topics.get(topic.name) is not topic:
                raise BrokerError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic.name}' was deleted.")
            topic.partitions.extend(created)
            self._save()
        except BaseException:  # a disk error, or the broker stops
            del topic.partitions[before:]
            self._discard(created)
            raise
        finally:
            self._growing.discard(topic.name)
        self._configure(topic)  # its settings may have changed in the meantime
        self.on_partitions_created(topic.name, partitions)
        yield from self._rename_new(created)

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

    def close(self, *, clean: bool = True) -> bool:
        """Close all logs, and return whether all are clean; `clean=False` leaves them as a killed process does."""
        failures: list[OSError] = []
        for topic in self:
            for partition in topic.partitions:
                if clean:
                    try:
                        partition.log.close()
                        continue
                    except OSError as error:
                        failures.append(error)
                partition.log.close_unclean()
        if failures:
            log.warning(
                "Logs that were not closed cleanly: %d. The next start checks them; no acknowledged record is lost. "
                "The first error: %s.",
                len(failures),
                failures[0].strerror or failures[0],
            )
        return clean and not failures

    # --- internal -----------------------------------------------------------------------------------------------------

    def config(self, topic: Topic) -> LogConfig:
        """Return the log settings of a topic."""
        return log_config(self._settings, topic.overrides)

    def _configure(self, topic: Topic) -> None:
        config = self.config(topic)
        for partition in topic.partitions:
            partition.log.config = config

    def _create_partitions(self, topic: Topic, indexes: range, created: list[Partition]) -> Sliced[None]:
        """Create the logs of new partitions. Their directories are renamed after `topics.json` is written."""
        config = self.config(topic)
        for index in indexes:
            path = self._unfinished_path(topic, index, Unfinished.CREATION)
            path.mkdir()
            try:
                write_topic_id(path, topic.topic_id)
                partition_log = PartitionLog.open(path, config, self._wall_ms())
            except OSError:
                remove_directories([path])
                raise
            created.append(Partition(topic, index, partition_log))
            yield None

    def _rename_new(self, created: Iterable[Partition]) -> Sliced[None]:
        for partition in created:
            if self._topics.get(partition.topic.name) is partition.topic:  # it may be deleted in the meantime
                self._rename(partition)
            yield None

    def _rename(self, partition: Partition) -> None:
        """Give a partition directory its plain name; if this fails, the next start does it."""
        try:
            partition.log.move(self._path(partition.topic, partition.index))
        except OSError as error:
            log.warning("%s was not renamed: %s.", partition.log.directory, error.strerror)

    def _open(self, topic: Topic, partitions: int, *, clean_shutdown: bool) -> None:
        config = self.config(topic)
        for index in range(partitions):
            path = self._path(topic, index)
            partition_log = PartitionLog.open(path, config, self._wall_ms(), clean_shutdown=clean_shutdown)
            topic.partitions.append(Partition(topic, index, partition_log))
            for message in (*partition_log.truncated_tails, *partition_log.warnings):
                log.warning("%s", message)
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

    def _discard(self, created: Sequence[Partition]) -> None:
        """Remove new partitions that are not used; the next start deletes what remains on disk."""
        for partition in created:
            partition.log.close_unclean()
        remove_directories([partition.log.directory for partition in created])

    def _path(self, topic: Topic, index: int) -> Path:
        return self._directory / plain_name(topic.name, index)

    def _unfinished_path(self, topic: Topic, index: int, unfinished: Unfinished) -> Path:
        return self._directory / unfinished_name(topic.name, index, topic.topic_id, unfinished)

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


def _parse_row(row: Mapping[str, Any]) -> tuple[Topic, int]:
    """Return a topic and its number of partitions; raise an exception if a field is missing or invalid."""
    topic = Topic(row["name"], bytes.fromhex(row["topic_id"]), parse_topic_settings(row["settings"]))
    partitions = int(row["partitions"])
    if not is_legal_name(topic.name) or len(topic.topic_id) != TOPIC_ID_BYTES or not 1 <= partitions <= MAX_PARTITIONS:
        raise ValueError(row)
    return topic, partitions


_BROKER_SETTINGS_OF_LOGS: Final = ("message.max.uncompressed.bytes", "producer.id.expiration.ms")


def log_config(settings: Settings, overrides: Mapping[str, Value]) -> LogConfig:
    """Return the log settings of a topic with these overrides; raise `UsageError` if they are invalid."""
    return LogConfig.from_settings(
        {name: format_value(settings.for_topic(name, overrides)) for name in SYNONYMS}
        | {name: format_value(settings[name]) for name in _BROKER_SETTINGS_OF_LOGS}
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
    """Remove partition directories of an unfinished creation or deletion; the next start removes what remains."""
    for path in paths:
        try:
            other_files = remove_partition_directory(path)
        except OSError as error:
            log.warning("The partition directory %s was not removed: %s.", path, error.strerror)
            continue
        if other_files:
            log.warning("The partition directory %s was not removed: it contains %r.", path, other_files[0])
        else:
            log.info("Removed the partition directory %s.", path)


def _collision_name(name: str) -> str:
    return name.replace(".", "_")
