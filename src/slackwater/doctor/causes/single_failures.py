"""Failures whose context is missing in the input. They are reported with a confidence below 0.8.

Invariants:
- These rules run only if no other rule explains the history with a fault.
- A finding of this module is partial: its confidence is between 0.5 and 0.7, and `missing_input` names what would
  decide.
- A request to rejoin (REBALANCE_IN_PROGRESS) is part of every rebalance. It is a failure only if one client gets it
  repeatedly and does not rejoin.
- A client that finds its coordinator and loses it again repeatedly, while the others keep it, cannot reach it.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from slackwater.doctor.causes.finding import LIKELY, POSSIBLE, Finding, evidence, occasions, shown, unique
from slackwater.doctor.causes.session import NO_RESPONSE
from slackwater.doctor.events import row_predicates
from slackwater.doctor.events.rows import Row
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.events.times import has_clock
from slackwater.doctor.phrases import count_of, shown_names
from slackwater.doctor.prescriptions.numbers import measured
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.group.events import EventKind, Trigger

MIN_CONFIDENCE: Final = 0.5
_MIDDLE: Final = 0.6
_MIN_REJOIN_REQUESTS: Final = 3
"""A client that polls rejoins at the first one."""
_MAX_HEARTBEAT_INTERVAL_MS: Final = 20_000
"""Requests to rejoin that are further apart belong to different rebalances."""
_SAME_REQUEST_MS: Final = 500
"""A client reports one request in several lines."""
_REBALANCING: Final = ("REBALANCE_IN_PROGRESS", "rebalancing", "ebalance in progress", "RebalanceInProgress")
_ALREADY_REBALANCING: Final = "group is already rebalancing"
"""The reason for which the Java consumer joins again after such a response."""
_NOT_COORDINATOR: Final = (
    "NOT_COORDINATOR",
    "NotCoordinator",
    "not the correct coordinator",
    "COORDINATOR_NOT_AVAILABLE",
    "CoordinatorNotAvailable",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CoordinatorLoadInProgress",
    "CoordinatorNotFound",
    "DisconnectException",
)
_NOT_ANSWERED: Final = ("retriable", "timed out", "Timed out", "TIMED_OUT", "disconnected")
"""Errors of commits that got no answer."""
_OLD_GENERATION: Final = (
    "ILLEGAL_GENERATION",
    "IllegalGeneration",
    "generation id is not valid",
    "already rebalanced",
    "STALE_MEMBER_EPOCH",
    "FENCED_MEMBER_EPOCH",
)
_NOT_A_MEMBER: Final = (
    *row_predicates.NO_MEMBER,
    *_OLD_GENERATION,
    "generation",
    "active group",
    "group error",
    "has already",
    "group rebalance",
    "group has rebalanced",
    "CommitFailed",
)
_FENCED: Final = ("FENCED_INSTANCE_ID", "FencedInstanceId")
_COMMIT_FAILED: Final = ("CommitFailed", "Commit cannot be completed", "commit cannot be completed")
_NOT_STORED: Final = ("rror when storing group assignment",)
_JOIN_FAILED: Final = "failed due to"
"""A part of the reason for which the Java consumer joins again after an error."""
_POLL_OR_SESSION: Final = (
    "whether the poll loop was late or heartbeats failed; add the client's log from the last completed join on, "
    "or the broker's log"
)


class _Failure(NamedTuple):
    """A kind of failure and the cause it is reported as."""

    cause: str
    confidence: float
    what: str
    matches: Callable[[Row], bool]
    missing_input: str
    alternatives: tuple[str, ...] = ()


def _text(row: Row) -> str:
    return f"{row.detail_text('error')} {row.detail_text('why')} {row.detail_text('reason')}"


def _has(row: Row, words: Sequence[str]) -> bool:
    text = _text(row)
    return any(word in text for word in words)


def _is_fenced(row: Row) -> bool:
    return row_predicates.is_instance_taken(row) or (row_predicates.is_failure(row) and _has(row, _FENCED))


def _is_crash(row: Row) -> bool:
    if _is_lost_session(row) or _is_refused_commit(row) or _is_without_coordinator(row):
        return False  # an error of the group protocol that the application did not catch
    return row_predicates.is_failure(row)


def _is_not_stored(row: Row) -> bool:
    return row.kind == EventKind.REBALANCE_STARTED and _has(row, _NOT_STORED)


def _is_lost_session(row: Row) -> bool:
    if row.kind == EventKind.PARTITIONS_LOST:
        return True
    if row.kind == EventKind.SESSION_LOST:
        return not _has(row, _REBALANCING)
    return _may_name_error(row) and _has(row, (*row_predicates.NO_MEMBER, *_OLD_GENERATION))


def _is_refused_commit(row: Row) -> bool:
    if row.kind == OtherEventKind.CLIENT_FAILED:
        return _has(row, _COMMIT_FAILED)
    return row.kind == EventKind.COMMIT_REFUSED and (not _text(row).strip() or _has(row, _NOT_A_MEMBER))


def _is_failed_commit(row: Row) -> bool:
    return row.kind == EventKind.COMMIT_REFUSED and not _has(row, (*_REBALANCING, *_NOT_COORDINATOR))


def _is_failed_join(row: Row) -> bool:
    return row.kind in (EventKind.JOIN_REFUSED, EventKind.REBALANCE_FAILED) and not _has(row, _REBALANCING)


def _is_without_coordinator(row: Row) -> bool:
    if row.kind == EventKind.COORDINATOR_LOST:
        return True
    if row.kind == EventKind.COMMIT_REFUSED and _has(row, _NOT_ANSWERED):
        return True
    return (_may_name_error(row) or row.kind == EventKind.COMMIT_REFUSED) and _has(row, _NOT_COORDINATOR)


def _may_name_error(row: Row) -> bool:
    """Return whether the row is a failed request, or the join or the crash after one."""
    if row.kind == EventKind.JOIN_REQUESTED:
        return row.is_from_client and _JOIN_FAILED in row.detail_text("reason")
    return row.kind in (
        EventKind.HEARTBEAT_REFUSED,
        EventKind.REBALANCE_FAILED,
        EventKind.JOIN_REFUSED,
        OtherEventKind.CLIENT_FAILED,
    )


_FAILURES: Final = (
    _Failure(
        "instance_id_conflict",
        LIKELY,
        "was fenced: another process uses its group.instance.id",
        _is_fenced,
        "which processes share the group.instance.id; add the other clients' logs or __consumer_offsets",
    ),
    _Failure(
        "poll_delay",
        LIKELY,
        "exceeded max.poll.interval.ms",
        row_predicates.is_overrun,
        "how long its batches take and whether it rejoined; add the client's log after this line",
    ),
    _Failure(
        "crash",
        _MIDDLE,
        "ended with an error",
        _is_crash,
        "whether the process ended and came back; add the client's log after this line, or the broker's log",
        ("crash_loop",),
    ),
    _Failure(
        "session_expiry",
        LIKELY,
        "got no heartbeat response for its session timeout",
        row_predicates.is_timed_out,
        NO_RESPONSE,
        ("coordinator_unreachable", "coordinator_restart"),
    ),
    _Failure(
        "poll_delay",
        _MIDDLE,
        "could not commit: it was no longer a member of the generation",
        _is_refused_commit,
        _POLL_OR_SESSION,
        ("session_expiry",),
    ),
    _Failure(
        "session_expiry",
        _MIDDLE,
        "lost its session",
        _is_lost_session,
        _POLL_OR_SESSION,
        ("poll_delay", "coordinator_restart"),
    ),
    _Failure(
        "coordinator_restart",
        MIN_CONFIDENCE,
        "lost its coordinator",
        _is_without_coordinator,
        "whether the broker restarted, the coordinator moved or the network failed; add the broker's log",
        ("coordinator_unreachable", "session_expiry"),
    ),
    _Failure(
        "join_refused",
        _MIDDLE,
        "failed to join the group",
        lambda row: _is_failed_join(row) and bool(row.detail_text("error")),
        "whether it joined later; add the client's log after this line",
    ),
    _Failure(
        "unknown",
        MIN_CONFIDENCE,
        "could not commit its offsets",
        _is_failed_commit,
        "why the commit failed, if its error does not say so; add the client's log before this line",
        ("poll_delay", "session_expiry", "coordinator_restart"),
    ),
    _Failure(
        "unknown",
        MIN_CONFIDENCE,
        "got no assignment because the coordinator could not write it to __consumer_offsets",
        _is_not_stored,
        "why the coordinator could not write; add the broker's log around this line (in-sync replicas, disks)",
    ),
    _Failure(
        "unknown",
        MIN_CONFIDENCE,
        "failed to join the group",
        _is_failed_join,
        "why the join failed; add the broker's log",
    ),
)
_LEFT_AND_WENT_ON_MS: Final = 60_000
"""A client that left by its poll timer rejoins at its next poll."""
_KINDS: Final = (
    EventKind.MEMBER_FENCED,
    EventKind.JOIN_REFUSED,
    EventKind.REBALANCE_FAILED,
    EventKind.POLL_OVERRUN,
    EventKind.MEMBER_LEFT,
    OtherEventKind.CLIENT_FAILED,
    EventKind.COMMIT_REFUSED,
    EventKind.SESSION_LOST,
    EventKind.PARTITIONS_LOST,
    EventKind.HEARTBEAT_REFUSED,
    EventKind.COORDINATOR_LOST,
    EventKind.JOIN_REQUESTED,
    EventKind.REBALANCE_STARTED,
)
_JOINED: Final = (EventKind.MEMBER_JOINED, EventKind.REBALANCE_COMPLETED, EventKind.PARTITIONS_ASSIGNED)
_SESSION_KINDS: Final = (*_JOINED, EventKind.HEARTBEAT_REFUSED, EventKind.SESSION_LOST, EventKind.COMMIT_REFUSED)
_REJOIN_KINDS: Final = (EventKind.HEARTBEAT_REFUSED, EventKind.COMMIT_REFUSED, EventKind.JOIN_REQUESTED)
_KIP848: Final = {name: f"kip848_{name}" for name in ("poll_delay", "session_expiry")}
_HEALTH: Final = (
    EventKind.GENERATION_FORMED,
    EventKind.GENERATION_RECORDED,
    EventKind.REBALANCE_COMPLETED,
    EventKind.MEMBER_JOINED,
    EventKind.PARTITIONS_ASSIGNED,
    EventKind.PROGRESS,
    OtherEventKind.MEMBER_RECORDED,
)
"""A completed join, a generation, an assignment or commits: the group worked."""


def single_failure(history: GroupHistory) -> Finding | None:
    """Return the most telling failure in the rows, as a partial finding."""
    if (busy := _lost_while_asked_to_rejoin(history)) is not None:
        return busy
    rows = history.rows_of(*_KINDS)
    for failure in _FAILURES:
        own = [row for row in rows if failure.matches(row)]
        if failure.matches is _is_refused_commit and _has_other_errors(own, rows):
            continue
        if own and failure.matches is _is_without_coordinator and (moved := _moved_coordinator(history)) is not None:
            return moved
        if own:
            return _finding(history, failure, occasions(own))
    return _left_and_went_on(history) or _asked_to_rejoin(history)


def _has_other_errors(own: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Return whether none of a client's refused commits names an error, and another failed commit does."""
    if any(_text(row).strip() for row in own):
        return False
    return any(_is_failed_commit(row) and _text(row).strip() for row in rows)


def has_evidence_of_health(history: GroupHistory) -> bool:
    """Return whether a row shows that the group worked, or that a client was closed in order."""
    if any(True for _ in history.iter_rows(*_HEALTH, OtherEventKind.CLIENT_CLOSED)):
        return True
    leaves = (row for row in history.rows_of(EventKind.MEMBER_LEFT) if row.is_from_client)
    return any(row_predicates.is_close_reason(row_predicates.reason(row)) for row in leaves)


def leader_without_reason(history: GroupHistory) -> Row | None:
    """Return where the leader started a rebalance for a reason that neither it nor a client's log names."""
    if history.has_clients:
        return None
    rows = (row for row in history.rows_of(EventKind.REBALANCE_STARTED) if row.trigger == Trigger.LEADER_REJOIN)
    return next((row for row in rows if not row.detail_text("client_reason")), None)


def rebalance_without_reason(history: GroupHistory) -> Row | None:
    """Return where the only client of an excerpt was asked to rejoin, or gave up partitions and joined again.

    None if the input may contain the reason, and if a client that was asked has joined.

    An excerpt that begins while the client is a member does not show the members that came or left before.
    """
    if history.has_broker or history.has_records or len(history.timelines) > 1:
        return None
    if any(timeline.starts for timeline in history.timelines.values()):
        return None
    asked = next(filter(is_asked_to_rejoin, history.rows_of(*_REJOIN_KINDS)), None)
    if asked is not None and not history.rows_of(*_JOINED):
        return asked
    revoked = (row for row in history.rows_of(EventKind.PARTITIONS_REVOKED) if row.detail_names("partitions"))
    first = next(revoked, None)
    joined = history.rows_of(EventKind.MEMBER_JOINED)
    return first if first is not None and joined and joined[-1].time_ms >= first.time_ms else None


def _finding(history: GroupHistory, failure: _Failure, rows: Sequence[Row]) -> Finding:
    names = unique(name for row in rows if row.kind != EventKind.REBALANCE_STARTED and (name := _name(row)))
    limits = [limit for row in rows if (limit := row.detail_number("limit_ms"))]
    silent = [duration for row in rows if (duration := row.detail_number("duration_ms"))]
    figures = {"failures": len(rows)} | ({"limit_ms": limits[0]} if limits else {})
    figures |= {"pause_ms": max(silent)} if silent else {}
    during = f": {measured(max(silent))}" if silent else ""
    what, missing = failure.what, failure.missing_input
    if failure.cause == "join_refused":
        during = f": {rows[0].detail_text('error').rstrip('.')}"
    nodes = {row_predicates.node(row) for row in rows}
    if failure.matches is row_predicates.is_timed_out and len(nodes) == 1 and (node := nodes.pop()):
        what = what.replace("response", f"response from broker {node}")
        missing = missing.replace("the broker's log", f"the log of broker {node}")
    return Finding(
        cause=_of_protocol(history, failure.cause),
        culprits=names,
        times=tuple(row.time_ms for row in rows),
        confidence=failure.confidence,
        evidence=shown(evidence(row, f"{(names and _name(row)) or 'a client'} {what}") for row in rows),
        is_recurring=len(rows) > max(1, len(names)),
        figures=figures,
        missing_input=(missing,),
        alternatives=tuple(_of_protocol(history, cause) for cause in failure.alternatives),
        is_partial=True,
        headline=f"{shown_names(names, 'a client')} {what}{during}{count_of(len(rows))}",
    )


def _moved_coordinator(history: GroupHistory) -> Finding | None:
    """Find a client that lost its coordinator on one broker and found it on another one."""
    lost: dict[str, Row] = {}
    for row in history.rows_of(EventKind.COORDINATOR_LOST, EventKind.COORDINATOR_FOUND):
        if not row.is_from_client or not (node := row_predicates.node(row)):
            continue
        if row.kind == EventKind.COORDINATOR_LOST:
            lost[_name(row)] = row
        elif (first := lost.pop(_name(row), None)) is not None and node != (old := row_predicates.node(first)):
            name = _name(row) or "a client"
            return Finding(
                cause="coordinator_restart",
                culprits=(f"broker {old}",),
                times=(first.time_ms,),
                confidence=POSSIBLE,
                evidence=shown(
                    [
                        evidence(first, f"{name} lost its coordinator on broker {old}"),
                        evidence(row, f"{name} found it on broker {node}"),
                    ]
                ),
                missing_input=(
                    f"why it moved (a restart, or a new leader of its partition); add the log of broker {old}",
                ),
                is_partial=True,
                headline=f"the coordinator moved from broker {old} to broker {node}",
            )
    return None


def _of_protocol(history: GroupHistory, cause: str) -> str:
    return _KIP848.get(cause, cause) if history.is_consumer_protocol else cause


def _lost_while_asked_to_rejoin(history: GroupHistory) -> Finding | None:
    """Find a client that is asked to rejoin and is no longer a member later, without a join in between.

    It did not rejoin within the rebalance timeout, so it was busy; a client without heartbeats would not be asked.
    """
    asked: dict[str, Row] = {}
    for row in history.rows_of(*_SESSION_KINDS):
        if not row.is_from_client:
            continue
        name = _name(row)
        if row.kind in _JOINED:
            asked.pop(name, None)
        elif row.kind == EventKind.HEARTBEAT_REFUSED and _has(row, _REBALANCING):
            asked.setdefault(name, row)
        elif row_predicates.is_lost(row) and not row_predicates.is_timed_out(row) and name in asked:
            first = asked[name]
            waited_ms = row.time_ms - first.time_ms if has_clock(first.time_ms) else 0
            during = f" within {measured(waited_ms)}" if waited_ms else ""
            return Finding(
                cause=_of_protocol(history, "poll_delay"),
                culprits=(name,) if name else (),
                times=(row.time_ms,),
                confidence=POSSIBLE,
                evidence=shown(
                    [
                        evidence(first, f"{name or 'a client'} was asked to rejoin"),
                        evidence(row, f"{name or 'a client'} had not rejoined and was removed"),
                    ]
                ),
                figures={"waited_ms": waited_ms} if waited_ms else {},
                missing_input=("what the client did meanwhile; add its log between these lines, or the broker's log",),
                alternatives=(_of_protocol(history, "session_expiry"),),
                is_partial=True,
                headline=f"{name or 'a client'} was asked to rejoin, did not{during}, and was removed from the group",
            )
    return None


def is_asked_to_rejoin(row: Row) -> bool:
    """Return whether a client's heartbeat or commit was answered with REBALANCE_IN_PROGRESS."""
    if row.kind == EventKind.JOIN_REQUESTED:
        return row.is_from_client and _ALREADY_REBALANCING in row.detail_text("reason")
    return row.kind in _REJOIN_KINDS and row.is_from_client and _has(row, _REBALANCING)


def _left_and_went_on(history: GroupHistory) -> Finding | None:
    """Find a client that left without a reason and then gave up its partitions or joined: it was not closed.

    A client that is closed gives up its partitions before it leaves, and does not join again. Only the poll timer, and
    a change of its subscription, make it leave and go on.
    """
    left: dict[str, Row] = {}
    for row in history.rows_of(EventKind.MEMBER_LEFT, EventKind.PARTITIONS_REVOKED, *_JOINED):
        if not row.is_from_client:
            continue
        if row.kind == EventKind.MEMBER_LEFT:
            if not row_predicates.reason(row) and row.trigger is None:
                left[_name(row)] = row
        elif (first := left.pop(_name(row), None)) is not None:
            timeline = history.timelines.get(_name(row))
            is_new = timeline is not None and any(
                first.time_ms <= start.time_ms <= row.time_ms for start in timeline.starts
            )
            if is_new or (has_clock(first.time_ms) and row.time_ms - first.time_ms > _LEFT_AND_WENT_ON_MS):
                continue
            name = _name(row) or "a client"
            return Finding(
                cause=_of_protocol(history, "poll_delay"),
                culprits=(_name(row),) if _name(row) else (),
                times=(first.time_ms,),
                confidence=_MIDDLE,
                evidence=shown(
                    [evidence(first, f"{name} left the group"), evidence(row, f"{name} went on afterwards")]
                ),
                missing_input=("whether its poll timer made it leave; add the client's log before this line",),
                alternatives=("subscription_change",),
                is_partial=True,
                headline=f"{name} left the group without being closed",
            )
    return None


def _asked_to_rejoin(history: GroupHistory) -> Finding | None:
    """Find a client that is asked to rejoin repeatedly and does not, or does so late: its poll loop is busy."""
    asked: dict[str, list[Row]] = {}
    longest: list[Row] = []
    rejoined: Row | None = None
    for row in history.rows_of(
        EventKind.HEARTBEAT_REFUSED, EventKind.JOIN_REQUESTED, EventKind.MEMBER_JOINED, EventKind.REBALANCE_COMPLETED
    ):
        if not row.is_from_client:
            continue
        own = asked.setdefault(_name(row), [])
        if row.kind in _JOINED:
            rejoined = row if own and own[-1] is longest[-1] else rejoined
            own.clear()
        elif is_asked_to_rejoin(row):
            since_ms = row.time_ms - own[-1].time_ms if own and has_clock(row.time_ms) else _SAME_REQUEST_MS
            if since_ms > _MAX_HEARTBEAT_INTERVAL_MS:
                own.clear()
            elif since_ms < _SAME_REQUEST_MS:
                continue
            own.append(row)
            if len(own) > len(longest):
                longest, rejoined = list(own), None
    if len(longest) < _MIN_REJOIN_REQUESTS:
        return None
    name = _name(longest[0])
    waited_ms = longest[-1].time_ms - longest[0].time_ms if has_clock(longest[0].time_ms) else 0
    during = f" in {measured(waited_ms)}" if waited_ms else ""
    who, requests = name or "a client", f"{len(longest)} times{during}"
    figures = {"failures": len(longest)} | ({"waited_ms": waited_ms} if waited_ms else {})
    late_ms = rejoined.time_ms - longest[0].time_ms if rejoined is not None and waited_ms else 0
    done = f" and rejoined only after {measured(late_ms)}" if late_ms else " and rejoined late"
    return Finding(
        cause=_of_protocol(history, "poll_delay"),
        culprits=(name,) if name else (),
        times=tuple(row.time_ms for row in longest),
        confidence=_MIDDLE,
        evidence=shown(
            [
                *(
                    evidence(row, f"{who} was asked to rejoin")
                    for row in (longest if rejoined is None else longest[:2])
                ),
                evidence(rejoined, f"{who} rejoined"),
            ]
        ),
        figures=figures | ({"rejoined_late": 1} if rejoined is not None else {}),
        missing_input=(
            "what the poll loop does meanwhile, and whether it rejoined later; add the rest of the client's log"
            if rejoined is None
            else "what the poll loop did meanwhile; add the application's log",
        ),
        alternatives=("stuck_rebalance",) if rejoined is None else (),
        is_partial=True,
        headline=f"{who} was asked to rejoin {requests}{' and did not' if rejoined is None else done}",
    )


def _name(row: Row) -> str:
    return row.instance or row.client or row.label or row.member or ""
