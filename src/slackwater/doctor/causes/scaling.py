"""Members that came to stay, members that went for good, and a number of members that goes up and down.

Rules kept here
- A client that was never there before, and comes after the start is over, is a scale-out; one that closes and does not
  come back is a scale-in.
- An autoscaler that cannot decide adds members and takes them away again, and again. A restart does it the other way
  round: the member goes first.
"""

from collections.abc import Sequence
from operator import itemgetter

from slackwater.doctor.causes.absences import Reading, Why, because, by_story
from slackwater.doctor.causes.finding import CERTAIN_ENOUGH, LIKELY, SURE, Finding, evidence, shown, unique
from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.client_timeline import Story
from slackwater.doctor.timeline.group_history import GroupHistory

CLIENT_LOG = "whether it was stopped or died: ask for the client's log"


def scale_out(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """New members that stayed."""
    went = {id(reading.story) for reading in readings}
    came = [story for story in history.arrivals if id(story) not in went]
    if not came:
        return None
    return Finding(
        cause="scale_out",
        culprits=tuple(story.name for story in came),
        times=tuple(story.terms[0].joined_ms for story in came),
        confidence=CERTAIN_ENOUGH if _named(came) and all(_seen_coming(story) for story in came) else LIKELY,
        evidence=shown(evidence(story.terms[0].began, f"{story.name} is new") for story in came),
    )


def scale_in(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Members that closed and did not come back."""
    once = [own[0] for own in by_story(readings) if len(own) == 1]
    gone = [r for r in once if r.why in (Why.CLOSED, Why.GONE_UNTOLD) and r.absence.back is None]
    if not gone:
        return None
    told = all(reading.why is Why.CLOSED for reading in gone) and _named([reading.story for reading in gone])
    return Finding(
        cause="scale_in",
        culprits=unique(reading.story.name for reading in gone),
        times=tuple(reading.left_ms for reading in gone),
        confidence=CERTAIN_ENOUGH if told else 0.6,
        evidence=shown(evidence(r.absence.evidence, f"{r.story.name} goes and does not come back") for r in gone),
        missing=() if told else (CLIENT_LOG,),
        alternatives=() if told else ("crash",),
    )


def flapping(history: GroupHistory, readings: Sequence[Reading]) -> Finding | None:
    """Newcomers that go and come, or are replaced by other newcomers that go too."""
    moves = sorted([*_comings(history), *_goings(history, readings)], key=itemgetter(0))
    runs = [move for at, move in enumerate(moves) if at == 0 or move[1] != moves[at - 1][1]]
    if len(runs) < 3 or any(story.anonymous for _, _, story, _ in moves):  # out, in, and out again, and known again
        return None
    named = _named([story for _, _, story, _ in moves])
    untold = not named or bool(because(readings, Why.LEFT_UNTOLD, Why.GONE_UNTOLD))
    logged = named and any(story.logged for _, _, story, _ in moves)
    return Finding(
        cause="autoscaler_flapping",
        culprits=unique(story.name for _, _, story, _ in moves),
        times=tuple(time for time, _, _, _ in moves),
        confidence=SURE + 0.05 if not untold else (SURE if logged else LIKELY),
        evidence=shown(
            evidence(row, f"{story.name} {'comes' if step > 0 else 'goes'}") for _, step, story, row in runs
        ),
        recurring=True,
        figures={"swings": len(runs), "period_ms": (runs[-1][0] - runs[0][0]) // max(1, len(runs) - 1)},
        alternatives=("crash_loop",) if untold else (),
        missing=(CLIENT_LOG,) if untold and not logged else (),
    )


def _named(stories: Sequence[Story]) -> bool:
    """Their names outlive their processes: a bare member id does not tell whether its process was there before."""
    return all((story.client is not None or story.instance is not None) and not story.anonymous for story in stories)


def _seen_coming(story: Story) -> bool:
    """It is known when it came; a record tells only when the round was over, and it may have come with the start."""
    began = story.terms[0].began
    return bool(story.starts) or (began is not None and began.of_broker)


_Move = tuple[int, int, Story, Row | None]


def _comings(history: GroupHistory) -> list[_Move]:
    return [(term.joined_ms, 1, story, term.began) for story in history.arrivals for term in story.terms]


def _goings(history: GroupHistory, readings: Sequence[Reading]) -> list[_Move]:
    newcomers = {id(story) for story in history.arrivals}
    return [
        (r.left_ms, -1, r.story, r.absence.evidence)
        for r in readings
        if id(r.story) in newcomers and r.why in (Why.CLOSED, Why.LEFT_UNTOLD, Why.GONE_UNTOLD)
    ]
