"""The one place where a history's files are read.

Rules kept here
- Any path that Spark can read: files, directories with all that is in them, patterns, rotated files, gzip.
- A line's `position` grows within its file, whatever the number of tasks that read it: the byte at which its block
  begins, and the line's place in the task that reads the block. It is not the line's number; `line_numbers` finds that,
  for the few lines that are shown.
- What cannot be read is the caller's mistake, and is told in a sentence.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from slackwater.group.errors import UsageError

ROWS: Final = 2**26
"""More lines than one task reads of one block: what stands between the positions of two blocks."""
_ROW_BITS: Final = 2**33 - 1


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
    return found.select(
        F.col("_metadata.file_path").alias("file"), _position().alias("position"), F.col("value").alias("text")
    )


def line_numbers(spark: SparkSession, shown: DataFrame) -> DataFrame:
    """`shown` with a column `line`: the number, from 1, of the line at each `file` and `position`."""
    files = [row.file for row in shown.select("file").distinct().collect()]
    if not files:
        return shown.withColumn("line", F.lit(None).cast("bigint"))
    before = Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = (
        raw_lines(spark, files)
        .groupBy("file", _block().alias("block"))
        .agg(F.min("position").alias("first"), F.count(F.lit(1)).alias("lines"))
        .withColumn("above", F.coalesce(F.sum("lines").over(before), F.lit(0)))
    )
    numbered = shown.withColumn("block", _block()).join(blocks, ["file", "block"], "left")
    line = F.col("above") + F.col("position") - F.col("first") + 1
    return numbered.select(*shown.columns, line.alias("line"))


def _position() -> Column:
    block = F.col("_metadata.file_block_start")
    return block * ROWS + F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_BITS))


def _block() -> Column:
    return F.expr(f"position div {ROWS}")


def _missing(error: AnalysisException, paths: Sequence[str]) -> str:
    named = [path for path in paths if path.rstrip("/") in str(error)]
    return " and ".join(named or paths)
