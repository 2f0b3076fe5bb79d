"""Why a member went: each end of a term read by itself, before a cause is made of several.

Rules kept here
- The leave's own reason, where the client gave one (KIP-800), is the client's word and decides.
- A member that left and came back in the same process was put out by its own poll timer: nothing else makes a live
  consumer leave and rejoin. (`unsubscribe` and `subscribe` again would, and says so in its reason.)
- A session that ended while the process lived on was a pause or a network that was cut; a session that ended because
  the process did was a crash. Whose log shows a start in between knows.
- A leave sooner after the last rejoin than max.poll.interval.ms cannot be the poll timer's: rejoining is done in
  poll(). Of a classic member the broker knows that length as its rebalance timeout.
- Ends of terms around a coordinator's outage are the outage's.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slackwater.doctor import signals
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, UNSURE
from slackwater.doctor.cluster_history import Outage
from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.history import NEAR_MS, Absence, GroupHistory, Story
from slackwater.doctor.rows import within
from slackwater.doctor.terms import End

POLL_MARGIN: Final = 0.5
"""A leave within this part of the limit is no poll timer's, even where a library sends another rebalance timeout."""
FAILOVER_ROUNDS: Final = 2
"""An old id expires one session after the coordinator is back; another for the round that follows."""


class Why(StrEnum):
    """Why a member went."""

    POLL = "poll"
    PAUSE = "pause"
    CLOSED = "closed"
    CRASHED = "crashed"
    STATIC_IN_TIME = "static_in_time"
    STATIC_LATE = "static_late"
    FAILOVER = "failover"
    ADMIN = "admin"
    LEFT_UNTOLD = "left_untold"
    EXPIRED_UNTOLD = "expired_untold"
    GONE_UNTOLD = "gone_untold"


@dataclass(frozen=True, slots=True)
class Reading:
    """An absence with its why."""

    absence: Absence
    why: Why
    confidence: float

    @property
    def story(self) -> Story:
        """Whose absence it is."""
        return self.absence.story

    @property
    def left_ms(self) -> int:
        """When the member went."""
        return self.absence.left_ms


def read_absences(history: GroupHistory) -> list[Reading]:
    """Every absence with its why, in order of time."""
    formed = sorted(one.time_ms for one in history.generations)
    return [_read(history, absence, formed) for absence in history.absences]


def by_story(readings: Iterable[Reading]) -> list[list[Reading]]:
    """The readings of each story, the stories in the order in which they come up."""
    found: dict[int, list[Reading]] = {}
    for reading in readings:
        found.setdefault(id(reading.story), []).append(reading)
    return list(found.values())


def recurs(readings: Iterable[Reading]) -> bool:
    """Somebody went more than once."""
    return any(len(own) > 1 for own in by_story(readings))


def outage_of(history: GroupHistory, time_ms: int, session_ms: int | None) -> Outage | None:
    """The outage that something at this time belongs to."""
    after = FAILOVER_ROUNDS * (session_ms or SESSION_TIMEOUT_MS)
    for outage in history.outages:
        began = outage.ended_ms - after if outage.began_ms is None else outage.began_ms
        if began - NEAR_MS <= time_ms <= outage.ended_ms + after:
            return outage
    return None


def _read(history: GroupHistory, absence: Absence, formed: list[int]) -> Reading:
    why, confidence = _why(history, absence, formed)
    return Reading(absence, why, confidence)


def _why(history: GroupHistory, absence: Absence, formed: list[int]) -> tuple[Why, float]:
    if absence.term.by_admin:
        return Why.ADMIN, CERTAIN
    if signals.is_poll_reason(absence.term.reason) or _overran(absence):
        return Why.POLL, CERTAIN
    if outage_of(history, absence.left_ms, absence.story.session_ms()) is not None:
        return Why.FAILOVER, SURE
    match absence.end:
        case End.REPLACED:
            return Why.STATIC_IN_TIME, CERTAIN
        case End.LEFT:
            return _left(absence, formed)
        case End.EXPIRED:
            return _expired(absence)
        case End.DROPPED | End.UNSYNCED:
            return _dropped(absence)
        case _:
            return _gone(absence)


def _overran(absence: Absence) -> bool:
    until = absence.left_ms + NEAR_MS
    since = min(absence.left_ms - NEAR_MS, absence.term.joined_ms)
    return bool(within(absence.story.overruns, since, until))


def _left(absence: Absence, formed: list[int]) -> tuple[Why, float]:
    if _came_back_static(absence):
        return Why.STATIC_IN_TIME, SURE
    if signals.is_close_reason(absence.term.reason):
        return (Why.CRASHED if _failed(absence) else Why.CLOSED), CERTAIN
    if absence.same_process is True:
        return Why.POLL, SURE
    if absence.same_process is False or absence.back is None:
        return (Why.CRASHED if _failed(absence) else Why.CLOSED), SURE
    limit = absence.story.limit_ms()
    stayed = _since_rejoin(absence, formed)
    if limit is not None and stayed is not None and stayed < POLL_MARGIN * limit:
        return Why.CLOSED, LIKELY
    return Why.LEFT_UNTOLD, UNSURE


def _came_back_static(absence: Absence) -> bool:
    """A KIP-848 static member that closes leaves for a while, and its place is kept (epoch -2)."""
    return (
        absence.term.ended is not None and absence.term.ended.text("why") == "temporarily" and absence.back is not None
    )


def _expired(absence: Absence) -> tuple[Why, float]:
    if absence.same_process is True:
        return (Why.POLL, SURE) if _busy(absence) else (Why.PAUSE, SURE)
    static = absence.term.instance is not None
    if absence.back is None and absence.term.ended is not None and absence.term.ended.of_client:
        return Why.PAUSE, LIKELY  # it tells so itself, so it lives
    if absence.same_process is False:
        return (Why.STATIC_LATE if static and not _failed(absence) else Why.CRASHED), SURE
    if absence.back is None:
        return Why.CRASHED, (LIKELY if static else SURE)
    return Why.EXPIRED_UNTOLD, UNSURE


def _dropped(absence: Absence) -> tuple[Why, float]:
    """It did not rejoin within its rebalance timeout: its poll loop was held up that long, or the process was gone."""
    if absence.same_process is False or absence.back is None:
        return Why.CRASHED, LIKELY
    return Why.POLL, (SURE if absence.same_process else LIKELY)


def _gone(absence: Absence) -> tuple[Why, float]:
    if absence.same_process is True and (_left_by_itself(absence) or _busy(absence)):
        return Why.POLL, SURE
    if absence.same_process is True and absence.story.lost:
        return Why.PAUSE, LIKELY
    if absence.same_process is False and absence.term.instance is not None and absence.back is not None:
        # A static member that is back in time finds the generation it left.
        kept = absence.term.last_generation is not None and absence.term.last_generation == absence.back.last_generation
        return (Why.STATIC_IN_TIME if kept else Why.STATIC_LATE), LIKELY
    if absence.same_process is False:
        return (Why.CRASHED if _failed(absence) or not absence.story.leaves else Why.CLOSED), LIKELY
    return Why.GONE_UNTOLD, UNSURE


def _busy(absence: Absence) -> bool:
    """Told that it is no member, it went on for a while before it rejoined.

    A client that was paused rejoins as soon as it hears of it. One that only heartbeats and rejoins between messages
    (kafkajs; any client whose poll loop is held up) hears it again and again, and the handler goes on.
    """
    back = absence.back
    if back is None:
        return False
    told = within(absence.story.lost, absence.left_ms - NEAR_MS, back.joined_ms)
    return bool(told) and back.joined_ms - told[0].time_ms > (absence.story.session_ms() or NEAR_MS)


def _left_by_itself(absence: Absence) -> bool:
    """Its log has a leave in this term."""
    until = absence.back_ms or absence.left_ms
    return bool(within(absence.story.leaves, absence.term.joined_ms + 1, until))


def _failed(absence: Absence) -> bool:
    """Its log shows an error that ended the process, in this term."""
    until = absence.left_ms + NEAR_MS
    return bool(within(absence.story.failures, absence.term.joined_ms + 1, until))


def _since_rejoin(absence: Absence, formed: list[int]) -> int | None:
    at = bisect_right(formed, absence.left_ms - 1)
    if at == 0:
        return None
    return absence.left_ms - max(formed[at - 1], absence.term.joined_ms)
