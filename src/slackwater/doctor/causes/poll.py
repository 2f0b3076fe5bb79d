"""Poll delay: a member that did not call poll() within max.poll.interval.ms.

Rules kept here
- The client puts itself out (its own timer), so its log and its leave's reason know; the broker only sees a leave.
- The first one is the culprit. A member that kept up before, and whose own late poll began only after the first was
  put out, was overloaded by the partitions it inherited: it is secondary. One that was late at the same time, or that
  never kept up, is a culprit of its own (a slow downstream, or too little capacity).
- A member that leaves exactly a poll limit after each rejoin, again and again, is most likely put out by its timer,
  even where nobody says so.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from slackwater.doctor.causes.absences import Reading, Why, because, by_story
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, Evidence, Finding, evidence, shown
from slackwater.doctor.timeline.client_timeline import NEAR_MS, Story
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import End

SUBSCRIPTIONS: Final = (
    "whether all members read the same topics (a group id shared by two services): "
    "ask for the clients' logs or __consumer_offsets"
)
_AT_THE_LIMIT: Final = 1.25
"""A timer fires at its limit; a quarter more leaves room for the join that came before the first poll."""


def poll_delay(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members that were put out by their poll timer."""
    kicks = _kicks(history, readings)
    if not kicks:
        return None
    culprits, secondary = _told_apart(kicks, sorted(one.time_ms for one in history.generations))
    sure = any(story.overruns for story, _ in kicks) or any(
        reading.confidence >= CERTAIN for reading in because(readings, Why.POLL)
    )
    knows_topics = all(story.topics for story in culprits) and sum(bool(s.topics) for s in history.stories.values()) > 1
    confidence = max((r.confidence for r in because(readings, Why.POLL)), default=LIKELY)
    confidence = CERTAIN if sure else confidence
    return Finding(
        cause="kip848_poll_delay" if history.is_consumer_protocol else "poll_delay",
        culprits=tuple(story.name for story in culprits),
        secondary=tuple(story.name for story in secondary),
        times=tuple(sorted(time for _, times in kicks for time in times)),
        confidence=confidence if knows_topics else min(confidence, LIKELY),
        evidence=_evidence(culprits, readings),
        recurring=any(len(times) > 1 for _, times in kicks),
        figures=_figures(culprits, readings),
        missing=() if knows_topics else (SUBSCRIPTIONS,),
    )


def at_the_limit(stays_ms: Iterable[int], limit_ms: int | None) -> bool:
    """Every stay lasted a poll limit and not much longer."""
    stays = list(stays_ms)
    if limit_ms is None or not stays:
        return False
    return all(limit_ms - NEAR_MS / 2 <= stay <= _AT_THE_LIMIT * limit_ms + NEAR_MS for stay in stays)


def _kicks(history: GroupHistory, readings: Sequence[Reading]) -> list[tuple[Story, list[int]]]:
    """Per member, when it was put out; the client's word for it and the coordinator's are one kick."""
    found = []
    put_out = {id(own[0].story): own for own in by_story(because(readings, Why.POLL))}
    if not put_out and not any(story.overruns for story in history.stories.values()):
        return []
    told = {story.client for story in history.stories.values() if story.overruns and not story.anonymous}
    for story in history.stories.values():
        if story.anonymous and story.client in told:
            continue  # whose log says so has a name, and counts for it
        left = [reading.left_ms for reading in put_out.get(id(story), ())]
        said = _apart((row.time_ms for row in story.overruns), story.limit_ms or NEAR_MS) if story.overruns else []
        if left or said:
            found.append((story, left if len(left) >= len(said) else said))
    return sorted(found, key=lambda one: one[1][0])


def _apart(times: Iterable[int], gap_ms: int) -> list[int]:
    """Times without those that follow another too closely to be a kick of their own."""
    kept: list[int] = []
    for time in times:
        if not kept or time - kept[-1] >= min(gap_ms, NEAR_MS):
            kept.append(time)
    return kept


def _told_apart(kicks: Sequence[tuple[Story, list[int]]], formed: Sequence[int]) -> tuple[list[Story], list[Story]]:
    first, first_times = kicks[0]
    culprits: list[Story] = [first]
    secondary: list[Story] = []
    for story, times in kicks[1:]:
        limit = story.limit_ms or first.limit_ms or 0
        began_late = times[0] - limit  # when the poll began that took too long
        inherited = limit > 0 and began_late >= first_times[0]
        (secondary if inherited and _kept_up(story, formed, first_times[0], limit) else culprits).append(story)
    return culprits, secondary


def _kept_up(story: Story, formed: Sequence[int], before_ms: int, limit_ms: int) -> bool:
    """It was a member for longer than the limit before the first kick, and was not put out in that time."""
    for term in story.terms:
        until = before_ms if term.ended_ms is None else min(term.ended_ms, before_ms)
        at = bisect_left(formed, term.joined_ms)  # it has nothing to do before its first generation
        if at < len(formed) and until - formed[at] > limit_ms:
            return True
    return False


def _evidence(culprits: Sequence[Story], readings: Sequence[Reading]) -> tuple[Evidence, ...]:
    lines: list[Evidence | None] = []
    for story in culprits:
        if story.overruns:
            lines.append(evidence(story.overruns[0], f"{story.name} polled later than its max.poll.interval.ms allows"))
        kick = next((r for r in because(readings, Why.POLL) if r.story is story), None)
        if kick is not None:
            lines.append(evidence(kick.absence.evidence, f"{story.name} {_how(kick)}"))
        back = kick.absence.back if kick is not None else None
        if back is not None:
            lines.append(evidence(back.began, f"{story.name} came back"))
    return shown(lines)


def _how(kick: Reading) -> str:
    match kick.absence.end:
        case End.EXPIRED:
            return "expired while its handler was busy: it only heartbeats between messages"
        case End.DROPPED:
            return "did not rejoin in time: its poll loop was held up for longer than a round may take"
        case _:
            return "left the group, put out by its poll timer"


def _figures(culprits: Sequence[Story], readings: Sequence[Reading]) -> dict[str, int]:
    """How long the longest batch took: the limit, and what was left of the work when the timer fired."""
    limit = max((story.limit_ms or 0 for story in culprits), default=0)
    over = max((row.number("over_ms") or 0 for story in culprits for row in story.overruns), default=0)
    names = {id(story) for story in culprits}
    away = max(
        (r.absence.away_ms or 0 for r in because(readings, Why.POLL) if id(r.story) in names),
        default=0,
    )
    figures = {"limit_ms": limit, "longest_ms": limit + max(over, away)} if limit else {"over_ms": max(over, away)}
    records = next((int(value) for s in culprits if (value := s.settings.get("max.poll.records", "")).isdigit()), 0)
    figures["poll_records"] = records
    if any(r.absence.end is End.EXPIRED for r in because(readings, Why.POLL) if id(r.story) in names):
        # Its heartbeats wait for the handler, so the session is what it must stay within.
        figures["handler_blocks"] = 1
        figures["session_ms"] = max((story.session_ms or 0 for story in culprits), default=0)
        figures["handler_ms"] = figures["session_ms"] + away if figures["session_ms"] else 0
    return {name: value for name, value in figures.items() if value}
