"""Which files a history's paths name, and who reads each: a worker its bytes, or Spark its lines.

Rules kept here
- Plain files of the local file system are read by workers (blocks.py). Spark reads the rest: compressed files, which it
  knows by their names, and other file systems.
- Local files and directories are listed here, as Spark lists them: directories with all that is in them, nothing with a
  hidden name, each file once. A pattern is listed by Spark.
- A file is called as Spark calls it: by its URI, with the characters escaped that Java escapes.
- A path that is not there, or that this user may not read, is the caller's mistake, and is told in a sentence.
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

from slackwater.group.errors import UsageError

COMPRESSED: Final = (".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".zst", ".zstd")
"""What the names of files end with that Spark unpacks."""
_SCHEME: Final = re.compile(r"^([^/:]*):(?://(?=/))?")
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")
_LOCAL: Final = "file"
_UNESCAPED: Final = "/_-!.~'()*,;:$&+=@"
_SPACES: Final = ("Zs", "Zl", "Zp", "Cc")


class LocalFile(NamedTuple):
    """A plain file that workers read."""

    path: str
    name: str
    """As Spark calls it."""
    size: int


class Files(NamedTuple):
    """The files of a history."""

    local: Sequence[LocalFile]
    compressed: Sequence[str]
    """Local paths in which there are compressed files, too."""
    elsewhere: Sequence[str]
    """Paths of other file systems."""


def files(spark: SparkSession, paths: Sequence[str]) -> Files:
    """What these paths name."""
    if not paths:
        raise UsageError("No path was given. Name a log file, or a directory of log files.")
    by_default = _is_local_default(spark)
    local = {path: bare for path in paths if (bare := _bare(path, by_default)) is not None}
    if missing := [path for path, bare in local.items() if not _PATTERN.search(bare) and not os.path.exists(bare)]:
        raise _nothing_at(missing)
    plain: dict[str, LocalFile] = {}
    compressed = []
    for path, bare in local.items():
        there = list(_matching(spark, path) if _PATTERN.search(bare) else _below(os.path.abspath(bare)))
        plain |= {file: _local_file(file) for file in there if not file.endswith(COMPRESSED)}
        if any(file.endswith(COMPRESSED) for file in there):
            compressed.append(path)
    elsewhere = [path for path in paths if path not in local]
    return Files([file for file in plain.values() if file.size], compressed, elsewhere)


def texts(
    spark: SparkSession, paths: Sequence[str], *, only: Collection[str] = (), skip_corrupt: bool = False
) -> DataFrame:
    """The lines of what Spark reads below these paths; `only` those of files whose names end so."""
    reader = spark.read.option("recursiveFileLookup", "true").option("ignoreCorruptFiles", str(skip_corrupt).lower())
    if only:
        reader = reader.option("pathGlobFilter", "*{" + ",".join(only) + "}")
    try:
        return reader.text(list(paths))
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise _nothing_at([path for path in paths if path.rstrip("/") in str(error)] or paths) from None


def local_path(name: str) -> str | None:
    """Where the file lies that Spark calls so, if it is one that workers read."""
    path = unquote(_SCHEME.sub("", name, count=1))
    return path if name.startswith(f"{_LOCAL}:") and not path.endswith(COMPRESSED) else None


def uri(path: str) -> str:
    """What Spark calls a local file: only what is no letter of any alphabet is escaped."""
    return f"{_LOCAL}://" + "".join(
        quote(one, safe=_UNESCAPED, errors="replace") if one.isascii() or unicodedata.category(one) in _SPACES else one
        for one in path.encode("utf-8", "replace").decode()
    )


def _bare(path: str, by_default: bool) -> str | None:
    """A local path without its scheme; None for one that is not local, `by_default` if it has no scheme."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return path if by_default else None
    bare = path[scheme.end() :]
    return bare if scheme[1] == _LOCAL and not bare.startswith("//") else None


def _is_local_default(spark: SparkSession) -> bool:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    return str(conf.get("fs.defaultFS") or "").startswith(f"{_LOCAL}:")


def _matching(spark: SparkSession, pattern: str) -> list[str]:
    """What a pattern matches."""
    return [unquote(_SCHEME.sub("", name, count=1)) for name in texts(spark, [pattern]).inputFiles()]


def _below(path: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """A file, or all files in a directory, in the order of their names."""
    if not os.path.isdir(path):
        if not _hidden(os.path.basename(path)):
            yield path
        return
    real = os.path.realpath(path)
    if real in above:  # a link to a directory that it is in
        return
    try:
        names = sorted(os.listdir(path))
    except PermissionError:
        raise _may_not_read(path) from None
    for name in names:
        whole = os.path.join(path, name)
        if not _hidden(name) and os.path.exists(whole):
            yield from _below(whole, (*above, real))


def _hidden(name: str) -> bool:
    """Whether Spark passes over a file, or a directory in another one, of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _local_file(path: str) -> LocalFile:
    if not os.access(path, os.R_OK):
        raise _may_not_read(path)
    known = os.stat(path)
    return LocalFile(path, uri(path), known.st_size if stat.S_ISREG(known.st_mode) else 0)


def _nothing_at(paths: Sequence[str]) -> UsageError:
    return UsageError(f"Nothing is at {' and '.join(paths)}. Name a file or a directory that exists.")


def _may_not_read(path: str) -> UsageError:
    return UsageError(f"{path} may not be read by this user. Ask for the right to read it.")
