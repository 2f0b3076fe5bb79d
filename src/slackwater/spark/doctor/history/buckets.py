"""Event rows as Spark moves them: the rows of a bucket of groups as one Arrow stream in a binary column.

Plain rows through `groupBy("cluster", "group").applyInArrow` cost more than the whole budget of the job (see
docs/benchmarks.md): Spark converts every value four times. A batch of rows in one value costs it almost nothing.

Invariants:
- All rows of a group are in one bucket. `groupBy("bucket")` therefore brings whole groups to one worker.
- A complete row has its kind, time and group, and its client if a client's log reports it: rows of other files cannot
  change it. All other rows are in the bucket INCOMPLETE until attribution.py has completed them.
- Columns that no rule reads, and the text of complete rows, are left out. The lines of the evidence are read again.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.doctor.events.table import COLUMNS, DETAIL, EVIDENCE, TEXT, UNUSED_BY_RULES
from slackwater.doctor.history.event_batches import ID_COLUMNS, to_json_rows, typed_column
from slackwater.doctor.history.log_events import is_complete

Batches = Iterable[pa.RecordBatch]
ArrowFunction = Callable[[Batches], Iterator[pa.RecordBatch]]

INCOMPLETE: Final = -1
BUCKETED: Final = "bucket int, rows binary"
ROW_TYPES: Final[dict[str, str]] = {**COLUMNS, "detail": TEXT, **EVIDENCE}
ROWS: Final = ", ".join(f"`{name}` {kind}" for name, kind in ROW_TYPES.items())
"""The event table with its detail as JSON."""
EVENTS: Final = ", ".join(
    f"`{name}` {kind}"
    for name, kind in (
        *COLUMNS.items(),
        ("detail", "struct<" + ",".join(f"`{name}`:{kind}" for name, kind in DETAIL.items()) + ">"),
        *EVIDENCE.items(),
    )
)
"""The event table."""
_BUCKETED: Final = pa.schema([("bucket", pa.int32()), ("rows", pa.binary())])
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def bucket_rows(rows: pa.Table, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in their buckets."""
    complete = is_complete(rows)
    if not complete.all():
        yield _bucketed({INCOMPLETE: rows.filter(pa.array(~complete))})
        rows = rows.filter(pa.array(complete))
    if rows.num_rows:
        used_columns = [name for name in rows.column_names if name not in UNUSED_BY_RULES and name != "text"]
        yield _bucketed(_by_bucket(rows.select(used_columns), buckets))


def bucket_json_rows(buckets: int) -> ArrowFunction:
    """Return a function for `mapInArrow` that puts rows with a JSON detail into their buckets."""

    def to_buckets(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _bucketed(_by_bucket(pa.Table.from_batches([batch]), buckets))

    return to_buckets


def unbucket(rows: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return the rows of some values of the column `rows`."""
    tables = [_read_stream(value.as_buffer()) for value in rows]
    return pa.concat_tables(tables, promote_options="default")


def json_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield rows with a JSON detail, for `mapInArrow` over buckets."""
    for batch in batches:
        if batch.num_rows:
            yield to_json_rows(unbucket(batch.column("rows")))


def names_of_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the distinct names in the rows, for `mapInArrow` over buckets."""
    for batch in batches:
        for value in batch.column("rows"):
            rows = _read_stream(value.as_buffer())
            present = [name for name in ID_COLUMNS if name in rows.column_names]
            names = rows.select(present).group_by(present, use_threads=False).aggregate([])
            yield pa.record_batch({name: typed_column(names, name, TEXT) for name in ID_COLUMNS})


def _bucketed(buckets: Mapping[int, pa.Table]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(buckets), pa.array(map(_stream, buckets.values()), pa.binary())], schema=_BUCKETED)


def _by_bucket(rows: pa.Table, buckets: int) -> dict[int, pa.Table]:
    numbers = (_hashes(rows, "group") ^ _hashes(rows, "cluster")) % buckets
    order = np.argsort(numbers, kind="stable")
    present, starts = np.unique(numbers[order], return_index=True)
    rows = rows.take(pa.array(order)).combine_chunks()
    ends = [*starts[1:].tolist(), rows.num_rows]
    return {
        number: rows.slice(start, end - start)
        for number, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True)
    }


def _hashes(rows: pa.Table, name: str) -> NDArray[np.int64]:
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    encoded = pc.fill_null(rows[name], "").combine_chunks().dictionary_encode()
    hashes = np.array([zlib.crc32(text.encode()) for text in encoded.dictionary.to_pylist()], np.int64)
    codes: NDArray[np.int32] = encoded.indices.to_numpy()
    return hashes[codes]


def _stream(rows: pa.Table) -> bytes:
    """Return rows as an Arrow stream, without columns that have no value."""
    rows = rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _read_stream(data: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
