"""The history in some local files, read in this process: rows by the same steps as in Spark's job.

Invariants:
- A file is read once, in blocks. The rows of complete lines stay in Arrow; few rows become dictionaries: those that
  lack a name, and those of dumped records and group events.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from slackwater.doctor.diagnosis import DiagnosisRequest
from slackwater.doctor.events.rows import Row, read_row
from slackwater.doctor.events.table import CLUSTER_KINDS, COLUMNS, EVIDENCE, TEXT, UNUSED_BY_RULES
from slackwater.doctor.events.times import MIN_DATED_MS, is_dated
from slackwater.doctor.grouping import TOPIC_CHANGE_MS, Selection, is_selected
from slackwater.doctor.history.event_batches import ID_COLUMNS, to_json_rows
from slackwater.doctor.history.files import LocalFile, display_name, uri
from slackwater.doctor.history.lines import GROUP_EVENT, RECORD, SHOWN_CHARACTERS, find_lines
from slackwater.doctor.history.log_events import ARROW_TYPES, LogReader, is_complete
from slackwater.doctor.history.ranges import read_blocks, whole_file
from slackwater.doctor.history.summaries import NO_TIMESTAMP_PREFIX, FileSummaries, summarize
from slackwater.doctor.local.attribution import EventRow, RowIds, assign_nameless_group, fill_names
from slackwater.doctor.local.records import TextLine, dumped_record, group_event_rows, offsets_rows
from slackwater.doctor.timeline.cluster_history import ClusterHistory

_SCHEMA: Final = pa.schema(
    [(name, ARROW_TYPES[kind]) for name, kind in (COLUMNS | {"detail": TEXT} | EVIDENCE).items()]
)
_SELECTED_BY: Final = pa.schema([_SCHEMA.field("time_ms"), _SCHEMA.field("group")])
_MAX_UNRECOGNIZED_FILES: Final = 20


class LocalHistory:
    """The rows of a history."""

    def __init__(
        self,
        request: DiagnosisRequest,
        files: Sequence[LocalFile],
        live: Sequence[EventRow] = (),
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Read the files. `live` are rows of the same cluster; `on_progress` gets the number of bytes of each block."""
        # The names of files are URIs, too.
        clusters_dir = None if request.clusters_dir is None else uri(request.clusters_dir)
        zones = dict(request.zones)
        reader = LogReader(zones, request.zone, request.cluster, clusters_dir, with_text=False)
        self.summaries: Final = FileSummaries()
        self._live_rows: Final = live
        self._complete_tables: Final[list[pa.Table]] = []
        self._incomplete_rows: Final[list[EventRow]] = []
        for file in files:
            for position, data in read_blocks(whole_file(file)):
                rows = reader.read(file.name, find_lines(data, position))
                if rows.num_rows:
                    self._add(rows)
                on_progress(len(data))
        self._undecoded: list[TextLine] = []
        self._record_rows: Final = self._read_record_rows()
        self._completed_rows: Final = self._fill_names()

    def _add(self, rows: pa.Table) -> None:
        self.summaries.add(summarize(rows).values())
        complete = pa.array(is_complete(rows))
        used = [name for name in rows.column_names if name not in UNUSED_BY_RULES and name != "text"]
        self._complete_tables.append(rows.select(used).filter(complete))
        self._incomplete_rows.extend(to_json_rows(rows.filter(pc.invert(complete))).to_pylist())

    def _read_record_rows(self) -> list[EventRow]:
        """Return the rows of dumped records and group events."""
        records = [record for line in self._lines(RECORD) if (record := dumped_record(line)) is not None]
        rows, self._undecoded = offsets_rows(records)
        return [*rows, *group_event_rows(self._lines(GROUP_EVENT))]

    def _lines(self, kind: str) -> list[TextLine]:
        lines = (row for row in self._incomplete_rows if row["template"] == kind)
        return [TextLine(row["cluster"], row["file"], row["position"], row["text"]) for row in lines]

    def _fill_names(self) -> list[EventRow]:
        """Return the incomplete rows of logs, with the names that other rows determine."""
        rows = [dict(row) for row in self._incomplete_rows if row["kind"] is not None]
        if rows:
            fill_names(rows, self.summaries, self._row_ids())
        return rows

    def _row_ids(self) -> set[RowIds]:
        ids: set[RowIds] = set()
        for table in self._complete_tables:
            present = [name for name in ID_COLUMNS if name in table.column_names]
            for row in table.select(present).group_by(present, use_threads=False).aggregate([]).to_pylist():
                ids.add(RowIds.of(row))
        others = (*self._incomplete_rows, *self._live_rows, *self._record_rows)
        return ids.union(map(RowIds.of, others))

    def table(self) -> pa.Table:
        """Return all rows with a group."""
        completed = [dict(row) for row in self._completed_rows]
        assign_nameless_group(completed)
        rows = [row for row in (*completed, *self._record_rows, *self._live_rows) if row.get("group")]
        plain = pa.Table.from_pylist(rows, schema=_SCHEMA)
        plain = plain.select([name for name in plain.column_names if plain[name].null_count < plain.num_rows])
        return pa.concat_tables([*self._complete_tables, plain], promote_options="default")

    def has_events(self, selection: Selection) -> bool:
        """Return whether any event is in the selection."""
        tables = (table for table in self._complete_tables if table.num_rows)
        return any(pc.any(is_selected(table, selection)).as_py() for table in tables) or bool(
            _select((*self._completed_rows, *self._record_rows, *self._live_rows), selection)
        )

    def cluster_histories(self, selection: Selection) -> dict[str, ClusterHistory]:
        """Return the history of each cluster's brokers and topics."""
        changes: dict[tuple[Any, ...], EventRow] = {}
        for row in _select([row for row in self._incomplete_rows if row["kind"] in CLUSTER_KINDS], selection):
            _merge_change(changes, row)
        rows: dict[str, list[Row]] = {}
        for change in changes.values():
            rows.setdefault(change["cluster"], []).append(read_row(change))
        until_ms = selection.until_ms
        ended_ms = {
            name: time_ms if until_ms is None else min(time_ms, until_ms)
            for name, time_ms in self.summaries.ended_ms().items()
        }
        return {name: ClusterHistory.of(rows.get(name, ()), ended_ms.get(name, 0)) for name in rows.keys() | ended_ms}

    def unrecognized(self) -> list[tuple[str, int, str]]:
        """Return per file the number of relevant lines that no template matches, and the first of them."""
        ended_ms = self.summaries.ended_ms()
        lines: dict[tuple[str | None, str], list[tuple[int, str]]] = {}
        for row in self._incomplete_rows:
            time_ms, cluster = row["time_ms"], row["cluster"] or ""
            is_undated = row["kind"] is not None and time_ms is not None and time_ms < MIN_DATED_MS
            without_time = is_undated and is_dated(ended_ms.get(cluster, 0))
            if row["template"] is None or without_time:
                text = f"{NO_TIMESTAMP_PREFIX}{row['text']}" if without_time else row["text"]
                lines.setdefault((row["cluster"], row["file"]), []).append((row["position"], text))
        for line in self._undecoded:
            lines.setdefault((line.cluster, line.file), []).append((line.position, line.text))
        ordered = sorted(lines.items(), key=lambda item: -len(item[1]))[:_MAX_UNRECOGNIZED_FILES]
        return [(display_name(file), len(found), min(found)[1]) for (_, file), found in ordered]


def _select(rows: Sequence[EventRow], selection: Selection) -> list[EventRow]:
    table = pa.Table.from_pylist(rows, schema=_SELECTED_BY)
    return list(compress(rows, is_selected(table, selection).to_pylist()))


def _merge_change(changes: dict[tuple[Any, ...], EventRow], row: EventRow) -> None:
    """Add a change of a topic or broker; the changes of a topic's partitions within a second are one."""
    detail = read_row(row).detail
    topic, node, partition = (detail[name][0] for name in ("topic", "node", "partition"))
    cluster = row["cluster"] or ""
    change = {
        "time_ms": row["time_ms"],
        "cluster": cluster,
        "kind": row["kind"],
        "source": row["source"],
        "evidence": row["evidence"] or f"{row['file']}:{row['position']}",
        "text": (row["text"] or "")[:SHOWN_CHARACTERS],
        "detail": {"topic": topic, "node": node, "partition": partition},
    }
    known = changes.setdefault((cluster, row["kind"], topic, node, row["time_ms"] // TOPIC_CHANGE_MS), change)
    partitions = [number for number in (partition, known["detail"]["partition"]) if number is not None]
    if row["time_ms"] < known["time_ms"]:
        known.update(change)
    known["detail"]["partition"] = min(partitions, default=None)
