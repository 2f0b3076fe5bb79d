"""The files in a history's paths, and who reads each: Python workers plain local files, Spark all others.

Invariants:
- Local files and directories are listed as Spark lists them (doctor/history/files.py). Spark lists the matches of a
  pattern.
- A path that does not exist or is not readable is a `UsageError`.
"""

import os
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from slackwater.doctor.history.files import COMPRESSED, LOCAL, SCHEME, LocalFile, files_below, local_file
from slackwater.doctor.input_paths import missing_paths_error
from slackwater.group.errors import UsageError

_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")


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
            _files_matching(spark, path) if _PATTERN.search(stripped) else files_below(os.path.abspath(stripped))
        )
        plain |= {file: local_file(file) for file in files if not file.endswith(COMPRESSED)}
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


def _without_scheme(path: str, is_local_default: bool) -> str | None:
    """Return a local path without its scheme, None for a path that is not local."""
    scheme = SCHEME.match(path)
    if scheme is None:
        return path if is_local_default else None
    bare = path[scheme.end() :]
    return bare if scheme[1] == LOCAL and not bare.startswith("//") else None


def _is_local_default(spark: SparkSession) -> bool:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    return str(conf.get("fs.defaultFS") or "").startswith(f"{LOCAL}:")


def _files_matching(spark: SparkSession, pattern: str) -> list[str]:
    """Return the files that a pattern matches."""
    return [unquote(SCHEME.sub("", name, count=1)) for name in read_text(spark, [pattern]).inputFiles()]
