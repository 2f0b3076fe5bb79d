"""Reads the files of a history into rows, and finds the numbers of the lines in the evidence.

Invariants:
- Workers read plain local files themselves, as byte ranges (ranges.py). Spark reads compressed files and those of other
  file systems as lines. Both come to `LogReader` as blocks of bytes of one file.
- A line's position grows within its file, whichever tasks read it. In a local file it is the offset of the line; where
  Spark reads, the start of the Hadoop block and the line's number in the task. It is not the line number, which
  `find_evidence_lines` finds for the few lines that are shown.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import accumulate, groupby
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.accumulators import Accumulator
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.doctor.history.event_batches import to_events
from slackwater.doctor.history.evidence import LinePosition, NumberedLine, number_lines
from slackwater.doctor.history.files import COMPRESSED, LocalFile, local_path
from slackwater.doctor.history.lines import MAX_LINE_LENGTH, LogLine, evidence_text, find_lines
from slackwater.doctor.history.log_events import LogReader, is_complete
from slackwater.doctor.history.ranges import LineCount, LogFileRange, count_lines, plan_tasks, read_blocks
from slackwater.doctor.history.summaries import FileSummaries, summarize
from slackwater.spark.doctor.history.buckets import (
    BUCKETED,
    EVENTS,
    ArrowFunction,
    Batches,
    bucket_rows,
)
from slackwater.spark.doctor.history.files import HistoryFiles, list_files, read_text

MAX_TASK_LINES: Final = 2**26
"""More lines than a task reads of one Hadoop block: the distance of the positions of two blocks."""
_ROW_BITS: Final = 2**33 - 1
_MIN_BUCKETED_ROWS: Final = 50_000
"""Rows of several blocks are put into buckets together: an Arrow stream of few rows is mostly overhead."""
MAX_DRIVER_BYTES: Final = 2**25
"""Line numbers in files of up to this size are counted without a Spark job."""
_LINE_COUNTS: Final = "name string, position bigint, line_ends bigint, text string"

TablesFunction = Callable[[Iterable[pa.Table]], Iterator[pa.RecordBatch]]


class LogFiles:
    """The files in some paths, read into rows."""

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        reader: Callable[..., LogReader],
        *,
        skip_corrupt: bool = False,
    ) -> None:
        self._spark: Final = spark
        self._reader: Final = reader
        files = list_files(spark, paths)
        self._tasks: Final = plan_tasks(files.local, spark.sparkContext.defaultParallelism)
        self._texts: Final = _raw_tables(spark, files, skip_corrupt=skip_corrupt)

    def bucketed_rows(self, buckets: int, summaries: Accumulator[FileSummaries]) -> DataFrame:
        """Return all rows in buckets; the summaries of the files go to the accumulator."""

        def convert(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
            waiting: list[pa.Table] = []
            for rows in tables:
                summaries.add(summarize(rows))
                waiting.append(rows)
                if sum(table.num_rows for table in waiting) >= _MIN_BUCKETED_ROWS:
                    yield from bucket_rows(pa.concat_tables(waiting, promote_options="default"), buckets)
                    waiting = []
            if waiting:
                yield from bucket_rows(pa.concat_tables(waiting, promote_options="default"), buckets)

        return self._read(convert, BUCKETED, with_text=False)

    def events(self) -> DataFrame:
        """Return the complete rows as an event table."""

        def convert(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
            for rows in tables:
                yield to_events(rows.filter(pa.array(is_complete(rows))))

        return self._read(convert, EVENTS, with_text=True)

    def _read(self, convert: TablesFunction, schema: str, *, with_text: bool) -> DataFrame:
        make_reader = partial(self._reader, with_text=with_text)
        tables = [text.mapInArrow(_read_text_lines(make_reader, convert), schema) for text in self._texts]
        if self._tasks:
            numbers = _task_numbers(self._spark, len(self._tasks))
            tables.append(numbers.mapInArrow(_read_ranges(self._tasks, make_reader, convert), schema))
        return reduce(DataFrame.unionByName, tables) if tables else self._spark.createDataFrame([], schema)


def _read_ranges(
    tasks: Sequence[Sequence[LogFileRange]], make_reader: Callable[[], LogReader], convert: TablesFunction
) -> ArrowFunction:
    """Return a function for `mapInArrow` over task numbers that reads the ranges of the tasks."""

    def read_ranges(batches: Batches) -> Iterator[pa.RecordBatch]:
        reader = make_reader()
        ranges = (part for batch in batches for number in batch.column(0).to_pylist() for part in tasks[number])
        blocks = ((part.name, position, data) for part in ranges for position, data in read_blocks(part))
        tables = (reader.read(name, find_lines(data, position)) for name, position, data in blocks)
        yield from convert(rows for rows in tables if rows.num_rows)

    return read_ranges


def _read_text_lines(make_reader: Callable[[], LogReader], convert: TablesFunction) -> ArrowFunction:
    """Return a function for `mapInArrow` over (file, position, text)."""

    def read_text_lines(batches: Batches) -> Iterator[pa.RecordBatch]:
        reader = make_reader()
        columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
        files = (file for batch in columns for file in groupby(zip(*batch, strict=True), key=lambda line: str(line[0])))
        tables = (
            reader.read(name, _lines_of_texts([(position, text) for _, position, text in lines]))
            for name, lines in files
        )
        yield from convert(rows for rows in tables if rows.num_rows)

    return read_text_lines


def _lines_of_texts(lines: Sequence[tuple[int, str]]) -> Iterator[LogLine]:
    texts = [text.encode() for _, text in lines]
    offsets = accumulate((len(text) + 1 for text in texts), initial=0)
    positions = {offset: position for offset, (position, _) in zip(offsets, lines, strict=False)}
    return (line._replace(position=positions[line.position]) for line in find_lines(b"\n".join(texts)))


def raw_lines(
    spark: SparkSession, paths: Sequence[str], *, endings: Sequence[str] = (), skip_corrupt: bool = False
) -> DataFrame:
    """Return every line of the files as Spark reads them: (file, position, text)."""
    lines = read_text(spark, paths, endings=endings, skip_corrupt=skip_corrupt)
    return lines.select(F.input_file_name().alias("file"), _position().alias("position"), F.col("value").alias("text"))


def _raw_tables(spark: SparkSession, files: HistoryFiles, *, skip_corrupt: bool) -> list[DataFrame]:
    """Return the lines of the files that Spark reads. With `skip_corrupt` a broken gzip file ends where it breaks."""
    sources = ((files.compressed, COMPRESSED), (files.elsewhere, ()))
    return [raw_lines(spark, paths, endings=endings, skip_corrupt=skip_corrupt) for paths, endings in sources if paths]


def _position() -> Column:
    return F.expr(f"input_file_block_start() * {MAX_TASK_LINES} + (monotonically_increasing_id() & {_ROW_BITS})")


def _task_numbers(spark: SparkSession, tasks: int) -> DataFrame:
    return spark.range(0, tasks, 1, tasks).toDF("number")


# --- the lines of the evidence ----------------------------------------------------------------------------------------


def find_evidence_lines(
    spark: SparkSession, paths: Sequence[str], line_positions: Collection[LinePosition]
) -> dict[LinePosition, NumberedLine]:
    """Return the lines at these positions, as the same paths were read before."""
    local = {line_position for line_position in line_positions if local_path(line_position[0]) is not None}
    shown = _find_local_lines(spark, local) if local else {}
    if others := set(line_positions) - local:
        for raw in _raw_tables(spark, list_files(spark, paths), skip_corrupt=True):
            shown |= find_evidence_text_lines(raw, others)
    return shown


def _find_local_lines(
    spark: SparkSession, line_positions: Collection[LinePosition]
) -> dict[LinePosition, NumberedLine]:
    """Find lines in local files, which are read up to the last position only."""
    positions: dict[str, list[int]] = {}
    for name, position in line_positions:
        positions.setdefault(name, []).append(position)
    files = [LocalFile(local_path(name) or "", name, max(offsets) + 1) for name, offsets in sorted(positions.items())]
    return dict(number_lines(_line_counts(spark, files, positions)))


def _line_counts(
    spark: SparkSession, files: Sequence[LocalFile], positions: dict[str, list[int]]
) -> Iterable[LineCount]:
    tasks = plan_tasks(files, spark.sparkContext.defaultParallelism)
    if sum(file.size for file in files) <= MAX_DRIVER_BYTES:
        return [count for ranges in tasks for part in ranges for count in count_lines(part, positions[part.name])]

    def count_ranges(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ranges = [part for number in batch.column(0).to_pylist() for part in tasks[number]]
            counts = [count._asdict() for part in ranges for count in count_lines(part, positions[part.name])]
            schema = pa.schema(
                [("name", pa.string()), ("position", pa.int64()), ("line_ends", pa.int64()), ("text", pa.string())]
            )
            yield pa.RecordBatch.from_pylist(counts, schema=schema)

    counted = _task_numbers(spark, len(tasks)).mapInArrow(count_ranges, _LINE_COUNTS)
    return [LineCount(*row) for row in counted.collect()]


def find_evidence_text_lines(
    raw: DataFrame, line_positions: Collection[LinePosition]
) -> dict[LinePosition, NumberedLine]:
    """Return the lines at these positions among all lines that Spark reads (`raw_lines`).

    A task may read several small files, so the lines' numbers in the task depend on all files.
    """
    # One SQL text: thousands of Column objects would take long to create.
    positions = ", ".join(map(str, sorted({position for _, position in line_positions})))
    exact = ", ".join(_literal(f"{file}:{position}") for file, position in sorted(line_positions))
    names = ", ".join(_literal(file) for file in sorted({file for file, _ in line_positions}))
    is_shown = F.expr(f"position IN ({positions}) AND concat(file, ':', position) IN ({exact})")
    text = F.substring("text", 1, MAX_LINE_LENGTH).alias("text")
    counted = (
        raw.filter(f"file IN ({names})")
        .groupBy("file", F.expr(f"position div {MAX_TASK_LINES}").alias("block"))
        .agg(
            F.min("position").alias("first"),
            F.count(F.lit(1)).alias("lines"),
            F.collect_list(F.when(is_shown, F.struct("position", text))).alias("shown"),
        )
    )
    shown: dict[LinePosition, NumberedLine] = {}
    name, total = "", 0
    for row in sorted(counted.collect(), key=lambda row: (row.file, row.block)):
        total = total if row.file == name else 0
        for position, line in row.shown:
            number = total + position - row.first + 1
            shown[row.file, position] = NumberedLine(number, evidence_text(line))
        name, total = row.file, total + row.lines
    return shown


def _literal(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
