"""The data directory of a broker: its owner, its lock, `meta.properties` and the marker of a clean shutdown.

Invariants:
- The broker uses a directory that is empty, or whose `meta.properties` has `slackwater.format`. It refuses all others,
  the directories of Apache Kafka included, before it writes or removes anything in them.
- Earlier versions did not write that property. Their `meta.properties` differs from every file that Kafka writes: it
  has no date. Such a directory is accepted, and the property is added.
- One broker at a time uses a directory. It holds locks on the directory and on `.lock` as long as the process lives.
  If `.lock` is removed, the lock on the directory still keeps other brokers out.
- `meta.properties` has Kafka's format, version 1, and a checksum, which earlier versions did not write. A directory of
  another cluster or broker is rejected.
- The marker of a clean shutdown is removed at the start, because it is valid for one start only.
"""

import contextlib
import errno
import fcntl
import os
import re
from pathlib import Path
from typing import Final, NamedTuple, Self

from slackwater.broker.storage.log.files import TEMPORARY, replace_file, verify_checksum, with_checksum
from slackwater.escaping import get_logger
from slackwater.group.errors import UsageError

log = get_logger("slackwater.broker.storage")
LOCK: Final = ".lock"
META: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
FORMAT: Final = "slackwater.format"
FORMAT_VERSION: Final = 1
# A start that was interrupted leaves the first two; file systems create the third.
_IN_NEW_DIRECTORY: Final = frozenset({LOCK, META + TEMPORARY, "lost+found"})
_EARLIER_META: Final = re.compile(r"#\ncluster\.id=[^\n]+\nnode\.id=\d+\nversion=1\n")
_MAX_SHOWN_NAMES: Final = 3


class _Meta(NamedTuple):
    """The content of `meta.properties`."""

    cluster_id: str
    node_id: int
    is_current: bool = True  # False if the file must be written, with what earlier versions do not write

    def text(self) -> str:
        """Return the text of the file."""
        text = f"#\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\nversion=1\n{FORMAT}={FORMAT_VERSION}\n"
        return with_checksum(text)


class DataDirectory:
    """A data directory that this process has locked until `close`."""

    __slots__ = ("_directory_lock", "_lock", "clean_shutdown", "cluster_id", "is_taken", "node_id", "path")

    def __init__(self, path: Path, locks: tuple[int, int], meta: _Meta, clean_shutdown: bool) -> None:
        self.path = path
        self.cluster_id = meta.cluster_id
        self.node_id = meta.node_id
        self.clean_shutdown = clean_shutdown
        self.is_taken = False  # by another broker, after `.lock` was removed
        self._directory_lock, self._lock = locks

    @classmethod
    def open(cls, path: Path, cluster_id: str, node_id: int) -> Self:
        """Lock the directory and create it if necessary. An existing directory keeps its cluster id."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            _read_meta(path)  # before `.lock` is created: a directory of another program stays as it is
            locks = _take_locks(path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            meta = _read_meta(path) or _Meta(cluster_id, node_id, is_current=False)
            if meta.node_id != node_id:
                raise UsageError(
                    f"The data directory {path} belongs to node {meta.node_id} of cluster {meta.cluster_id}; this "
                    f"is node {node_id}. Use another directory, or node.id={meta.node_id}."
                )
            if not meta.is_current:
                replace_file(path / META, meta.text().encode(), sync=True)
            marker = path / CLEAN_SHUTDOWN
            was_clean = marker.exists()
            marker.unlink(missing_ok=True)
        except OSError as error:
            _close(locks)
            raise _unusable(path, error) from error
        except UsageError:
            _close(locks)
            raise
        return cls(path, locks, meta, was_clean)

    def close(self, *, clean: bool) -> None:
        """Release the locks. `clean` means that every log was closed, so that the next start does not scan them."""
        if clean:
            try:
                replace_file(self.path / CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}', sync=True)
            except OSError as error:
                log.warning("The shutdown is not clean: cannot write %s: %s.", CLEAN_SHUTDOWN, error.strerror)
        _close((self._directory_lock, self._lock))

    def restore_lock(self) -> str | None:
        """Create and lock `.lock` again if it was removed or replaced.

        Returns what happened, or None if the lock is in place. Raises `UsageError` if another broker holds it.
        """
        path = self.path / LOCK
        try:
            if os.path.samestat(os.stat(path), os.fstat(self._lock)):
                return None
            event = "replaced"
        except FileNotFoundError:
            event = "removed"
        try:
            lock = _lock_file(self.path)
        except UsageError:
            self.is_taken = True
            raise
        os.close(self._lock)
        self._lock = lock
        return f"{path} was {event} while the broker was running. The broker has created and locked it again."


def _take_locks(path: Path) -> tuple[int, int]:
    """Lock the directory and `.lock`, and return their descriptors."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot lock directories
            _lock(directory, path)
        return directory, _lock_file(path)
    except BaseException:
        os.close(directory)
        raise


def _lock_file(path: Path) -> int:
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"The data directory {path} is in use by another broker. Stop that broker, or use another directory."
        ) from None


def _close(locks: tuple[int, int]) -> None:
    for fd in locks:
        os.close(fd)


def _read_meta(path: Path) -> _Meta | None:
    """Return the content of `meta.properties`; None for a new directory. Raises `UsageError` for all others."""
    file = path / META
    if not file.exists():
        _check_is_new(path)
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        text, has_checksum = verify_checksum(text)
    except ValueError:
        raise UsageError(
            f"{file} is damaged: its checksum is wrong. Restore it, or correct its other lines and remove the last one."
        ) from None
    lines = text.splitlines()
    properties = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    try:
        if properties["version"] != "1":
            raise ValueError(properties["version"])
        has_format = FORMAT in properties
        meta = _Meta(properties["cluster.id"], int(properties["node.id"]), has_format and has_checksum)
    except (KeyError, ValueError):
        raise UsageError(
            f"{file} is not a valid meta.properties file (version=1, cluster.id, node.id). "
            "Repair it, or use another directory."
        ) from None
    if has_format and properties[FORMAT] != str(FORMAT_VERSION):
        raise UsageError(
            f"The data directory {path} has {FORMAT}={properties[FORMAT]}; this version of Slackwater supports "
            f"{FORMAT}={FORMAT_VERSION}. Use the version that created the directory, or another directory."
        )
    if not has_format and not _EARLIER_META.fullmatch(text):
        raise UsageError(
            f"The data directory {path} was not created by Slackwater: {META} has no {FORMAT}, as in a directory of "
            "Apache Kafka. Use a new or empty directory."
        )
    return meta


def _check_is_new(path: Path) -> None:
    """Raise `UsageError` if a directory without `meta.properties` has any content."""
    names = sorted(set(os.listdir(path)) - _IN_NEW_DIRECTORY)
    if not names:
        return
    shown = ", ".join(map(repr, names[:_MAX_SHOWN_NAMES]))
    if len(names) > _MAX_SHOWN_NAMES:
        shown += f" and {len(names) - _MAX_SHOWN_NAMES} more"
    raise UsageError(
        f"The data directory {path} was not created by Slackwater: it contains {shown}, but no {META}. "
        f"Use a new or empty directory; if this is Slackwater's, restore its {META}."
    )


def _unusable(path: Path, error: OSError) -> UsageError:
    reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
    advice = "Use a directory with read and write access"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "Free some space, or use a directory on another file system"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "Raise the limit of open files"
    return UsageError(f"Cannot use the data directory {path}: {reason}. {advice}.")
