"""Why a member went: each end of a term read by itself, before a cause is made of several.

Rules kept here
- The leave's own reason, where the client gave one (KIP-800), is the client's word and decides.
- A member that left and came back in the same process was put out by its own poll timer: nothing else makes a live
  consumer leave and rejoin. (`unsubscribe` and `subscribe` again would, and says so in its reason.)
- A session that ended while the process lived on was a pause or a network that was cut; a session that ended because
  the process did was a crash. Whose log shows a start in between knows.
- A leave sooner after the last rejoin than max.poll.interval.ms cannot be the poll timer's: rejoining is done in
  poll(). Of a classic member the broker knows that length as its rebalance timeout.
- A library that heartbeats between messages only (kafkajs) expires while its handler works. It hears so again and
  again before it rejoins, or never sends a first heartbeat after its assignment, whenever it comes back; a pause does
  neither.
- Ends of terms around a coordinator's outage are the outage's.
- Members that fall silent in the very round that a change of their topics began (or all together after a topic of
  theirs went) did not die by chance: some clients hang over such a change.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, UNSURE
from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.events import signals
from slackwater.doctor.events.rows import within
from slackwater.doctor.timeline.client_timeline import NEAR_MS, Absence, Story
from slackwater.doctor.timeline.cluster_history import Outage
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.membership_intervals import End

POLL_MARGIN: Final = 0.5
"""A leave within this part of the limit is no poll timer's, even where a library sends another rebalance timeout."""
DOUBTFUL: Final = 0.65
"""A client that only hears that it is no member: it may have been silent, or its handler kept it from heartbeating."""
_FIRST_BEAT: Final = 1.15
"""Libraries heartbeat three or more times in a session: one that was renewed once ends later than this part of it."""
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
    TOPIC_CHANGED = "topic_changed"
    ADMIN = "admin"
    LEFT_UNTOLD = "left_untold"
    EXPIRED_UNTOLD = "expired_untold"
    GONE_UNTOLD = "gone_untold"


# An enum's member is looked up by code of Python's: those that are asked for in every absence are so once.
_POLL: Final = Why.POLL
_PAUSE: Final = Why.PAUSE
_CLOSED: Final = Why.CLOSED
_CRASHED: Final = Why.CRASHED
_EXPIRED: Final = End.EXPIRED
_UNTOLD: Final = (Why.EXPIRED_UNTOLD, UNSURE)


class Reading(NamedTuple):
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
    found = _topics_changed(history, [_read(history, absence, formed) for absence in history.absences], formed)
    # KIP-848 is younger than the libraries that heartbeat between messages, and its session is the broker's to set.
    return found if history.is_consumer_protocol else _between_messages(found, formed)


def because(readings: Iterable[Reading], *whys: Why) -> list[Reading]:
    """The readings with one of these whys."""
    return [reading for reading in readings if reading.why in whys]


def by_story(readings: Iterable[Reading]) -> list[list[Reading]]:
    """The readings of each story, the stories in the order in which they come up."""
    found: dict[int, list[Reading]] = {}
    for reading in readings:
        found.setdefault(id(reading.absence.story), []).append(reading)
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


def _between_messages(found: list[Reading], formed: list[int]) -> list[Reading]:
    """A client that was seen to heartbeat only between messages does so always: its silences are its handler's."""
    busy: set[int] = set()
    if all(r.why is not _POLL and r.why is not _PAUSE for r in found):
        return found  # nobody was seen to live on
    for own in by_story(r for r in found if r.absence.end is _EXPIRED and _lives(r)):
        at_once = [r for r in own if _silent_at_once(r.absence, formed)]
        if any(r.why is _POLL for r in own) or (len(at_once) > 1 and any(r.why is _PAUSE for r in own)):
            busy |= {id(r) for r in own}
    return [r._replace(why=_POLL) if id(r) in busy else r for r in found]


def _lives(reading: Reading) -> bool:
    """Its process lived on, or the history ends before that can be told."""
    unknown = reading.why is _CRASHED and reading.absence.back is None and not _died(reading.absence)
    return unknown or reading.why in (_POLL, _PAUSE)


def _silent_at_once(absence: Absence, formed: list[int]) -> bool:
    """It did not send one heartbeat after it had its assignment: the session that began with it was never renewed."""
    if absence.evidence is None or not absence.evidence.of_broker:
        return False  # only the coordinator knows when the session ended
    session, stayed = absence.story.session_ms, _since_rejoin(absence, formed)
    return session is not None and stayed is not None and stayed < _FIRST_BEAT * session


def _topics_changed(history: GroupHistory, found: list[Reading], formed: list[int]) -> list[Reading]:
    """Those who fell silent in the round that a change of their topics began fell silent because of that."""
    changes = [one for one in history.cluster.topic_changes if one.topic in history.topics_read]
    went = sorted(one.time_ms for one in changes if one.kind == signals.DELETED)
    other = sorted(
        [
            *(one.time_ms for one in changes if one.time_ms > history.settled_ms),
            *(at for story in history.stories.values() for at, _ in story.topics if at > history.settled_ms),
        ]
    )
    if not went and not other:
        return found
    ended = [r for r in found if r.absence.end is _EXPIRED and r.absence.back is None]
    together = len(ended) > 1 and ended[-1].left_ms - ended[0].left_ms <= NEAR_MS
    all_went = together and all(term.ended_ms is not None for term in history.terms)
    silent = set()
    for reading in ended:
        since = reading.left_ms - 2 * (reading.story.session_ms or SESSION_TIMEOUT_MS)
        times = went if all_went else other if _silent_at_once(reading.absence, formed) else []
        if bisect_right(times, reading.left_ms) > bisect_right(times, since):
            silent.add(id(reading))
    return [r._replace(why=Why.TOPIC_CHANGED, confidence=SURE) if id(r) in silent else r for r in found]


def _read(history: GroupHistory, absence: Absence, formed: list[int]) -> Reading:
    why, confidence = _why(history, absence, formed)
    return Reading(absence, why, confidence)


def _why(history: GroupHistory, absence: Absence, formed: list[int]) -> tuple[Why, float]:
    if absence.term.by_admin:
        return Why.ADMIN, CERTAIN
    if signals.is_poll_reason(absence.term.reason) or _overran(history, absence):
        return _POLL, CERTAIN
    if history.outages and outage_of(history, absence.left_ms, absence.story.session_ms) is not None:
        return Why.FAILOVER, SURE
    return _BY_END[absence.end](absence, formed)


def _overran(history: GroupHistory, absence: Absence) -> bool:
    until = absence.left_ms + NEAR_MS
    if absence.story.anonymous:
        # Somebody with its client id says so, just when it leaves.
        said = history.overruns_by_client.get(absence.story.client or "", [])
        return bool(within(said, absence.left_ms - NEAR_MS, until))
    since = min(absence.left_ms - NEAR_MS, absence.term.joined_ms)
    return bool(within(absence.story.overruns, since, until))


def _left(absence: Absence, formed: list[int]) -> tuple[Why, float]:
    if _came_back_static(absence):
        return Why.STATIC_IN_TIME, SURE
    if signals.is_close_reason(absence.term.reason):
        return (_CRASHED if _failed(absence) else _CLOSED), CERTAIN
    if absence.same_process is True:
        return _POLL, SURE
    if absence.story.anonymous and absence.back is None:
        return Why.LEFT_UNTOLD, UNSURE
    if absence.same_process is False or absence.back is None:
        return (_CRASHED if _failed(absence) else _CLOSED), SURE
    limit = absence.story.limit_ms
    stayed = _since_rejoin(absence, formed)
    if limit is not None and stayed is not None and stayed < POLL_MARGIN * limit:
        return _CLOSED, LIKELY
    return Why.LEFT_UNTOLD, UNSURE


def _came_back_static(absence: Absence) -> bool:
    """A KIP-848 static member that closes leaves for a while, and its place is kept (epoch -2)."""
    return (
        absence.term.ended is not None and absence.term.ended.text("why") == "temporarily" and absence.back is not None
    )


def _expired(absence: Absence, formed: list[int]) -> tuple[Why, float]:
    if absence.same_process is True:
        return (_POLL, SURE) if _busy(absence) else (_PAUSE, SURE if _seen_silent(absence) else DOUBTFUL)
    static = absence.term.instance is not None
    if absence.back is None and absence.term.ended is not None and absence.term.ended.of_client:
        return _PAUSE, LIKELY  # it tells so itself, so it lives
    if absence.same_process is False:
        return (Why.STATIC_LATE if static and not _failed(absence) else _CRASHED), SURE
    if absence.back is None and not absence.story.anonymous:
        # Its log tells a process that died from one that hangs, or was cut off: the one says nothing more.
        if absence.story.logged and absence.story.said_ms[-1] > absence.left_ms and not _died(absence):
            return _PAUSE, LIKELY
        return _CRASHED, (SURE if absence.story.logged and not static else LIKELY)
    return _UNTOLD


def _seen_silent(absence: Absence) -> bool:
    """The coordinator tells when its session ended, or it says itself that it was silent for that long."""
    if absence.evidence is None or absence.evidence.of_broker:
        return True
    until = absence.back_ms or absence.left_ms
    told = within(absence.story.lost, absence.left_ms - NEAR_MS, until)
    return any(signals.is_timed_out(row) for row in told)


def _died(absence: Absence) -> bool:
    """Its log shows the process's end, or that it was started again (and perhaps never got as far as joining)."""
    started = absence.story.starts
    return _failed(absence) or bool(started and started[-1].time_ms > absence.term.joined_ms)


def _dropped(absence: Absence, formed: list[int]) -> tuple[Why, float]:
    """It did not rejoin within its rebalance timeout: its poll loop was held up that long, or the process was gone."""
    if absence.same_process is False or absence.back is None:
        return _CRASHED, LIKELY
    return _POLL, (SURE if absence.same_process else LIKELY)


def _gone(absence: Absence, formed: list[int]) -> tuple[Why, float]:
    if absence.same_process is True and (_left_by_itself(absence) or _busy(absence)):
        return _POLL, SURE
    if absence.same_process is True and absence.story.lost:
        return _PAUSE, LIKELY
    if absence.same_process is False and absence.term.instance is not None and absence.back is not None:
        # A static member that is back in time finds the generation it left.
        kept = absence.term.last_generation is not None and absence.term.last_generation == absence.back.last_generation
        return (Why.STATIC_IN_TIME if kept else Why.STATIC_LATE), LIKELY
    if absence.same_process is False and absence.story.logged:
        closed = absence.story.leaves or within(absence.story.closes, absence.term.joined_ms, absence.left_ms)
        return (_CRASHED if _failed(absence) or not closed else _CLOSED), LIKELY
    return Why.GONE_UNTOLD, UNSURE  # of another process: whether the first one closed or died, a record does not tell


def _busy(absence: Absence) -> bool:
    """Told that it is no member, it went on for a while before it rejoined.

    A client that was paused rejoins as soon as it hears of it. One that only heartbeats and rejoins between messages
    (kafkajs; any client whose poll loop is held up) hears it again and again, and the handler goes on.
    """
    back = absence.back
    if back is None:
        return False
    told = within(absence.story.lost, absence.left_ms - NEAR_MS, back.joined_ms)
    return bool(told) and back.joined_ms - told[0].time_ms > (absence.story.session_ms or NEAR_MS)


def _left_by_itself(absence: Absence) -> bool:
    """Its log has a leave in this term."""
    until = absence.back_ms or absence.left_ms
    return bool(within(absence.story.leaves, absence.term.joined_ms + 1, until))


def _failed(absence: Absence) -> bool:
    """Its log shows an error that ended the process, in this term."""
    until = absence.left_ms + NEAR_MS
    errors = within(absence.story.failures, absence.term.joined_ms + 1, until)
    return any(_was_the_end(absence, row.time_ms) for row in errors)


def _was_the_end(absence: Absence, error_ms: int) -> bool:
    """After the error its log tells of no more than the end: a client that goes on has caught it."""
    story = absence.story
    restarts = (row.time_ms for row in story.starts if row.time_ms > error_ms)
    until = min(next(restarts, absence.left_ms), absence.left_ms)
    return not story.said_between(error_ms + NEAR_MS, until - 1)


def _since_rejoin(absence: Absence, formed: list[int]) -> int | None:
    at = bisect_right(formed, absence.left_ms - 1)
    if at == 0:
        return None
    return absence.left_ms - max(formed[at - 1], absence.term.joined_ms)


def _replaced(absence: Absence, formed: list[int]) -> tuple[Why, float]:
    return Why.STATIC_IN_TIME, CERTAIN


_BY_END: Final[Mapping[End, Callable[[Absence, list[int]], tuple[Why, float]]]] = {
    End.REPLACED: _replaced,
    End.LEFT: _left,
    End.EXPIRED: _expired,
    End.DROPPED: _dropped,
    End.UNSYNCED: _dropped,
    End.GONE: _gone,
}
