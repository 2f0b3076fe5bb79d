"""Who was there when: a lane per client (or static instance), for whoever draws a group's history.

Rules kept here
- A lane has a span for every stay in the group and a mark for everything that ended one, or that the client itself
  complained of.
- A lane whose end was not seen lasts to the end of the history; one whose beginning was not seen starts with it.
- Only so many lanes, spans and marks are kept as a person can look at: the culprits' first, then the busiest.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from slackwater.doctor.timeline.client_timeline import Story
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import End, Term

MOST_LANES: Final = 200
MOST_SPANS: Final = 500

_ENDED: Final = {
    End.LEFT: ("go", "left the group"),
    End.EXPIRED: ("dead", "was put out: its session ran out"),
    End.DROPPED: ("slow", "was dropped: it did not rejoin in time"),
    End.UNSYNCED: ("slow", "was dropped: it did not sync in time"),
    End.REPLACED: ("fight", "was replaced by the same instance id"),
    End.GONE: ("other", "is gone"),
}


class Span(NamedTuple):
    """One stay in the group."""

    began_ms: int
    ended_ms: int
    what: str


class Mark(NamedTuple):
    """Something that happened to a member; `kind` is slow, dead, come, go, fight or other."""

    time_ms: int
    kind: str
    what: str


class Lane(NamedTuple):
    """One client's part in a group's history."""

    name: str
    host: str | None
    culprit: bool
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]


def lanes(history: GroupHistory, culprits: Collection[str]) -> tuple[Lane, ...]:
    """The lanes of a group: the culprits first, then in the order in which they came."""
    stories = [story for story in history.stories.values() if story.terms or story.overruns or story.failures]
    if len(stories) > MOST_LANES:
        stories = sorted(stories, key=lambda one: (one.name not in culprits, -len(one.terms)))[:MOST_LANES]
    made = [_lane(history, story, story.name in culprits) for story in stories]
    return tuple(sorted(made, key=lambda one: (not one.culprit, one.spans[0].began_ms if one.spans else 0, one.name)))


def _lane(history: GroupHistory, story: Story, culprit: bool) -> Lane:
    spans, marks = [], []
    for term in story.terms[-MOST_SPANS:]:
        began_ms = term.joined_ms if term.seen_joining else history.began_ms
        ended_ms = history.ended_ms if term.ended_ms is None else term.ended_ms
        spans.append(Span(began_ms, max(began_ms, ended_ms), f"member {term.member}"))
        if (mark := _end(term)) is not None:
            marks.append(mark)
    for row in story.overruns[-MOST_SPANS:]:
        over = row.number("overrun_ms") or row.number("by_ms")
        by = f" by {over / 1000:.1f} s" if over else ""
        marks.append(Mark(row.time_ms, "slow", f"was too long between two polls{by}"))
    marks += [Mark(row.time_ms, "fight", "failed") for row in story.failures[-MOST_SPANS:]]
    host = next((term.host for term in reversed(story.terms) if term.host), None)
    return Lane(story.name, host, culprit, tuple(spans), tuple(sorted(marks, key=lambda one: one.time_ms)))


def _end(term: Term) -> Mark | None:
    if term.ended_ms is None or term.end is None:
        return None
    kind, what = _ENDED[term.end]
    return Mark(term.ended_ms, kind, f"{what}: {term.reason}" if term.reason else what)
