"""Errors for paths of a history that cannot be read; the command line and both jobs share them."""

from collections.abc import Sequence
from typing import Final

from slackwater.doctor.diagnosis import DiagnosisRequest
from slackwater.group.errors import UsageError
from slackwater.group.internal_topics import OFFSETS_TOPIC

_NOT_READ: Final = (
    (b"\xff\xfe", "is UTF-16 text", "iconv -f UTF-16 -t UTF-8 {path}"),
    (b"\xfe\xff", "is UTF-16 text", "iconv -f UTF-16 -t UTF-8 {path}"),
    (b"\xfd7zXZ", "is compressed with xz", "xz -dc {path}"),
    (b"PK\x03\x04", "is a zip archive", "unzip -p {path}"),
    (b"\x1f\x8b", "is compressed with gzip, and its name does not end with .gz", "gzip -dc {path}"),
)
"""The first bytes of files that have to be converted, what they are, and the command."""


def missing_paths_error(paths: Sequence[str]) -> UsageError:
    """Return the error for paths that do not exist."""
    return UsageError(f"No such file or directory: {' and '.join(paths)}. Pass a file or a directory that exists.")


def unreadable_path_error(path: str) -> UsageError:
    """Return the error for a path without read permission."""
    return UsageError(f"{path} is not readable for this user. Change its permissions, or run as another user.")


def unreadable_file_error(path: str, reason: str | None) -> UsageError:
    """Return the error for a file that could not be read."""
    return UsageError(f"{path} could not be read: {reason}. Check that it exists and that this user may read it.")


def damaged_file_error(path: str) -> UsageError:
    """Return the error for a compressed file that ends too early or has other data."""
    return UsageError(f"{path} is cut off or damaged. Copy it again, or decompress the part that is readable.")


def no_events_error(request: DiagnosisRequest, unrecognized: Sequence[tuple[str, int, str]]) -> UsageError:
    """Return the error for paths without an event of the request."""
    return UsageError(_no_events(request, unrecognized))


def _no_events(request: DiagnosisRequest, unrecognized: Sequence[tuple[str, int, str]]) -> str:
    where = ", ".join(request.paths)
    if request.groups or request.since_ms is not None or request.until_ms is not None:
        return f"{where} has no events of the requested groups and time span. Request more, or name other paths."
    for path in request.paths:
        for begin, what, command in _NOT_READ:
            if _first_bytes(path).startswith(begin):
                return f"{path} {what}. Pipe it: {command.format(path=path)} | slackwater doctor -"
    if unrecognized:
        file, lines, example = unrecognized[0]
        return f"No line of {where} was understood. {file} has {lines} lines like Kafka's, for example: {example[:120]}"
    advice = f"Name a broker's server.log, clients' logs or dumped {OFFSETS_TOPIC}."
    return f"{where} has no lines about consumer groups. {advice}"


def _first_bytes(path: str) -> bytes:
    """Return the first bytes of a local file; empty for anything else."""
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except OSError:
        return b""
