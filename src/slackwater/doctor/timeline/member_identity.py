"""Members that share a client id, told apart by their logs.

Rules kept here
- Every library has a default client id, so several members may have one in common. Where each of them has a log of its
  own, and these ran at the same time, a member is called by its log's name.
- A file in which a broker or a named client is heard too is nobody's own: its name is not the name of a client that its
  lines leave out.
- Rotated files of one log have their folder and label in common, and are one log; so are a process's next log and a
  second copy of one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import CLIENT_SIDE, SOURCE, Row

_Log = tuple[str, str]


def by_log(rows: list[Row]) -> tuple[list[Row], dict[str, str]]:
    """Rows in which members that share a client id have their logs' names instead, and these members' names."""
    if CLIENT_SIDE.isdisjoint(map(SOURCE, rows)):
        return rows, {}
    rows = _own_names(rows)
    members, logs = _shared_logs(rows)
    return _named(rows, members, logs), members


def _own_names(rows: list[Row]) -> list[Row]:
    """Rows of clients that nobody names, without the name of a file that is not theirs alone."""
    nameless = {row.file for row in rows if _is_nameless(row)}
    if not nameless:
        return rows
    shared = {row.file for row in rows if row.file in nameless and (row.client or row.source not in CLIENT_SIDE)}
    return [
        row._replace(evidence=row.where, file=None) if row.file in shared and _is_nameless(row) else row for row in rows
    ]


def _is_nameless(row: Row) -> bool:
    return row.source in CLIENT_SIDE and not row.client and not row.instance


def _log_of(row: Row) -> _Log | None:
    """The folder and the label of the log that a row stands in; rotated files of one log have both in common."""
    if row.source not in CLIENT_SIDE or row.file is None or row.label is None:
        return None
    return row.file.rpartition("/")[0], row.label


def _shared_logs(rows: Sequence[Row]) -> tuple[dict[str, str], dict[_Log, str]]:
    """Of members that share a client id: the name of each member's log, and the names of these logs."""
    told: dict[str, dict[_Log, set[str]]] = {}
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
        ids = {row.member for row in own if row.member and signals.tells_own_id(row)}
        if ids:
            told.setdefault(client, {}).setdefault(log, set()).update(ids)
    members: dict[str, str] = {}
    logs: dict[_Log, str] = {}
    for client, own_logs in told.items():
        if len(own_logs) > 1 and _at_once(own_logs, [spans[client, log] for log in own_logs]):
            named = _log_names(own_logs)
            logs |= named
            members |= {member: named[log] for log, ids in own_logs.items() for member in ids}
    return members, logs


def _at_once(own: Mapping[_Log, set[str]], spans: Iterable[tuple[int, int]]) -> bool:
    """Logs of several processes that ran at the same time: not one process's next log, nor a second copy of one."""
    members = [member for ids in own.values() for member in ids]
    if len(set(members)) < len(members):
        return False
    return any(after[0] < before[1] for before, after in pairwise(sorted(spans)))


def _log_names(logs: Iterable[_Log]) -> dict[_Log, str]:
    """Logs by their own names; logs that are called alike by their folders'."""
    labels = Counter(label for _, label in logs)
    return {
        (folder, label): label if labels[label] == 1 else folder.rpartition("/")[2] or label for folder, label in logs
    }


def _named(rows: list[Row], members: Mapping[str, str], logs: Mapping[_Log, str]) -> list[Row]:
    if not members:
        return rows
    shared = {signals.made_of(member) for member in members}
    found = []
    for row in rows:
        name = members.get(row.member or "")
        log = _log_of(row)
        if name is None and log is not None and row.client in shared:
            name = logs.get(log)
        found.append(row if name is None or row.instance else row._replace(client=name))
    return found
