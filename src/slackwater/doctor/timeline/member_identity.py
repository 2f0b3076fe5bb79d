"""Distinguish members that share a client id by their logs.

Invariants:
- Every library has a default client id, so several members can share one. If each of them has its own log and these
  logs cover the same time, a member is named after its log.
- A file that also contains a broker's or another client's lines belongs to no single client: its name is not used for
  lines without a client id.
- Rotated files of one log share directory and label and count as one log. So do consecutive logs of one process and
  copies of a log.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import CLIENT_SIDE, SOURCE, Row

_Log = tuple[str, str]


def split_members_by_log(rows: list[Row]) -> tuple[list[Row], dict[str, str]]:
    """Return the rows with shared client ids replaced by log names, and the log name of each such member."""
    if CLIENT_SIDE.isdisjoint(map(SOURCE, rows)):
        return rows, {}
    rows = _drop_shared_files(rows)
    members, logs = _shared_logs(rows)
    return _rename_clients(rows, members, logs), members


def _drop_shared_files(rows: list[Row]) -> list[Row]:
    """Remove the file name from rows without a client id if the file is shared."""
    nameless = {row.file for row in rows if _has_no_name(row)}
    if not nameless:
        return rows
    shared = {row.file for row in rows if row.file in nameless and (row.client or row.source not in CLIENT_SIDE)}
    return [
        row._replace(evidence=row.where, file=None) if row.file in shared and _has_no_name(row) else row for row in rows
    ]


def _has_no_name(row: Row) -> bool:
    return row.source in CLIENT_SIDE and not row.client and not row.instance


def _log_of(row: Row) -> _Log | None:
    """Return directory and label of a row's log; rotated files of one log share both."""
    if row.source not in CLIENT_SIDE or row.file is None or row.label is None:
        return None
    return row.file.rpartition("/")[0], row.label


def _shared_logs(rows: Sequence[Row]) -> tuple[dict[str, str], dict[_Log, str]]:
    """Return the log name of each member that shares a client id, and the names of these logs."""
    members_by_log: dict[str, dict[_Log, set[str]]] = {}
    spans: dict[tuple[str, _Log], tuple[int, int]] = {}
    by_file: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        if row.client and row.source in CLIENT_SIDE:
            by_file.setdefault((row.client, row.file), []).append(row)
    for (client, _), own in by_file.items():
        log = _log_of(own[0])
        if log is None:
            continue
        first, last = spans.get((client, log), (own[0].time_ms, own[-1].time_ms))
        spans[client, log] = min(first, own[0].time_ms), max(last, own[-1].time_ms)
        ids = {row.member for row in own if row.member and row_predicates.has_own_member_id(row)}
        if ids:
            members_by_log.setdefault(client, {}).setdefault(log, set()).update(ids)
    members: dict[str, str] = {}
    logs: dict[_Log, str] = {}
    for client, own_logs in members_by_log.items():
        if len(own_logs) > 1 and _overlap(own_logs, [spans[client, log] for log in own_logs]):
            names = _log_names(own_logs)
            logs |= names
            members |= {member: names[log] for log, ids in own_logs.items() for member in ids}
    return members, logs


def _overlap(own: Mapping[_Log, set[str]], spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether the logs belong to processes that ran at the same time (not to one process, not copies)."""
    members = [member for ids in own.values() for member in ids]
    if len(set(members)) < len(members):
        return False
    return any(after[0] < before[1] for before, after in pairwise(sorted(spans)))


def _log_names(logs: Iterable[_Log]) -> dict[_Log, str]:
    """Name each log by its label, or by its directory if several logs have the same label."""
    labels = Counter(label for _, label in logs)
    return {
        (folder, label): label if labels[label] == 1 else folder.rpartition("/")[2] or label for folder, label in logs
    }


def _rename_clients(rows: list[Row], members: Mapping[str, str], logs: Mapping[_Log, str]) -> list[Row]:
    if not members:
        return rows
    shared = {row_predicates.member_id_prefix(member) for member in members}
    renamed = []
    for row in rows:
        name = members.get(row.member or "")
        log = _log_of(row)
        if name is None and log is not None and row.client in shared:
            name = logs.get(log)
        renamed.append(row if name is None or row.instance else row._replace(client=name))
    return renamed
