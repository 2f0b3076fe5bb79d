"""What lines say, as rows of the event table (doctor/events/table.py): a batch of lines to a table of Arrow.

Rules kept here
- A column is there only if a row has a value in it: what is missing is null for all. The fields of `detail` are columns
  of their own names; `as_detail` and `as_json` bring them together, for who asks for it.
- A line that names several members who went is one event for each of them.
- The trigger of a rebalance comes from the reason in its line, and the client's part of it, if there is one.
- Lines without a time of their own (settings, the last line of a trace) have that of the last line before them in the
  same file, or else of the first one after, as far as one task reads.
- Lines that no template reads stay, without a template; so do records and own events, under the names of their kinds.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from slackwater.doctor.events.table import ASSIGNMENT, COLUMNS, DETAIL, EVIDENCE, FLAG, LIST, LONG, TEXT, FactKind
from slackwater.group.events import EventKind, EventSource
from slackwater.spark.doctor.history.kernels import Kernels, Texts, column
from slackwater.spark.doctor.history.recognise import CLIENTS_WHY, LINES, WHY, Said, read, with_constants
from slackwater.spark.doctor.history.stamps import time_ms, zone_of

Rows = NDArray[np.int64]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

ARROW: Final[dict[str, pa.DataType]] = {
    TEXT: pa.string(),
    LONG: pa.int64(),
    FLAG: pa.bool_(),
    LIST: pa.list_(pa.string()),
    ASSIGNMENT: pa.list_(pa.struct([("member", pa.string()), ("partitions", pa.list_(pa.string()))])),
}
"""The types of the event table, as Arrow has them."""
_TYPES: Final = COLUMNS | DETAIL
_GONE: Final = (EventKind.MEMBER_DROPPED, EventKind.MEMBER_UNSYNCED)
_WHEN_STARTING: Final = (FactKind.BROKER_SETTING, FactKind.BROKER_STARTED)
_BRACKETS: Final = r"^\w*[(\[{]+|[)\]}]+$"
_PARTITION: Final = r"TopicPartition\(topic='(.*?)', partition=(\d+)\)"
_NOTHING: Final = pa.array(["null", "None", "Optional.empty"])
_INNER: Final = r"^(?:Some\(|Optional\[)(.*)[)\]]$"
_TRUE: Final = "true"
_SLOTS_APART: Final = frozenset(
    {"head", "member_ids", "partitions", "topics", "assignors", "template", "source", "kind"}
)


@dataclass(slots=True)
class Reader:
    """Reads the lines of one task, batch after batch, in the order of their files."""

    zones: Mapping[str, str]
    zone: str
    cluster: str | None = None
    below: str | None = None
    last: dict[str, int] = field(default_factory=dict)
    """The last time that was told in a file."""

    def rows(self, lines: pa.RecordBatch, kernels: Kernels) -> pa.Table:
        """The rows that lines (file, position, text, stamp, what) tell; `line` is the place of a row's line in them."""
        texts, parents = _texts(lines.column("text"))
        said = read(texts, LINES, kernels)
        kept = said.has("kind") | said.unread
        what = lines.column("what")
        if what.null_count < len(what):
            apart = np.asarray(pc.is_valid(what).to_numpy(zero_copy_only=False), np.bool_)
            _forget(said, apart[parents])
            kept = np.where(apart[parents], _firsts(parents), kept)
        rows = np.flatnonzero(kept)
        if len(rows) < said.rows:
            parents, said = parents[rows], said.only(rows)
        return self._told(lines, parents, said, kernels)

    def _told(self, lines: pa.RecordBatch, parents: Rows, said: Said, kernels: Kernels) -> pa.Table:
        where = pa.array(parents)
        files = lines.column("file").dictionary_encode()
        names, codes = files.dictionary.to_pylist(), files.indices.to_numpy()[parents]
        why = _why(said, kernels)
        columns: dict[str, pa.Array] = {
            "line": where,
            "cluster": _each([self._cluster(name) for name in names], codes),
            "time_ms": self._times(lines.column("stamp").take(where), said, names, codes, kernels),
            "file": pa.DictionaryArray.from_arrays(pa.array(codes), files.dictionary),
            "position": lines.column("position").take(where),
        }
        for name in ("kind", "source", "template"):
            columns[name] = _text(said, name, kernels)
        if (what := lines.column("what")).null_count < len(what):
            columns["template"] = pc.coalesce(columns["template"].cast(pa.string()), what.take(where))
        columns |= _plain(said, kernels)
        columns |= _derived(said, why, kernels)
        return _each_that_went(pa.table({name: one for name, one in columns.items() if one.null_count < len(one)}))

    def _cluster(self, file: str) -> str | None:
        if self.below is None:
            return self.cluster
        return file.rpartition(self.below.rstrip("/") + "/")[2].partition("/")[0]

    def _times(self, stamps: pa.Array, said: Said, names: list[str], codes: NDArray[Any], kernels: Kernels) -> pa.Array:
        by_file = np.array([zone_of(name, self.zones, self.zone) for name in names] or [""], np.object_)
        zones = by_file[codes] if len(codes) else np.empty(0, np.object_)
        times, known = time_ms(said.slot("head"), zones, kernels)
        wanting = np.flatnonzero(~known & said.has("kind"))
        if len(wanting) and stamps.null_count < len(stamps):
            wrapped, _ = _texts(stamps.take(pa.array(wanting)), whole=True)
            times[wanting], known[wanting] = time_ms(wrapped, zones[wanting], kernels)
        self._fill(times, known, said, names, codes)
        return column(pa.int64(), known, times)

    def _fill(self, times: Longs, known: Flags, said: Said, names: list[str], codes: NDArray[Any]) -> None:
        """Give lines of clients, and what brokers print when they start, the time of the line before."""
        apart = said.among("source", [EventSource.CLIENT_LOG]) | said.among("kind", _WHEN_STARTING)
        apart &= said.has("kind")
        wanting = set(codes[apart & ~known].tolist())
        for code in set(codes[apart].tolist()):
            rows = np.flatnonzero(apart & (codes == code))
            told = rows[known[rows]]
            if code in wanting:
                _fill_in(times, known, rows, told, self.last.get(names[code]))
            if len(told):
                self.last[names[code]] = int(times[told[-1]])


def _fill_in(times: Longs, known: Flags, rows: Rows, told: Rows, last: int | None) -> None:
    wanting = rows[~known[rows]]
    before = np.searchsorted(told, wanting) - 1
    if last is None and not len(told):
        return
    first = int(times[told[0]]) if last is None else last
    known[wanting] = True
    times[wanting] = np.where(before >= 0, times[told[np.maximum(before, 0)]] if len(told) else first, first)


def _texts(lines: pa.Array, *, whole: bool = False) -> tuple[Texts, Rows]:
    """Lines as places in their bytes, those of several lines taken apart; and which line each is of."""
    lines = lines.cast(pa.string())
    _, offsets, content = lines.buffers()
    places = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    first, last = (int(places[0]), int(places[-1])) if len(lines) else (0, 0)
    data = (
        np.frombuffer(content, np.uint8)[first:last] if content is not None and last > first else np.empty(0, np.uint8)
    )
    starts, ends = places[:-1] - first, places[1:] - first
    parents = np.arange(len(lines))
    breaks = np.empty(0, np.int64) if whole else np.flatnonzero(data == ord("\n"))
    if len(breaks):
        owners = np.searchsorted(ends, breaks, side="right")
        starts = np.concatenate((starts, breaks + 1))
        ends = np.concatenate((ends, breaks))
        parents = np.concatenate((parents, owners))
        order = np.lexsort((starts, parents))
        starts, parents = starts[order], parents[order]
        ends = np.sort(ends)
    if lines.null_count:
        starts = np.where(pc.is_valid(lines).to_numpy(zero_copy_only=False)[parents], starts, -1)
        ends = np.where(starts < 0, -1, ends)
    return Texts(with_constants(data), starts.astype(np.int32), ends.astype(np.int32)), parents


def _firsts(parents: Rows) -> Flags:
    """Of the texts of each line, the first one."""
    return np.diff(parents, prepend=-1) > 0


def _forget(said: Said, which: Flags) -> None:
    said.unread[which] = False
    for starts, ends in said.slots.values():
        starts[which] = ends[which] = -1


def _each(values: list[str | None], codes: NDArray[Any]) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(codes))


def _why(said: Said, kernels: Kernels) -> Said:
    """What the reasons of rebalances say, for all rows."""
    rows = np.flatnonzero(said.among("kind", [EventKind.REBALANCE_STARTED]) & said.has("reason"))
    found = read(said.slot("reason").of(rows), WHY, kernels)
    why = Said(said.data, said.rows, np.zeros(said.rows, np.bool_))
    for name, (starts, ends) in found.slots.items():
        why.put(name, rows, starts, ends)
    return why


def _or(*some: Texts) -> Texts:
    """The first value that is there."""
    data, starts, ends = some[-1]
    for one in reversed(some[:-1]):
        there = one.ends > one.starts
        starts, ends = np.where(there, one.starts, starts), np.where(there, one.ends, ends)
    return Texts(data, starts, ends)


def _where(which: Flags, texts: Texts) -> Texts:
    return Texts(texts.data, np.where(which, texts.starts, -1), np.where(which, texts.ends, -1))


def _plain(said: Said, kernels: Kernels) -> dict[str, pa.Array]:
    """The slots that are columns as they are."""
    columns = {}
    for name in said.slots.keys() - _SLOTS_APART:
        kind = _TYPES.get(name, TEXT)
        if kind == LONG:
            values, valid = kernels.numbers(said.slot(name))
            columns[name] = column(pa.int64(), valid, values)
        else:
            text = _text(said, name, kernels)
            columns[name] = among(text, [_TRUE], null=True) if kind == FLAG else text
    return columns


def _text(said: Said, name: str, kernels: Kernels) -> pa.Array:
    """A slot as it is; constants are told once."""
    constants = said.constants(name)
    return kernels.strings(said.slot(name)) if constants is None else constants


def among(values: pa.Array, known: Iterable[str], *, null: bool = False) -> pa.Array:
    """Which values are among these; null, if asked for, where there is none."""
    texts = pa.array([str(one) for one in known], pa.string())
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        found = pc.is_in(values.dictionary, texts).take(values.indices)
        return found if null else pc.fill_null(found, False)
    found = pc.is_in(values, texts)
    return pc.if_else(pc.is_valid(values), found, None) if null else found


def _derived(said: Said, why: Said, kernels: Kernels) -> dict[str, pa.Array]:
    started = said.among("kind", [EventKind.REBALANCE_STARTED])
    client_reason = _or(said.slot("client_reason"), why.slot("client_reason"))
    culprits = _names(kernels.strings(_or(said.slot("member_ids"), why.slot("member_ids"))))
    first = _first(culprits)
    culprit = kernels.strings(_or(said.slot("culprit"), why.slot("culprit")))
    member = kernels.strings(_or(said.slot("member"), _where(started, why.slot("culprit"))))
    columns = {
        "trigger": _trigger(said, why, client_reason, kernels),
        "client_reason": kernels.strings(client_reason),
        "culprit": pc.coalesce(culprit, first),
        "member": pc.if_else(pa.array(started), pc.coalesce(member, first), member),
        "member_ids": culprits,
        "instance": _instance(kernels.strings(_or(said.slot("instance"), why.slot("instance")))),
    }
    for name in ("group", "assignor"):
        columns[name] = _named(kernels.strings(said.slot(name)))
    return columns | _lists(said, kernels)


def _lists(said: Said, kernels: Kernels) -> dict[str, pa.Array]:
    columns = {}
    for name, listed in (("assignors", _split), ("topics", _topics), ("partitions", _partitions)):
        if said.has(name).any():
            columns[name] = _some(kernels.strings(said.slot(name)), listed)
    if "partitions" in columns:
        values, valid = kernels.numbers(said.slot("count"))
        sizes = pc.cast(pc.list_value_length(columns["partitions"]), pa.int64())
        columns["count"] = pc.coalesce(column(pa.int64(), valid, values), sizes)
    return columns


def _trigger(said: Said, why: Said, client_reason: Texts, kernels: Kernels) -> pa.Array:
    left = said.among("kind", [EventKind.MEMBER_LEFT])
    told = _or(client_reason, _where(left, said.slot("reason")))
    found = Said(said.data, said.rows, np.zeros(said.rows, np.bool_))
    plain = _or(said.slot("trigger"), why.slot("trigger"))
    found.put("trigger", np.arange(said.rows), plain.starts, plain.ends)
    rows = np.flatnonzero(told.ends > told.starts)
    better = read(told.of(rows), CLIENTS_WHY, kernels).slot("trigger")
    which = better.starts >= 0
    found.put("trigger", rows[which], better.starts[which], better.ends[which])
    return _text(found, "trigger", kernels)


def _some(texts: pa.Array, listed: Any) -> pa.Array:
    """A list of each text that there is: few rows have one."""
    rows = pc.indices_nonzero(pc.is_valid(texts))
    found = listed(texts.take(rows))
    where = np.full(len(texts), -1, np.int64)
    where[rows.to_numpy()] = np.arange(len(rows))
    return found.take(pa.array(where, mask=where < 0))


def _names(texts: pa.Array) -> pa.Array:
    return _some(texts, lambda some: pc.split_pattern(pc.replace_substring_regex(some, _BRACKETS, ""), ", "))


def _split(texts: pa.Array) -> pa.Array:
    return pc.split_pattern(texts, ", ")


def _topics(texts: pa.Array) -> pa.Array:
    bare = pc.replace_substring_regex(texts, _BRACKETS + "|['\"]", "")
    return _listed(pc.split_pattern_regex(bare, ",? ").to_pylist())


def _partitions(texts: pa.Array) -> pa.Array:
    """`topic-0` from the ways in which the libraries print partitions; null where a way is not known."""
    plain = pc.replace_substring_regex(pc.replace_substring_regex(texts, _PARTITION, r"\1-\2"), _BRACKETS, "")
    found = pc.split_pattern(plain, ", ").to_pylist()
    odd = pc.indices_nonzero(pc.or_(pc.starts_with(texts, "map["), pc.starts_with(texts, '"'))).to_pylist()
    for row in odd:
        found[row] = _numbered(texts[row].as_py())
    return _listed(found)


def _numbered(text: str) -> list[str] | None:
    """kafkajs prints JSON: the numbers of each topic's partitions."""
    try:
        topics = json.loads("{" + text + "}")
        return [f"{topic}-{number}" for topic, numbers in topics.items() for number in numbers]
    except (ValueError, AttributeError, TypeError):
        return None


def _listed(found: Iterable[list[str] | None]) -> pa.Array:
    return pa.array([None if one is None else [name for name in one if name] for one in found], pa.list_(pa.string()))


def _first(lists: pa.Array) -> pa.Array:
    if lists.null_count == len(lists):
        return pa.nulls(len(lists), pa.string())
    return _some_first(lists)


def _some_first(lists: pa.Array) -> pa.Array:
    rows = pc.indices_nonzero(pc.greater(pc.list_value_length(lists), 0))
    found = pc.list_element(lists.take(rows), 0)
    where = np.full(len(lists), -1, np.int64)
    where[rows.to_numpy()] = np.arange(len(rows))
    return found.take(pa.array(where, mask=where < 0))


def _named(texts: pa.Array) -> pa.Array:
    nothing = pc.is_in(texts, _NOTHING)
    return pc.if_else(nothing, None, texts) if pc.any(nothing).as_py() else texts


def _instance(texts: pa.Array) -> pa.Array:
    named = _named(texts)
    return pc.replace_substring_regex(named, _INNER, r"\1") if named.null_count < len(named) else named


def _each_that_went(rows: pa.Table) -> pa.Table:
    """One row for each member that a line says is gone."""
    if "member_ids" not in rows.column_names or "kind" not in rows.column_names:
        return rows
    several = pc.and_(among(rows["kind"], _GONE), pc.is_valid(rows["member_ids"]))
    which = np.flatnonzero(several.to_numpy(zero_copy_only=False))
    if not len(which):
        return rows
    gone = pc.fill_null(rows["member_ids"], pa.scalar([], pa.list_(pa.string()))).take(pa.array(which)).combine_chunks()
    parents = np.concatenate(
        (np.delete(np.arange(rows.num_rows), which), np.repeat(which, pc.list_value_length(gone).to_numpy()))
    )
    member = rows["member"].combine_chunks() if "member" in rows.column_names else pa.nulls(rows.num_rows, pa.string())
    members = pa.concat_arrays([member.take(pa.array(np.delete(np.arange(rows.num_rows), which))), gone.flatten()])
    order = pa.array(np.argsort(parents, kind="stable"))
    rows = rows.take(pa.array(parents))
    rows = rows.drop_columns(["member"]) if "member" in rows.column_names else rows
    return rows.append_column("member", members).take(order)


# --- detail -----------------------------------------------------------------------------------------------------------


def as_detail(rows: pa.Table) -> pa.Array:
    """The fields of `detail` as one struct."""
    fields = {name: _typed(rows, name, kind) for name, kind in DETAIL.items()}
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def as_json(rows: pa.Table) -> pa.Array:
    """The fields of `detail` as JSON, which leaves out what is null."""
    names = [name for name in DETAIL if name in rows.column_names]
    if not names:
        return pa.array(["{}"] * rows.num_rows, pa.string())
    pieces = [_piece(rows[name].combine_chunks(), name) for name in names]
    inner = pc.binary_join_element_wise(*pieces, "", null_handling="replace", null_replacement="")
    return pc.binary_join_element_wise("{", pc.utf8_rtrim(inner, ","), "}", "")


def _piece(values: pa.Array, name: str) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    if pa.types.is_list(values.type):
        shown = pa.array([None if one is None else json.dumps(one) for one in values.to_pylist()], pa.string())
    elif pa.types.is_string(values.type):
        shown = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
        shown = pc.replace_substring_regex(pc.replace_substring(shown, "\t", "\\t"), r"[\x00-\x1f]", " ")
        shown = pc.binary_join_element_wise('"', shown, '"', "")
    else:
        shown = pc.cast(values, pa.string())
    return pc.binary_join_element_wise(f'"{name}":', shown, ",", "")


def _typed(rows: pa.Table, name: str, kind: str) -> pa.Array:
    if name in rows.column_names:
        return rows[name].combine_chunks().cast(ARROW[kind])
    return pa.nulls(rows.num_rows, ARROW[kind])


def told(rows: pa.Table, detail: pa.Array) -> pa.RecordBatch:
    """Rows with all columns of the event table, and this for their detail."""
    columns = {name: _typed(rows, name, kind) for name, kind in COLUMNS.items()}
    evidence = {name: _typed(rows, name, kind) for name, kind in EVIDENCE.items()}
    return pa.record_batch({**columns, "detail": detail, **evidence})
