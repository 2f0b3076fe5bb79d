"""Rows that need nothing more travel together: those of some groups in one piece of bytes.

Rules kept here
- A row is whole when it has its kind, its time, its group and, told by a client, its client: nothing that other rows
  tell would change it. Whole rows are packed, in as many buckets as there are, each group in one of them; Spark moves
  pieces of bytes, and whoever wants rows unpacks them. All other rows stay loose, one by one, for Spark to complete.
- A piece is a stream of Arrow with the columns that have a value in it and that rules ask for, and no others. The lines
  themselves stay where they are: a few of them are shown in the end, and are read again then. Its bytes are compressed:
  Spark copies them a dozen times, which takes longer than that.
- What a survey has to know of a file is told by the task that reads it (`SURVEY` in the place of a bucket).
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.doctor.events.table import CLUSTER_KINDS, COLUMNS, DETAIL, EVIDENCE, TEXT, UNUSED_BY_RULES, FactKind
from slackwater.group.events import EventKind, EventSource
from slackwater.spark.doctor.history.kernels import kernels_for
from slackwater.spark.doctor.history.lines import EVENT, RECORD
from slackwater.spark.doctor.history.log_events import ARROW, Reader, among, as_detail, as_json, told
from slackwater.spark.doctor.history.workers import keep_loaded

Batches = Iterable[pa.RecordBatch]
Work = Callable[[Batches], Iterator[pa.RecordBatch]]

SURVEY: Final = -1
LINES_AT_ONCE: Final = 100_000
WITHOUT_GROUP: Final = (EventKind.MEMBER_FENCED.value, EventKind.LEADER_CHANGED.value)
TOLD: Final = ", ".join(
    f"`{name}` {kind}" for name, kind in (*COLUMNS.items(), ("detail", "string"), *EVIDENCE.items())
)
"""The event table with its detail as JSON: the form of loose rows."""
EVENTS: Final = ", ".join(
    f"`{name}` {kind}"
    for name, kind in (
        *COLUMNS.items(),
        ("detail", "struct<" + ",".join(f"`{name}`:{kind}" for name, kind in DETAIL.items()) + ">"),
        *EVIDENCE.items(),
    )
)
PACKED: Final = "bucket int, packed binary"
NAMES: Final = "cluster string, `group` string, client string, member string, instance string"
_NAMES: Final = ("cluster", "group", "client", "member", "instance")
UUID: Final = r"^(.+)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_UUID: Final = UUID.replace("(.+)", "(?P<client>.+)")
_LEFT_OUT: Final = frozenset({"line", *UNUSED_BY_RULES})
_AS_PACKED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_PACKED: Final = pa.schema([("bucket", pa.int32()), ("packed", pa.binary())])


def reading_lines(reader: Callable[[], Reader], buckets: int) -> Work:
    """Lines to rows: loose ones, pieces, and what the survey has to know."""

    def read_lines(batches: Batches) -> Iterator[pa.RecordBatch]:
        keep_loaded()
        for lines, rows in _rows_of(batches, reader()):
            yield from _parted(lines, rows, buckets)

    return read_lines


def reading_events(reader: Callable[[], Reader]) -> Work:
    """Lines to rows of the event table, those that are whole."""

    def read_events(batches: Batches) -> Iterator[pa.RecordBatch]:
        keep_loaded()
        for lines, rows in _rows_of(batches, reader()):
            whole = _with_text(rows.filter(pa.array(_whole(rows))), lines)
            yield told(whole, as_detail(whole))

    return read_events


def _with_text(rows: pa.Table, lines: pa.RecordBatch) -> pa.Table:
    return rows.append_column("text", lines.column("text").take(rows["line"].combine_chunks()))


def _rows_of(batches: Batches, reader: Reader) -> Iterator[tuple[pa.RecordBatch, pa.Table]]:
    for lines in _together(batches):
        rows = reader.rows(lines, kernels_for(lines.num_rows))
        if rows.num_rows:
            yield lines, rows


def packing_rows(buckets: int) -> Work:
    """Rows of the event table, with their detail as JSON, to pieces."""

    def pack_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        keep_loaded()
        for rows in _together(batches):
            yield _pieces(_dense(pa.Table.from_batches([rows])), buckets)

    return pack_rows


def pieces(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
    """Each bucket with all its rows, of one partition."""
    keep_loaded()
    held: dict[int, list[pa.Array]] = {}
    for batch in batches:
        for bucket, piece in zip(batch.column("bucket").to_pylist(), batch.column("packed"), strict=True):
            held.setdefault(bucket, []).append(piece.as_buffer())
    while held:
        bucket, some = held.popitem()
        yield bucket, pa.concat_tables(_alike([unpacked(piece) for piece in some]), promote_options="default")


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables in which a column is of one type: texts where some tell each value once, and others do not."""
    told = {(one.name, pa.types.is_dictionary(one.type)) for table in tables for one in table.schema}
    mixed = {name for name, once in told if once and (name, False) in told}
    return (
        [
            table.cast(pa.schema([one.with_type(pa.string()) if one.name in mixed else one for one in table.schema]))
            for table in tables
        ]
        if mixed
        else tables
    )


def unpacked(piece: pa.Buffer) -> pa.Table:
    """The rows of a piece."""
    with pa.ipc.open_stream(piece) as stream:
        return stream.read_all()


def unpack_names(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Pieces to who is in which group, each once."""
    for batch in batches:
        for piece in batch.column("packed"):
            rows = unpacked(piece.as_buffer())
            have = [name for name in _NAMES if name in rows.column_names]
            some = rows.select(have).group_by(have, use_threads=False).aggregate([])
            columns = [
                some[name].combine_chunks() if name in have else pa.nulls(some.num_rows, pa.string()) for name in _NAMES
            ]
            yield pa.record_batch(columns, names=list(_NAMES))


def _together(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Batches joined to large ones: what is done once for a batch is then done seldom."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= LINES_AT_ONCE:
            yield _joined(held)
            held = []
    if held and any(one.num_rows for one in held):
        yield _joined(held)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(held) if len(held) > 1 else held[0]


def _parted(lines: pa.RecordBatch, rows: pa.Table, buckets: int) -> Iterator[pa.RecordBatch]:
    whole = _whole(rows)
    packed = [_survey_piece(rows, whole)]
    if not whole.all():
        loose = _with_text(_dense(rows.filter(pa.array(~whole))), lines)
        yield _beside(told(loose, as_json(loose)), _nothing(loose.num_rows))
        rows = _dense(rows.filter(pa.array(whole)))
    if rows.num_rows:
        packed.append(_pieces(rows.drop_columns([name for name in rows.column_names if name in _LEFT_OUT]), buckets))
    for some in packed:
        yield _beside(_no_rows(some.num_rows), some)


def _whole(rows: pa.Table) -> NDArray[np.bool_]:
    whole = _has(rows, "kind") & _has(rows, "time_ms") & _has(rows, "group")
    return whole & (_has(rows, "client") | ~_is(rows, "source", EventSource.CLIENT_LOG))


def _pieces(rows: pa.Table, buckets: int) -> pa.RecordBatch:
    """Rows in pieces, one for each bucket that any of them is in."""
    where = (_hashes(rows, "group") ^ _hashes(rows, "cluster")) % buckets
    where = where.astype(np.min_scalar_type(buckets))  # small numbers are sorted in one pass
    order = np.argsort(where, kind="stable")
    found, firsts = np.unique(where[order], return_index=True)
    rows = rows.take(pa.array(order)).combine_chunks()
    sink = pa.BufferOutputStream()
    offsets = [0]
    for begin, end in zip(firsts, [*firsts[1:], rows.num_rows], strict=True):
        piece = _dense(rows.slice(begin, end - begin))
        with pa.ipc.new_stream(sink, piece.schema, options=_AS_PACKED) as stream:
            stream.write_table(piece)
        offsets.append(sink.tell())
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), sink.getvalue()]
    packed = pa.Array.from_buffers(pa.binary(), len(found), buffers)
    return pa.record_batch([pa.array(found, pa.int32()), packed], schema=_PACKED)


def _hashes(rows: pa.Table, name: str) -> NDArray[np.int64]:
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    encoded = rows[name].combine_chunks()
    if not isinstance(encoded, pa.DictionaryArray):
        encoded = encoded.dictionary_encode()
    hashes = np.array([zlib.crc32(text.encode()) for text in encoded.dictionary.to_pylist()] or [0], np.int64)
    codes: NDArray[np.int64] = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return hashes[codes]


def _dense(rows: pa.Table) -> pa.Table:
    """Without the columns that have no value."""
    return rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])


def _beside(rows: pa.RecordBatch, packed: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([*rows.columns, *packed.columns], names=[*rows.schema.names, *packed.schema.names])


def _nothing(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(count, one.type) for one in _PACKED], schema=_PACKED)


def _no_rows(count: int) -> pa.RecordBatch:
    kinds = {**COLUMNS, "detail": TEXT, **EVIDENCE}
    return pa.record_batch({name: pa.nulls(count, ARROW[kind]) for name, kind in kinds.items()})


# --- the survey -------------------------------------------------------------------------------------------------------


def _survey_piece(rows: pa.Table, whole: NDArray[np.bool_]) -> pa.RecordBatch:
    """What the survey has to know of each file, as JSON."""
    by_client = _is(rows, "source", EventSource.CLIENT_LOG)
    groupless, kind = ~_has(rows, "group"), _has(rows, "kind")
    counts = {
        "loose": kind & ~whole,
        "around": _among(rows, "kind", CLUSTER_KINDS),
        "unread": ~_has(rows, "template") | (kind & ~_has(rows, "time_ms")),
        "records": _is(rows, "template", RECORD),
        "own": _is(rows, "template", EVENT),
        "nameless": by_client & (groupless | ~_has(rows, "client")),
        "groupless": by_client & groupless,
        "memberships": groupless & _among(rows, "kind", WITHOUT_GROUP),
        "fences": groupless & kind & _has(rows, "instance"),
    }
    files = rows["file"].combine_chunks()
    codes = files.indices.to_numpy()
    found: list[dict[str, Any]] = [{"file": name, "cluster": None} for name in files.dictionary.to_pylist()]
    if "cluster" in rows.column_names:
        for code, row in zip(*np.unique(codes, return_index=True), strict=True):
            found[code]["cluster"] = rows["cluster"][int(row)].as_py()
    for name, which in counts.items():
        for one, count in zip(found, np.bincount(codes[which], minlength=len(found)).tolist(), strict=True):
            one[name] = count
    ended = np.zeros(len(found), np.int64)
    if "time_ms" in rows.column_names:  # records and our own events have theirs inside
        np.maximum.at(ended, codes, rows["time_ms"].combine_chunks().fill_null(0).to_numpy())
    for one, time_ms in zip(found, ended.tolist(), strict=True):
        one["ended_ms"] = time_ms
    _add_names(found, rows.filter(pa.array(by_client)), codes[by_client])
    packed = pa.array([json.dumps(found).encode()], pa.binary())
    return pa.record_batch([pa.array([SURVEY], pa.int32()), packed], schema=_PACKED)


def _add_names(found: list[dict[str, Any]], rows: pa.Table, codes: NDArray[Any]) -> None:
    """Of each file's clients, groups and clients that member ids begin with: the first and the last by name."""
    # A file that names a client is not told by its members' ids; neither is a static member's client.
    dynamic = ~_has(rows, "instance") & ~_has(rows, "client")
    prefixes = pc.struct_field(pc.extract_regex(_text(rows, "member").filter(pa.array(dynamic)), _UUID), "client")
    columns = {
        "clients": (pc.coalesce(_text(rows, "client"), _setting(rows, "client.id")), codes),
        "groups": (pc.coalesce(_text(rows, "group"), _setting(rows, "group.id")), codes),
        "prefixes": (prefixes, codes[dynamic]),
    }
    for name, (values, where) in columns.items():
        pairs = pa.table({"file": pa.array(where), "name": values}).filter(pa.array(_valid(values)))
        for one in found:
            one[name] = []
        for pair in pairs.group_by(["file", "name"], use_threads=False).aggregate([]).to_pylist():
            found[pair["file"]][name].append(pair["name"])
        for one in found:
            one[name] = sorted({min(one[name]), max(one[name])}) if one[name] else []


def _setting(rows: pa.Table, name: str) -> pa.Array:
    """A client's setting, in the row that tells it."""
    said = _is(rows, "kind", FactKind.CLIENT_SETTING) & _is(rows, "setting", name) & ~_is(rows, "value", "null")
    return pc.if_else(pa.array(said), _text(rows, "value"), None)


def _text(rows: pa.Table, name: str) -> pa.Array:
    return (
        rows[name].combine_chunks().cast(pa.string()) if name in rows.column_names else pa.nulls(len(rows), pa.string())
    )


def _has(rows: pa.Table, name: str) -> NDArray[np.bool_]:
    return _valid(rows[name]) if name in rows.column_names else np.zeros(rows.num_rows, np.bool_)


def _is(rows: pa.Table, name: str, value: str) -> NDArray[np.bool_]:
    return _among(rows, name, (value,))


def _among(rows: pa.Table, name: str, values: Iterable[str]) -> NDArray[np.bool_]:
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(among(rows[name], values).to_numpy(zero_copy_only=False), np.bool_)


def _valid(values: Any) -> NDArray[np.bool_]:
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False), np.bool_)
