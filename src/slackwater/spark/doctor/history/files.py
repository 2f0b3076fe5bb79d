"""The files in a history's paths, and who reads each: Python workers plain local files, Spark all others.

Invariants:
- Local files and directories are listed as Spark lists them: recursively, without hidden names, each file once. Spark
  lists the matches of a pattern.
- A file is named by its URI as Spark writes it, with the characters escaped that Java escapes.
- A path that does not exist or is not readable is a `UsageError`.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from slackwater.doctor.input_paths import missing_paths_error, unreadable_path_error
from slackwater.group.errors import UsageError

COMPRESSED: Final = (".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst", ".zstd")
"""The endings of the files that Spark decompresses."""
_SCHEME: Final = re.compile(r"^([^/:]*):(?://(?=/))?")
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")
_LOCAL: Final = "file"
_UNESCAPED: Final = "/_-!.~'()*,;:$&+=@"
_SPACES: Final = ("Zs", "Zl", "Zp", "Cc")


class LocalFile(NamedTuple):
    """A plain file that workers read."""

    path: str
    name: str
    """Its URI, as Spark writes it."""
    size: int


class HistoryFiles(NamedTuple):
    """The files of a history."""

    local: Sequence[LocalFile]
    compressed: Sequence[str]
    """Local paths with compressed files."""
    elsewhere: Sequence[str]
    """Paths of other file systems."""


def list_files(spark: SparkSession, paths: Sequence[str]) -> HistoryFiles:
    """Return the files in these paths."""
    if not paths:
        raise UsageError("No path was given. Name a log file or a directory of log files.")
    is_local_default = _is_local_default(spark)
    local = {path: stripped for path in paths if (stripped := _without_scheme(path, is_local_default)) is not None}
    if missing := [
        path for path, stripped in local.items() if not _PATTERN.search(stripped) and not os.path.exists(stripped)
    ]:
        raise missing_paths_error(missing)
    plain: dict[str, LocalFile] = {}
    compressed = []
    for path, stripped in local.items():
        files = list(
            _files_matching(spark, path) if _PATTERN.search(stripped) else _files_below(os.path.abspath(stripped))
        )
        plain |= {file: _local_file(file) for file in files if not file.endswith(COMPRESSED)}
        if any(file.endswith(COMPRESSED) for file in files):
            compressed.append(path)
    elsewhere = [path for path in paths if path not in local]
    return HistoryFiles([file for file in plain.values() if file.size], compressed, elsewhere)


def read_text(
    spark: SparkSession, paths: Sequence[str], *, endings: Collection[str] = (), skip_corrupt: bool = False
) -> DataFrame:
    """Return the lines of the files in these paths, as Spark reads them; only those with one of the endings."""
    reader = spark.read.option("recursiveFileLookup", "true").option("ignoreCorruptFiles", str(skip_corrupt).lower())
    if endings:
        reader = reader.option("pathGlobFilter", "*{" + ",".join(endings) + "}")
    try:
        return reader.text(list(paths))
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise missing_paths_error([path for path in paths if path.rstrip("/") in str(error)] or paths) from None


def local_path(name: str) -> str | None:
    """Return the path of a file by its URI, if workers read it."""
    path = unquote(_SCHEME.sub("", name, count=1))
    return path if name.startswith(f"{_LOCAL}:") and not path.endswith(COMPRESSED) else None


def uri(path: str) -> str:
    """Return the URI of a local file. Java escapes ASCII and space characters only."""
    return f"{_LOCAL}://" + "".join(
        quote(char, safe=_UNESCAPED, errors="replace")
        if char.isascii() or unicodedata.category(char) in _SPACES
        else char
        for char in path.encode("utf-8", "replace").decode()
    )


def _without_scheme(path: str, is_local_default: bool) -> str | None:
    """Return a local path without its scheme, None for a path that is not local."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return path if is_local_default else None
    bare = path[scheme.end() :]
    return bare if scheme[1] == _LOCAL and not bare.startswith("//") else None


def _is_local_default(spark: SparkSession) -> bool:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    return str(conf.get("fs.defaultFS") or "").startswith(f"{_LOCAL}:")


def _files_matching(spark: SparkSession, pattern: str) -> list[str]:
    """Return the files that a pattern matches."""
    return [unquote(_SCHEME.sub("", name, count=1)) for name in read_text(spark, [pattern]).inputFiles()]


def _files_below(path: str, above: tuple[str, ...] = ()) -> Iterator[str]:
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
            yield from _files_below(child, (*above, real))


def _is_hidden(name: str) -> bool:
    """Return whether Spark ignores files and directories of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _local_file(path: str) -> LocalFile:
    if not os.access(path, os.R_OK):
        raise unreadable_path_error(path)
    status = os.stat(path)
    return LocalFile(path, uri(path), status.st_size if stat.S_ISREG(status.st_mode) else 0)
