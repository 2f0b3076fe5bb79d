"""The data directory of a broker: lock, `meta.properties` and the `partition.metadata` files.

Invariants:
- One broker at a time uses a directory. It holds the lock on `.lock` for as long as the process lives.
- `meta.properties` has Kafka's format, version 1. A directory of another cluster or broker is rejected.
- The marker of a clean shutdown is removed at the start, because it is valid for one start only.
- A deleted partition directory is renamed first, as in Kafka, so that a half-deleted one is never opened.
"""

import base64
import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import Final, Self

from slackwater.broker.storage.log.files import replace_file
from slackwater.group.errors import UsageError

LOCK: Final = ".lock"
META: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PARTITION_METADATA: Final = "partition.metadata"
_DELETE: Final = "-delete"
_MAX_NAME_LENGTH: Final = 255


class DataDirectory:
    """A data directory that this process has locked until `close`."""

    __slots__ = ("_lock", "clean_shutdown", "cluster_id", "node_id", "path")

    def __init__(self, path: Path, lock: int, cluster_id: str, node_id: int, clean_shutdown: bool) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.clean_shutdown = clean_shutdown
        self._lock = lock

    @classmethod
    def open(cls, path: Path, cluster_id: str, node_id: int) -> Self:
        """Lock the directory and create it if necessary. An existing directory keeps its cluster id."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            stored_cluster_id, stored_node_id = _read_meta(path, cluster_id, node_id)
            if stored_node_id != node_id:
                raise UsageError(
                    f"The data directory {path} belongs to node {stored_node_id} of cluster {stored_cluster_id}; this "
                    f"is node {node_id}. Use another directory, or node.id={stored_node_id}."
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
        return cls(path, lock, stored_cluster_id, node_id, was_clean)

    def close(self, *, clean: bool) -> None:
        """Release the lock. `clean` means that every log was closed, so that the next start does not scan them."""
        if clean:
            replace_file(self.path / CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}', sync=True)
        os.close(self._lock)


def rename_for_deletion(path: Path, unique: str) -> Path:
    """Rename a partition directory that is to be deleted; the next start deletes it if this process does not."""
    max_length = _MAX_NAME_LENGTH - len(unique) - len(_DELETE) - 1
    renamed = path.with_name(f"{path.name[:max_length]}.{unique}{_DELETE}")
    os.rename(path, renamed)
    return renamed


def write_topic_id(directory: Path, topic_id: bytes) -> None:
    """Write the `partition.metadata` file of a partition directory, as Kafka does."""
    encoded = base64.urlsafe_b64encode(topic_id).rstrip(b"=")
    replace_file(directory / PARTITION_METADATA, b"version: 0\ntopic_id: " + encoded)


def read_topic_id(directory: Path) -> bytes | None:
    """Read the topic id from `partition.metadata`; None if the file is missing or cannot be parsed."""
    with contextlib.suppress(OSError, ValueError):
        lines = (directory / PARTITION_METADATA).read_text(encoding="ascii").splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        if fields.get("version") == "0" and (topic_id := base64.urlsafe_b64decode(fields.get("topic_id", "") + "==")):
            return topic_id
    return None


def _take_lock(path: Path) -> int:
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UsageError(
            f"The data directory {path} is in use by another broker. Stop that broker, or use another directory."
        ) from None
    return lock


def _read_meta(path: Path, cluster_id: str, node_id: int) -> tuple[str, int]:
    """Return the cluster id and node id of a directory; write them into a new one."""
    file = path / META
    if not file.exists():
        text = f"#\ncluster.id={cluster_id}\nnode.id={node_id}\nversion=1\n"
        replace_file(file, text.encode("utf-8"), sync=True)
        return cluster_id, node_id
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    properties = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    try:
        if properties["version"] != "1":
            raise ValueError(properties["version"])
        return properties["cluster.id"], int(properties["node.id"])
    except (KeyError, ValueError):
        raise UsageError(
            f"{file} is not a valid meta.properties file (version=1, cluster.id, node.id). "
            "Repair it, or use another directory."
        ) from None


def _remove_deleted(path: Path) -> None:
    for entry in path.iterdir():
        if entry.name.endswith(_DELETE) and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)


def _unusable(path: Path, error: OSError) -> UsageError:
    reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
    return UsageError(f"Cannot use the data directory {path}: {reason}. Use a directory with read and write access.")
