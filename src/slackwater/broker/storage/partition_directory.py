"""Partition directories: their names, their `partition.metadata` file, and which of them may be removed.

Invariants:
- A directory `topic-partition` belongs to a topic that `topics.json` lists or has listed. It is never removed.
- While a topic is created or deleted, its directories have names of the form `topic-partition.id-new` and
  `topic-partition.id-delete`, with the topic id in hexadecimal digits.
- A directory is removed only if its name has that form and its `partition.metadata` has the topic id of the name. An
  interrupted creation or removal may leave a directory without any other file; that one is removed as well.
- Only files that a partition log writes are removed, `partition.metadata` last. A directory with other files stays.
"""

import base64
import contextlib
import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

from slackwater.broker.storage.log.checkpoint import FILE as CHECKPOINT
from slackwater.broker.storage.log.files import TEMPORARY, is_log_file, replace_file

PARTITION_METADATA: Final = "partition.metadata"
_MAX_NAME_LENGTH: Final = 255
TOPIC_ID_BYTES: Final = 16
_PLAIN: Final = re.compile(r"(.+)-(0|[1-9]\d{0,8})")
_UNFINISHED: Final = re.compile(r"(.+)-(0|[1-9]\d{0,8})\.([0-9a-f]{32})-(new|delete)")


class Unfinished(StrEnum):
    """What happens to a topic whose partition directories do not have their plain names."""

    CREATION = "new"
    DELETION = "delete"


class PartitionDirectory(NamedTuple):
    """A directory whose name has the form of a partition directory; only the name of an unfinished one has a topic id.

    The topic's name may be cut off in the name of an unfinished directory.
    """

    path: Path
    topic: str
    partition: int
    topic_id: bytes | None = None
    unfinished: Unfinished | None = None

    @classmethod
    def parse(cls, path: Path) -> Self | None:
        """Return the partition directory at a path, or None if it is another directory."""
        if match := _UNFINISHED.fullmatch(path.name):
            topic, index, topic_id, unfinished = match.groups()
            if _is_provable(path, bytes.fromhex(topic_id)):
                return cls(path, topic, int(index), bytes.fromhex(topic_id), Unfinished(unfinished))
        elif match := _PLAIN.fullmatch(path.name):
            return cls(path, match[1], int(match[2]))
        return None


def plain_name(topic: str, index: int) -> str:
    """Return the name of a partition directory."""
    return f"{topic}-{index}"


def unfinished_name(topic: str, index: int, topic_id: bytes, unfinished: Unfinished) -> str:
    """Return the name of a partition directory during creation or deletion; a long topic name is cut off."""
    suffix = f"-{index}.{topic_id.hex()}-{unfinished}"
    return topic[: _MAX_NAME_LENGTH - len(suffix)] + suffix


def write_topic_id(directory: Path, topic_id: bytes) -> None:
    """Write the `partition.metadata` file of a partition directory, as Kafka does."""
    encoded = base64.urlsafe_b64encode(topic_id).rstrip(b"=")
    replace_file(directory / PARTITION_METADATA, b"version: 0\ntopic_id: " + encoded)


def read_topic_id(directory: Path) -> bytes | None:
    """Read the topic id from `partition.metadata`; None if the file is missing or cannot be parsed."""
    with contextlib.suppress(OSError, ValueError):
        lines = (directory / PARTITION_METADATA).read_text(encoding="ascii").splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        topic_id = base64.urlsafe_b64decode(fields.get("topic_id", "") + "==")
        if fields.get("version") == "0" and len(topic_id) == TOPIC_ID_BYTES:
            return topic_id
    return None


def remove_partition_directory(path: Path) -> list[str]:
    """Remove the log files of a directory, and then the directory; return the names of the files that stay."""
    names = os.listdir(path)
    other = sorted(name for name in names if not _is_own_file(path, name))
    for name in names:
        if name not in other and name != PARTITION_METADATA:
            os.unlink(path / name)
    if not other:
        # Until here the directory can be recognized after a crash; an empty one is removed without proof.
        (path / PARTITION_METADATA).unlink(missing_ok=True)
        os.rmdir(path)
    return other


def _is_provable(path: Path, topic_id: bytes) -> bool:
    """Whether this broker created a directory with this topic id in its name."""
    return read_topic_id(path) == topic_id or set(os.listdir(path)) <= {PARTITION_METADATA + TEMPORARY}


def _is_own_file(directory: Path, name: str) -> bool:
    is_own_name = is_log_file(name) or name.removesuffix(TEMPORARY) in (PARTITION_METADATA, CHECKPOINT)
    return is_own_name and not (directory / name).is_dir()
