"""Planned restarts: deploys of dynamic members, of static ones in time and too late, and changes of the assignor.

Rules kept here
- A dynamic member that closes leaves, and comes back under a new id: up to two rebalances per member (KIP-345's reason
  to be). A static one keeps its place until its session ends: none, if it is back by then.
- Static members do not leave when they close: one that comes back too late was removed by its session first.
- What a member offers as assignors stands in its join. A deploy after which it offers another list is a migration.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from slackwater.doctor.causes.absences import Reading, Why, because, by_story
from slackwater.doctor.causes.finding import CERTAIN, LIKELY, SURE, Evidence, Finding, evidence, shown, unique
from slackwater.doctor.causes.session import replaced_alone
from slackwater.doctor.timeline.client_timeline import Story
from slackwater.doctor.timeline.group_history import GroupHistory

BROKER_LOG = "whether they left, or were static members that kept their places: ask for the broker's log"
ASSIGNORS = "whether the assignor was changed: ask for the clients' logs or __consumer_offsets"
STATIC: Final = ("static_restart_in_time", "static_restart_too_late")
CLIENT_LOG = "whether it was restarted or put out by its poll timer: ask for the client's log"


def rolling_restart(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members that closed and came back, each about once."""
    back = because(readings, Why.CLOSED, Why.CRASHED, Why.LEFT_UNTOLD, Why.GONE_UNTOLD)
    stories = _restarted(history, back)
    if not stories:
        return _turnover(history, back)
    wanted = {id(story) for story in stories}
    own = [reading for reading in back if id(reading.story) in wanted]
    counts = [len(one) for one in by_story(own)]
    everybody = len(stories) > 1 and 2 * len(stories) >= len(history.stories)
    if max(counts) > 1 and not (everybody and max(counts) <= 2 * min(counts)):
        return None
    told = all(reading.why in (Why.CLOSED, Why.CRASHED) for reading in own)
    if not told and not everybody:
        return None
    dynamic = _were_dynamic(history, stories)
    seen = history.is_consumer_protocol or _assignor_told(history, stories)
    confidence = (CERTAIN if everybody else SURE) if told and dynamic and seen else LIKELY
    cause = "rolling_restart"
    if migrated(history, stories):
        cause = "assignor_migration"
    elif history.is_consumer_protocol:
        cause = "kip848_rolling_restart"
    return Finding(
        cause=cause,
        culprits=tuple(story.name for story in stories),
        times=tuple(reading.left_ms for reading in own),
        confidence=min(confidence, min((r.confidence + 0.1 for r in own if r.why is Why.CLOSED), default=confidence)),
        evidence=_evidence(own),
        figures=_figures(own),
        missing=_not_told({CLIENT_LOG: told, BROKER_LOG: dynamic, ASSIGNORS: seen}),
        alternatives=(
            *(() if told else ("poll_delay",)),
            *(() if dynamic else STATIC),
            *(() if seen or cause == "assignor_migration" else ("assignor_migration",)),
        ),
    )


def _not_told(questions: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(question for question, answered in questions.items() if not answered)


def _assignor_told(history: GroupHistory, stories: Sequence[Story]) -> bool:
    """Somebody tells by which assignor the group works: a broker of Kafka 4 does not."""
    return any(story.assignors for story in stories) or bool(history.assignors)


def _were_dynamic(history: GroupHistory, stories: Sequence[Story]) -> bool:
    """Somebody tells that they left. Static members do not, and not every client's log says which it is."""
    if history.has_broker or history.has_records:
        return True
    return all(story.leaves and story.instance is None for story in stories)


def _turnover(history: GroupHistory, gone: Sequence[Reading]) -> Finding | None:
    """As many new members as went, one after another: a deploy whose processes come back under other names.

    A KIP-848 member makes its id anew with each process, and a broker's log has nothing else; a rollout may name its
    processes anew as well.
    """
    gone = [reading for reading in gone if reading.left_ms > history.settled_ms]
    left = {id(reading.story) for reading in gone}
    came = [story for story in history.arrivals if id(story) not in left]
    if len(gone) < 2 or abs(len(came) - len(gone)) > 1:
        return None
    moves = sorted([*((r.left_ms, -1) for r in gone), *((story.terms[0].joined_ms, 1) for story in came)])
    balance, widest = 0, 0
    for _, step in moves:
        balance += step
        widest = max(widest, abs(balance))
    if widest > 1 and 2 * widest > len(gone):
        return None  # all went, then all came (or the other way round): the group was scaled
    return Finding(
        cause="kip848_rolling_restart" if history.is_consumer_protocol else "rolling_restart",
        culprits=unique(r.story.name for r in gone),
        times=tuple(time for time, _ in moves),
        confidence=LIKELY,
        evidence=_evidence(gone),
        figures={"restarts": len(gone)},
        missing=("which process came back as which: ask for __consumer_offsets or the clients' logs",),
        alternatives=("scale_out", "scale_in"),
    )


def static_restart(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Static members that came back, in time or too late."""
    late = because(readings, Why.STATIC_LATE)
    untold = [r for r in because(readings, Why.EXPIRED_UNTOLD) if r.story.instance is not None]
    if len({reading.story.name for reading in untold}) > 1 or late:
        late = sorted([*late, *untold], key=lambda reading: reading.left_ms)
    in_time = because(readings, Why.STATIC_IN_TIME)
    own = late or in_time
    if not own or (not late and len(replaced_alone(readings)) > 1):
        return None  # one that is replaced again and again, and no other, is no deploy
    told = all(reading.why is not Why.EXPIRED_UNTOLD for reading in own)
    names = unique(reading.story.name for reading in own)
    # Whether the process that was replaced was gone, a record does not tell.
    alone = not late and len(own) == 1 and not (history.has_broker or history.has_clients)
    return Finding(
        cause="static_restart_too_late" if late else "static_restart_in_time",
        culprits=names,
        times=tuple(reading.left_ms for reading in own),
        confidence=min(LIKELY if alone or not told else CERTAIN, max(r.confidence for r in own) if told else LIKELY),
        evidence=_evidence(own),
        figures=_figures(own),
        missing=() if told and not alone else (CLIENT_LOG,),
        alternatives=("instance_id_conflict",) if alone else () if told else ("session_expiry",),
    )


def migrated(history: GroupHistory, stories: Sequence[Story]) -> bool:
    """The members that were restarted offer other assignors than before, or the group chose another."""
    changed = 0
    for story in stories:
        offered = [frozenset(assignors) for _, assignors in story.assignors]
        # A setting names classes, a join what they are offered as: the two are not compared.
        classes = {one for one in offered if any(name != name.lower() for name in one)}
        changed += len(classes) > 1 or len(set(offered) - classes) > 1
    return changed > 0 or any(len(names) > 1 for names in history.assignors.values())


def _restarted(history: GroupHistory, readings: Sequence[Reading]) -> list[Story]:
    """Those who went and came back."""
    back = {id(reading.story) for reading in readings if reading.absence.back is not None}
    return [story for story in history.stories.values() if id(story) in back]


def _evidence(readings: Sequence[Reading]) -> tuple[Evidence, ...]:
    lines: list[Evidence | None] = []
    for reading in readings[:2]:
        absence = reading.absence
        lines.append(evidence(absence.evidence, f"{reading.story.name} goes ({absence.end})"))
        if absence.back is not None:
            lines.append(evidence(absence.back.began, f"{reading.story.name} comes back as a new member"))
    return shown(lines)


def _figures(readings: Sequence[Reading]) -> dict[str, int]:
    away = max((reading.absence.away_ms or 0 for reading in readings), default=0)
    session = max((reading.story.session_ms or 0 for reading in readings), default=0)
    figures = {"restart_ms": away, "session_ms": session, "restarts": len(readings)}
    return {name: value for name, value in figures.items() if value}
