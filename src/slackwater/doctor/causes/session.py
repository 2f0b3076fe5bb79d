"""Sessions that ended: a process that was held still, one that died, one that dies again and again.

Rules kept here
- A session that ends while the process lives was a pause (GC, a frozen machine) or a cut network: the client notices it
  when it moves again, and comes back at once under a new id.
- A process that dies says no goodbye: its old id stays until its session ends. If it comes back sooner, its new id is
  there before the old one expires; a live process would have gone on under the old one.
- One that comes back is restarted by something; dying twice makes a loop. A clean close does not make it a clean exit:
  an exception that ends the consumer's loop closes the consumer too.
- A static member that dies and is back in time forms no generation. It is replaced, alone, again and again.
- A deploy restarts everybody about equally often; a loop is one member's (or a few members') own.
"""

from collections.abc import Sequence

from slackwater.doctor.causes.absences import Reading, Why, because, by_story, recurs
from slackwater.doctor.causes.finding import (
    CERTAIN,
    LIKELY,
    SURE,
    Evidence,
    Finding,
    evidence,
    shown,
)
from slackwater.doctor.timeline.client_timeline import NEAR_MS, Story
from slackwater.doctor.timeline.group_history import GroupHistory

CLIENT_LOG = "what the process did meanwhile (pause, crash, slow handler): ask for the client's log"


def session_expiry(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members whose process lived on while their session ended."""
    pauses = because(readings, Why.PAUSE)
    if not pauses:
        return None
    stories = _stories(pauses)
    return Finding(
        cause="kip848_session_expiry" if history.is_consumer_protocol else "session_expiry",
        culprits=tuple(story.name for story in stories),
        times=tuple(reading.left_ms for reading in pauses),
        confidence=min(max(reading.confidence for reading in pauses) + 0.1, CERTAIN),
        evidence=_evidence(pauses, "was silent for its whole session, and lived"),
        recurring=recurs(pauses),
        figures=_pause_figures(pauses),
    )


def crash_loop(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members that die and are started again, more than once."""
    newcomers = {id(story) for story in history.arrivals}
    looping: list[Reading] = []
    deploys = restarts_of_all(history, readings)
    for every in by_story(readings):
        if len(every) < 2:
            continue
        story = every[0].story
        own = because(every, Why.CRASHED, Why.CLOSED)
        if any(r.absence.overlapped for r in own):
            # It was once seen to be a new process; the expiries that nobody explains are most likely its deaths too.
            own = because(every, Why.CRASHED, Why.CLOSED, Why.EXPIRED_UNTOLD)
        died = because(own, Why.CRASHED)
        if len(own) < 2 or (id(story) in newcomers and not died):
            continue
        if died or len(own) > 2 * deploys:
            looping.extend(own)
    if not looping:
        return _static_loop(readings)
    looping.sort(key=lambda reading: reading.left_ms)
    told = [reading.confidence for reading in looping]
    fatal = any(reading.why is Why.CRASHED for reading in looping)
    return Finding(
        cause="crash_loop",
        culprits=tuple(story.name for story in _stories(looping)),
        times=tuple(reading.left_ms for reading in looping),
        confidence=min(sum(told) / len(told) + 0.1, CERTAIN) if fatal else min(max(told), SURE),
        evidence=_death_evidence(looping),
        recurring=True,
        figures=_restart_figures(looping),
        alternatives=() if fatal else ("autoscaler_flapping", "rolling_restart"),
    )


def _static_loop(readings: Sequence[Reading]) -> Finding | None:
    """One static member that is replaced by itself again and again, while no other one is."""
    swapped = replaced_alone(readings)
    if len(swapped) < 2:
        return None
    told = all(reading.absence.same_process is False for reading in swapped)
    return Finding(
        cause="crash_loop",
        culprits=(swapped[0].story.name,),
        times=tuple(reading.left_ms for reading in swapped),
        confidence=SURE if told else LIKELY,
        evidence=_death_evidence(swapped),
        recurring=True,
        figures=_restart_figures(swapped),
        missing=() if told else (CLIENT_LOG,),
        alternatives=() if told else ("instance_id_conflict", "static_restart_in_time"),
    )


def replaced_alone(readings: Sequence[Reading]) -> list[Reading]:
    """The times at which one static member came back in time; none if others did so too, as in a deploy."""
    swapped = by_story(because(readings, Why.STATIC_IN_TIME))
    return swapped[0] if len(swapped) == 1 else []


def crash(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members that died once."""
    died = [own[0] for own in by_story(because(readings, Why.CRASHED)) if len(own) == 1]
    if not died or _all_back(history, died):
        return None
    return Finding(
        cause="crash",
        culprits=tuple(story.name for story in _stories(died)),
        times=tuple(reading.left_ms for reading in died),
        confidence=max(reading.confidence for reading in died),
        evidence=_death_evidence(died),
        figures=_restart_figures(died),
        missing=() if any(r.story.logged for r in died) else (CLIENT_LOG,),
        alternatives=("session_expiry",) if any(not r.story.logged and r.absence.back is None for r in died) else (),
    )


def _all_back(history: GroupHistory, died: Sequence[Reading]) -> bool:
    """Everybody was stopped once and came back: a deploy that does not wait for the close."""
    return (
        len(died) > 1
        and all(reading.absence.back is not None for reading in died)
        and 2 * len(died) >= len(history.stories)
    )


def restarts_of_all(history: GroupHistory, readings: Sequence[Reading]) -> int:
    """How often at least half of the members (and more than one) went and came: so many deploys there were."""
    went = because(readings, Why.CLOSED, Why.CRASHED, Why.LEFT_UNTOLD)
    counts = sorted((len(own) for own in by_story(went)), reverse=True)
    half = max(2, -(-sum(1 for story in history.stories.values() if story.terms) // 2))
    return counts[half - 1] if len(counts) >= half else 0


def _stories(readings: Sequence[Reading]) -> list[Story]:
    return [own[0].story for own in by_story(readings)]


def _evidence(readings: Sequence[Reading], what: str) -> tuple[Evidence, ...]:
    lines: list[Evidence | None] = []
    for reading in readings[:2]:
        absence = reading.absence
        lines.append(evidence(absence.evidence, f"{reading.story.name} {what}"))
        told = [row for row in reading.story.lost if abs(row.time_ms - (absence.back_ms or 0)) < 2 * NEAR_MS]
        if told:
            lines.append(evidence(told[0], f"{reading.story.name} learns of it when it moves again"))
    return shown(lines)


def _death_evidence(readings: Sequence[Reading]) -> tuple[Evidence, ...]:
    lines: list[Evidence | None] = []
    for reading in readings[:2]:
        story, absence = reading.story, reading.absence
        failed = [row for row in story.failures if row.time_ms <= absence.left_ms + NEAR_MS]
        if failed:
            lines.append(evidence(failed[-1], f"{story.name} ends with an error"))
        if absence.overlapped and absence.back is not None:
            lines.append(evidence(absence.back.began, f"{story.name} asks for a new id while it still has one"))
        lines.append(evidence(absence.evidence, f"{story.name} is removed"))
        began = [
            row for row in story.starts if absence.back_ms and absence.term.joined_ms < row.time_ms <= absence.back_ms
        ]
        if began:
            lines.append(evidence(began[-1], f"{story.name} is started again"))
    return shown(lines)


def _pause_figures(pauses: Sequence[Reading]) -> dict[str, int]:
    """How long the longest silence was: the session, and what came after it until the client was back."""
    session = max((reading.story.session_ms or 0 for reading in pauses), default=0)
    told = max((row.number("duration_ms") or 0 for r in pauses for row in r.story.lost), default=0)
    away = max((reading.absence.away_ms or 0 for reading in pauses), default=0)
    figures = {"session_ms": session, "pause_ms": max(told, session + away if session else 0), "away_ms": away}
    return {name: value for name, value in figures.items() if value}


def _restart_figures(readings: Sequence[Reading]) -> dict[str, int]:
    away = [reading.absence.away_ms for reading in readings if reading.absence.away_ms]
    stays = [lasted for reading in readings if (lasted := reading.absence.term.lasted_ms())]
    figures = {"restart_ms": max(away, default=0), "uptime_ms": min(stays, default=0), "deaths": len(readings)}
    return {name: value for name, value in figures.items() if value}
