"""Local files of a history: their listing, as Spark lists them, and their names.

Invariants:
- Directories are listed recursively, without hidden names, in the order of names, each file once.
- A file is named by its URI as Spark writes it, with the characters escaped that Java escapes.
- A path that is not readable is a `UsageError`.
"""

import bz2
import gzip
import os
import re
import stat
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO, FileIO
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import quote, unquote

import cramjam

from slackwater.doctor.input_paths import damaged_file_error, missing_paths_error, unreadable_path_error

COMPRESSED: Final = (".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst", ".zstd")
"""The endings of compressed files, which Spark decompresses."""


def _decompress_zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.decompress(data))


_DECOMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    ".bz2": bz2.decompress,
    ".deflate": zlib.decompress,
    ".gz": gzip.decompress,
    ".zst": _decompress_zstd,
    ".zstd": _decompress_zstd,
}
DECOMPRESSED: Final = tuple(_DECOMPRESS)
"""The endings of compressed files that `open_log` decompresses. Hadoop has its own formats for the others."""
SCHEME: Final = re.compile(r"^([^/:]*):(?://(?=/))?")
LOCAL: Final = "file"
_UNESCAPED: Final = "/_-!.~'()*,;:$&+=@"
_SPACES: Final = ("Zs", "Zl", "Zp", "Cc")


class LocalFile(NamedTuple):
    """A plain file that workers read."""

    path: str
    name: str
    """Its URI, as Spark writes it."""
    size: int


def local_path(name: str) -> str | None:
    """Return the path of a file by its URI, if workers read it."""
    path = unquote(SCHEME.sub("", name, count=1))
    return path if name.startswith(f"{LOCAL}:") and not path.endswith(COMPRESSED) else None


def uri(path: str) -> str:
    """Return the URI of a local file. Java escapes ASCII and space characters only."""
    return f"{LOCAL}://" + "".join(
        quote(char, safe=_UNESCAPED, errors="replace")
        if char.isascii() or unicodedata.category(char) in _SPACES
        else char
        for char in path.encode("utf-8", "replace").decode()
    )


def open_log(path: str) -> BinaryIO:
    """Open a file; a compressed one is decompressed in memory."""
    ending = os.path.splitext(path)[1]
    if ending not in _DECOMPRESS:
        return FileIO(path)
    with FileIO(path) as file:
        data = file.readall()
    try:
        return BytesIO(_DECOMPRESS[ending](data))
    except (OSError, EOFError, ValueError, zlib.error, cramjam.DecompressionError):
        raise damaged_file_error(path) from None


def display_name(file: str) -> str:
    """Return a local file's path, any other file's URI."""
    return unquote(re.sub("^file:/+", "/", file)) if file.startswith("file:") else file


def list_local_files(paths: Iterable[str]) -> list[LocalFile]:
    """Return the files in some local paths that are not empty."""
    paths = list(paths)
    if missing := [path for path in paths if not os.path.exists(path)]:
        raise missing_paths_error(missing)
    files = {path: local_file(path) for start in paths for path in files_below(os.path.abspath(start))}
    return [file for file in files.values() if file.size]


def files_below(path: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a file, or all files in a directory, in the order of their names."""
    if not os.path.isdir(path):
        if not _is_hidden(os.path.basename(path)):
            yield path
        return
    real = os.path.realpath(path)
    if real in above:  # a link to a directory above it
        return
    try:
        names = sorted(os.listdir(path))
    except PermissionError:
        raise unreadable_path_error(path) from None
    for name in names:
        child = os.path.join(path, name)
        if not _is_hidden(name) and os.path.exists(child):
            yield from files_below(child, (*above, real))


def _is_hidden(name: str) -> bool:
    """Return whether Spark ignores files and directories of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def local_file(path: str) -> LocalFile:
    if not os.access(path, os.R_OK):
        raise unreadable_path_error(path)
    status = os.stat(path)
    return LocalFile(path, uri(path), status.st_size if stat.S_ISREG(status.st_mode) else 0)
