"""The one place where a history's files are read.

Rules kept here
- Any path that Spark can read: files, directories with all that is in them, patterns, rotated files, gzip.
- A line's `position` grows within its file, whatever the number of tasks that read it: the byte at which its block
  begins, and the line's place in the task that reads the block. It is not the line's number; `shown_lines` finds that,
  and the line itself, for the few lines that are shown.
- File and block are asked of the task that reads, not of the line: a line that goes at once costs nothing but itself.
- What cannot be read is the caller's mistake, and is told in a sentence.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.group.errors import UsageError
from slackwater.spark.history.lines import literal, logged

ROWS: Final = 2**26
"""More lines than one task reads of one block: what stands between the positions of two blocks."""
_ROW_BITS: Final = 2**33 - 1
SAID: Final = 300
"""Of a line that is shown, so many characters."""


def raw_lines(spark: SparkSession, paths: Sequence[str], *, skip_corrupt: bool = False) -> DataFrame:
    """Every line of the files, as (file, position, text). With `skip_corrupt` a broken gzip ends where it breaks."""
    if not paths:
        raise UsageError("No path was given. Name a log file, or a directory of log files.")
    reader = spark.read.option("recursiveFileLookup", "true").option("ignoreCorruptFiles", str(skip_corrupt).lower())
    try:
        found = reader.text(list(paths))
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise UsageError(f"Nothing is at {_missing(error, paths)}. Name a file or a directory that exists.") from None
    return found.select(F.input_file_name().alias("file"), _position().alias("position"), F.col("value").alias("text"))


class Shown(NamedTuple):
    """A line as it is shown: its number in its file, from 1, and what was logged."""

    number: int
    text: str | None


def shown_lines(
    spark: SparkSession, paths: Sequence[str], places: Collection[tuple[str, int]]
) -> dict[tuple[str, int], Shown]:
    """The lines at these places, each a file and a position, in the reading of these paths.

    All of the paths are read again, as they were the first time: a task reads several small files, and how many lines
    it has read before one of them depends on all that there are.
    """
    if not places:
        return {}
    # Looked up by their positions, which is cheap, and then by file and position. Written as SQL, which is parsed at
    # once: so many columns would be made one by one.
    positions = ", ".join(map(str, sorted({at for _, at in places})))
    exactly = ", ".join(literal(f"{file}:{at}") for file, at in sorted(places))
    wanted = F.expr(f"position IN ({positions}) AND concat(file, ':', position) IN ({exactly})")
    files = ", ".join(literal(file) for file in sorted({file for file, _ in places}))
    counted = (
        raw_lines(spark, paths, skip_corrupt=True)
        .filter(f"file IN ({files})")
        .groupBy("file", F.expr(f"position div {ROWS}").alias("block"))
        .agg(
            F.min("position").alias("first"),
            F.count(F.lit(1)).alias("lines"),
            F.collect_list(F.when(wanted, F.struct("position", F.substring(logged(), 1, SAID).alias("text")))).alias(
                "shown"
            ),
        )
    )
    found: dict[tuple[str, int], Shown] = {}
    last, total = "", 0
    for row in sorted(counted.collect(), key=lambda one: (one.file, one.block)):
        total = total if row.file == last else 0
        # A line's number is its position, less that of its block's first line, and more by the lines above the block.
        found |= {(row.file, at): Shown(total + at - row.first + 1, text) for at, text in row.shown}
        last, total = row.file, total + row.lines
    return found


def _position() -> Column:
    return F.expr(f"input_file_block_start() * {ROWS} + (monotonically_increasing_id() & {_ROW_BITS})")


def _missing(error: AnalysisException, paths: Sequence[str]) -> str:
    named = [path for path in paths if path.rstrip("/") in str(error)]
    return " and ".join(named or paths)
