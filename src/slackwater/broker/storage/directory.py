"""The data directory of one broker: who owns it, which cluster it belongs to, and a directory for every partition.

Rules kept here
- One broker at a time: the lock on `.lock` is held as long as the process lives, and the kernel lets go of it when it
  dies. Whoever comes second is told in one sentence.
- `meta.properties` is Kafka's (version 1). A directory of another cluster or broker is refused, not taken over.
- The marker of a clean stop is taken away at the start: it speaks for one stop only.
- A partition that is deleted is renamed first, as in Kafka, so that half a directory is never taken for a partition.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from slackwater.broker.storage.log.files import replace_file, sync_directory
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition

LOCK: Final = ".lock"
META: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"
_DELETE: Final = "-delete"
_LONGEST_NAME: Final = 255


class DataDirectory:
    """A data directory that is ours until `close`."""

    __slots__ = ("_lock", "clean_shutdown", "cluster_id", "node_id", "path")

    def __init__(self, path: Path, lock: int, cluster_id: str, node_id: int, clean_shutdown: bool) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.clean_shutdown = clean_shutdown
        self._lock = lock

    @classmethod
    def open(cls, path: Path, cluster_id: str, node_id: int) -> Self:
        """Take the directory, making it if need be; `cluster_id` is for a new one, an old one keeps its own."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            found_cluster_id, found_node_id = _read_meta(path, cluster_id, node_id)
            if found_node_id != node_id:
                raise UsageError(
                    f"The data directory {path} belongs to node {found_node_id} of cluster {found_cluster_id}; this "
                    f"is node {node_id}. Use another directory, or node.id={found_node_id}."
                )
            marker = path / CLEAN_SHUTDOWN
            was_clean = marker.exists()
            marker.unlink(missing_ok=True)
            _remove_deleted(path)
        except OSError as error:
            os.close(lock)
            raise _unusable(path, error) from error
        except UsageError:
            os.close(lock)
            raise
        return cls(path, lock, found_cluster_id, node_id, was_clean)

    def partition(self, partition: TopicPartition) -> Path:
        """Where a partition's log stands."""
        return self.path / directory_name(partition)

    def partitions(self) -> Iterator[TopicPartition]:
        """The partitions that have a directory here."""
        for entry in sorted(self.path.iterdir()):
            if entry.is_dir() and (found := partition_in(entry.name)) is not None:
                yield found

    def delete(self, partition: TopicPartition, unique: str) -> None:
        """Remove a partition's directory; its log must be closed. `unique` tells this deletion from any other."""
        doomed = rename_for_deletion(self.partition(partition), unique)
        sync_directory(self.path)
        shutil.rmtree(doomed, ignore_errors=True)

    def close(self, *, clean: bool) -> None:
        """Let go of the directory. `clean` says that every log was closed, so that a start need not scan them."""
        if clean:
            replace_file(self.path / CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}', sync=True)
        os.close(self._lock)


def rename_for_deletion(path: Path, unique: str) -> Path:
    """Give a partition's directory the name of one that is to be removed, here or by the next start."""
    doomed = path.with_name(f"{path.name[: _LONGEST_NAME - len(unique) - len(_DELETE) - 1]}.{unique}{_DELETE}")
    os.rename(path, doomed)
    return doomed


def directory_name(partition: TopicPartition) -> str:
    """The name of a partition's directory."""
    return f"{partition.topic}-{partition.partition}"


def partition_in(name: str) -> TopicPartition | None:
    """The partition that a directory of this name holds, or None if it holds none."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return TopicPartition(topic, int(number))


def write_topic_id(directory: Path, topic_id: str) -> None:
    """Note the id of a partition's topic, as Kafka does in `partition.metadata`."""
    replace_file(directory / PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}\n".encode("ascii"))


def read_topic_id(directory: Path) -> str | None:
    """The id of a partition's topic, or None if it was not noted."""
    with contextlib.suppress(OSError, ValueError):
        lines = (directory / PARTITION_METADATA).read_text(encoding="ascii").splitlines()
        found = dict(line.split(": ", 1) for line in lines)
        if found.get("version") == "0":
            return found.get("topic_id")
    return None


def _take_lock(path: Path) -> int:
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UsageError(
            f"The data directory {path} is in use by another broker. Stop that one, or use another directory."
        ) from None
    return lock


def _read_meta(path: Path, cluster_id: str, node_id: int) -> tuple[str, int]:
    """Cluster and node that a directory belongs to; a new one becomes ours."""
    file = path / META
    if not file.exists():
        text = f"#\ncluster.id={cluster_id}\nnode.id={node_id}\nversion=1\n"
        replace_file(file, text.encode("utf-8"), sync=True)
        return cluster_id, node_id
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    try:
        if found["version"] != "1":
            raise ValueError(found["version"])
        return found["cluster.id"], int(found["node.id"])
    except (KeyError, ValueError):
        raise UsageError(
            f"{file} is not one of version 1 with cluster.id and node.id. Use another directory, or mend the file."
        ) from None


def _remove_deleted(path: Path) -> None:
    for entry in path.iterdir():
        if entry.name.endswith(_DELETE) and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)


def _unusable(path: Path, error: OSError) -> UsageError:
    reason = "It is a file" if isinstance(error, FileExistsError) else error.strerror
    return UsageError(
        f"The data directory {path} cannot be used: {reason}. Use a directory that can be read and written."
    )
