"""Timelines of the members for drawing: one per client (or static instance).

Invariants:
- A timeline has a span for every membership interval and a marker for every end of one and every error in the client's
  log.
- A span without a logged end lasts to the end of the history; one without a logged begin starts with it.
- The number of timelines, spans and markers is limited: culprits come first, then the clients with most intervals.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from slackwater.doctor.timeline.client_timeline import ClientTimeline
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import MembershipEnd, MembershipInterval

MAX_TIMELINES: Final = 200
MAX_SPANS: Final = 500

_END_MARKERS: Final = {
    MembershipEnd.LEFT: ("left", "left the group"),
    MembershipEnd.EXPIRED: ("expired", "was removed: session.timeout.ms expired"),
    MembershipEnd.DROPPED: ("slow", "was removed: it did not rejoin within the rebalance timeout"),
    MembershipEnd.UNSYNCED: ("slow", "was removed: it did not send SyncGroup in time"),
    MembershipEnd.REPLACED: ("conflict", "was replaced by a member with the same group.instance.id"),
    MembershipEnd.GONE: ("other", "left; the reason is not recorded"),
}


class TimelineSpan(NamedTuple):
    """One membership interval."""

    began_ms: int
    ended_ms: int
    what: str


class TimelineMarker(NamedTuple):
    """An event of a member; `kind` is slow, expired, left, conflict or other."""

    time_ms: int
    kind: str
    what: str


class MemberTimeline(NamedTuple):
    """The spans and markers of one client."""

    name: str
    host: str | None
    culprit: bool
    spans: tuple[TimelineSpan, ...]
    marks: tuple[TimelineMarker, ...]


def member_timelines(history: GroupHistory, culprits: Collection[str]) -> tuple[MemberTimeline, ...]:
    """Return the timelines of a group: the culprits first, then by time of joining."""
    timelines = [
        timeline
        for timeline in history.timelines.values()
        if timeline.intervals or timeline.log.overruns or timeline.log.failures
    ]
    if len(timelines) > MAX_TIMELINES:
        timelines = sorted(timelines, key=lambda timeline: (timeline.name not in culprits, -len(timeline.intervals)))[
            :MAX_TIMELINES
        ]
    drawn = [_member_timeline(history, timeline, timeline.name in culprits) for timeline in timelines]
    return tuple(sorted(drawn, key=_drawing_order))


def _drawing_order(timeline: MemberTimeline) -> tuple[bool, int, str]:
    first_ms = timeline.spans[0].began_ms if timeline.spans else 0
    return not timeline.culprit, first_ms, timeline.name


def _member_timeline(history: GroupHistory, timeline: ClientTimeline, culprit: bool) -> MemberTimeline:
    spans, marks = [], []
    for interval in timeline.intervals[-MAX_SPANS:]:
        began_ms = interval.joined_ms if interval.seen_joining else history.began_ms
        ended_ms = history.ended_ms if interval.ended_ms is None else interval.ended_ms
        spans.append(TimelineSpan(began_ms, max(began_ms, ended_ms), f"member {interval.member}"))
        if (marker := _end_marker(interval)) is not None:
            marks.append(marker)
    for row in timeline.log.overruns[-MAX_SPANS:]:
        over = row.detail_number("overrun_ms") or row.detail_number("by_ms")
        by = f" by {over / 1000:.1f} s" if over else ""
        marks.append(TimelineMarker(row.time_ms, "slow", f"exceeded max.poll.interval.ms{by}"))
    marks += [
        TimelineMarker(row.time_ms, "conflict", "failed with an error") for row in timeline.log.failures[-MAX_SPANS:]
    ]
    host = next((interval.host for interval in reversed(timeline.intervals) if interval.host), None)
    return MemberTimeline(
        timeline.name, host, culprit, tuple(spans), tuple(sorted(marks, key=lambda marker: marker.time_ms))
    )


def _end_marker(interval: MembershipInterval) -> TimelineMarker | None:
    if interval.ended_ms is None or interval.end is None:
        return None
    kind, what = _END_MARKERS[interval.end]
    return TimelineMarker(interval.ended_ms, kind, f"{what}: {interval.reason}" if interval.reason else what)
