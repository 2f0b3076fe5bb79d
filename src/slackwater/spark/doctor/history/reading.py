"""The one place where a history's files are read.

Rules kept here
- Any path that Spark can read: files, directories with all that is in them, patterns, rotated files, gzip. files.py
  tells which of them workers read by themselves, as bytes (blocks.py); Spark reads the lines of the others.
- A line's `position` grows within its file, whatever the number of tasks that read it. Where workers read, it is the
  byte at which the line begins; where Spark does, the byte at which its block begins, and the line's place in the task
  that reads the block. It is not the line's number; `shown_lines` finds that, and the line itself, for the few lines
  that are shown.
- File and block are asked of the task that reads, not of the line: a line that goes at once costs nothing but itself.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.doctor.history.blocks import (
    EDGES,
    SAID,
    Edge,
    Work,
    counting_ranges,
    edges_of,
    planned,
    reading_ranges,
)
from slackwater.spark.doctor.history.files import COMPRESSED, Files, LocalFile, files, local_path, texts
from slackwater.spark.doctor.history.lines import literal, logged, relevant

__all__ = ["SAID", "Lines", "Shown", "raw_lines", "shown_lines", "shown_of_lines"]

ROWS: Final = 2**26
"""More lines than one task reads of one block: what stands between the positions of two blocks."""
_ROW_BITS: Final = 2**33 - 1
_AT_ONCE: Final = 2**25
"""So many bytes are gone through before Spark has begun to."""

Place = tuple[str, int]


class Lines:
    """The lines of a history that may matter, for any work that is done on them: (file, position, text, stamp, what).

    `work` is that of `DataFrame.mapInArrow`.
    """

    def __init__(self, spark: SparkSession, paths: Sequence[str], *, skip_corrupt: bool = False) -> None:
        self._spark: Final = spark
        self._files: Final = files(spark, paths)
        self._tasks: Final = planned(self._files.local, spark.sparkContext.defaultParallelism)
        self._raw: Final = [relevant(raw) for raw in _raw(spark, self._files, skip_corrupt=skip_corrupt)]

    def map(self, work: Work, schema: str) -> DataFrame:
        """What work makes of the lines."""
        found = [raw.mapInArrow(work, schema) for raw in self._raw]
        if self._tasks:
            found.append(_numbers(self._spark, len(self._tasks)).mapInArrow(reading_ranges(self._tasks, work), schema))
        return reduce(DataFrame.unionByName, found) if found else self._spark.createDataFrame([], schema)


def raw_lines(spark: SparkSession, paths: Sequence[str], *, skip_corrupt: bool = False) -> DataFrame:
    """Every line of the files, as Spark reads them: (file, position, text)."""
    return _placed(texts(spark, paths, skip_corrupt=skip_corrupt))


class Shown(NamedTuple):
    """A line as it is shown: its number in its file, from 1, and what was logged."""

    number: int
    text: str | None


def shown_lines(spark: SparkSession, paths: Sequence[str], places: Collection[Place]) -> dict[Place, Shown]:
    """The lines at these places, each a file and a position, in the reading of these paths."""
    by_bytes = {place for place in places if local_path(place[0]) is not None}
    by_lines = set(places) - by_bytes
    found = _shown_of_bytes(spark, by_bytes) if by_bytes else {}
    if by_lines:
        for raw in _raw(spark, files(spark, paths), skip_corrupt=True):
            found |= shown_of_lines(raw, by_lines)
    return found


def _shown_of_bytes(spark: SparkSession, places: Collection[Place]) -> dict[Place, Shown]:
    """Files are read to the last of their places, and no further."""
    known: dict[str, list[int]] = {}
    for name, at in places:
        known.setdefault(name, []).append(at)
    wanted = [LocalFile(local_path(name) or "", name, max(some) + 1) for name, some in sorted(known.items())]
    return dict(_numbered(_edges(spark, wanted, known)))


def _edges(spark: SparkSession, wanted: Sequence[LocalFile], places: dict[str, list[int]]) -> Iterable[Edge]:
    tasks = planned(wanted, spark.sparkContext.defaultParallelism)
    if sum(file.size for file in wanted) <= _AT_ONCE:
        return [edge for ranges in tasks for part in ranges for edge in edges_of(part, places[part.name])]
    counted = _numbers(spark, len(tasks)).mapInArrow(counting_ranges(tasks, places), EDGES)
    return [Edge(*row) for row in counted.collect()]


def _numbered(edges: Iterable[Edge]) -> Iterator[tuple[Place, Shown]]:
    """Every line before a place ends before it: where a range ends, that counts for what begins there."""
    last, total = "", 0
    for edge in sorted(edges, key=lambda one: (one.name, one.at, one.text is not None)):
        total = edge.lines + (total if edge.name == last else 0)
        last = edge.name
        if edge.text is not None:
            yield (edge.name, edge.at), Shown(total + 1, edge.text)


def shown_of_lines(raw: DataFrame, places: Collection[Place]) -> dict[Place, Shown]:
    """The lines at these places, in Spark's reading (`raw_lines`) of all that was read with them.

    A task reads several small files, and how many lines it has read before one of them depends on all that there are.
    """
    # Looked up by their positions, which is cheap, and then by file and position. Written as SQL, which is parsed at
    # once: so many columns would be made one by one.
    positions = ", ".join(map(str, sorted({at for _, at in places})))
    exactly = ", ".join(literal(f"{file}:{at}") for file, at in sorted(places))
    wanted = F.expr(f"position IN ({positions}) AND concat(file, ':', position) IN ({exactly})")
    names = ", ".join(literal(file) for file in sorted({file for file, _ in places}))
    counted = (
        logged(raw.filter(f"file IN ({names})"))
        .groupBy("file", F.expr(f"position div {ROWS}").alias("block"))
        .agg(
            F.min("position").alias("first"),
            F.count(F.lit(1)).alias("lines"),
            F.collect_list(F.when(wanted, F.struct("position", F.substring("text", 1, SAID).alias("text")))).alias(
                "shown"
            ),
        )
    )
    found: dict[Place, Shown] = {}
    last, total = "", 0
    for row in sorted(counted.collect(), key=lambda one: (one.file, one.block)):
        total = total if row.file == last else 0
        # A line's number is its position, less that of its block's first line, and more by the lines above the block.
        found |= {(row.file, at): Shown(total + at - row.first + 1, text) for at, text in row.shown}
        last, total = row.file, total + row.lines
    return found


def _raw(spark: SparkSession, found: Files, *, skip_corrupt: bool) -> list[DataFrame]:
    """What Spark reads. With `skip_corrupt` a broken gzip ends where it breaks."""
    ways = ((found.compressed, COMPRESSED), (found.elsewhere, ()))
    return [_placed(texts(spark, paths, only=only, skip_corrupt=skip_corrupt)) for paths, only in ways if paths]


def _placed(lines: DataFrame) -> DataFrame:
    return lines.select(F.input_file_name().alias("file"), _position().alias("position"), F.col("value").alias("text"))


def _numbers(spark: SparkSession, tasks: int) -> DataFrame:
    """The numbers of so many tasks, one for each of them."""
    return spark.range(0, tasks, 1, tasks).toDF("number")


def _position() -> Column:
    return F.expr(f"input_file_block_start() * {ROWS} + (monotonically_increasing_id() & {_ROW_BITS})")
