"""Parts of a verdict as sentences, the same in the text and on the page."""

import re
from collections.abc import Sequence
from typing import Final

from slackwater.doctor.causes.eager import STOP_THE_WORLD
from slackwater.doctor.causes.finding import Finding
from slackwater.doctor.causes.rules import CAUSES
from slackwater.doctor.events.times import is_dated, shown_time
from slackwater.doctor.headlines import headline
from slackwater.doctor.phrases import plural, shown_names
from slackwater.doctor.prescriptions.numbers import measured
from slackwater.doctor.timeline.rebalances import MIN_STORM_REBALANCES
from slackwater.doctor.verdict import Verdict

_CHECKS: Final = {
    "crash_loop": "look at the exit codes and restart counts of the processes",
    "crash": "look at the exit code of the process and at the end of its log",
    "session_expiry": "look for pauses: GC log, CPU throttling",
    "poll_delay": "look for max.poll.interval.ms in the client's log",
    "instance_id_conflict": "look for a second process with this group.instance.id",
    "shared_group_id": "compare the topics that the members read",
    "autoscaler_flapping": "look at the decisions of the autoscaler",
    "rolling_restart": "look at the times of deploys",
    "static_restart_in_time": "look at the times of deploys",
    "coordinator_restart": "look at the start time of the broker",
    "coordinator_unreachable": "connect from the client's machine to the address of the coordinator",
    "scale_in": "look at the configured number of processes",
    "scale_out": "look at the configured number of processes",
}
"""Where to look for a cause that the input does not exclude."""
_CHANGED: Final = frozenset(
    {"rolling_restart", "kip848_rolling_restart", "static_restart_in_time", "scale_out", "scale_in", "startup_herd"}
)
"""Changes of members: the verdict names those that came or left, not who changed them."""
NO_BREAK: Final = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT: Final = re.compile(
    r"(?<=\d) (?=(?:ms|s|min|h|of|times|more|rebalances?|changes?|members?)\b|%)|(?<=confidence) (?=\d)"
)
"""Spaces after a number where no line ends."""
_PAUSE_MS: Final = 60_000
"""A recurring incident can go on after a pause of this length."""


def with_units(text: str) -> str:
    """Return a text in which every number stays on the line of its unit."""
    return _BEFORE_UNIT.sub(NO_BREAK, text)


def explanation(verdict: Verdict) -> str:
    """Return what the cause of a verdict means."""
    if verdict.figures.get("handler_blocks"):
        return "a handler blocks heartbeats for longer than session.timeout.ms"
    if verdict.figures.get("rejoined_late"):
        return "a busy poll loop delays the rebalance"
    return CAUSES[verdict.cause].summary


def relation(verdict: Verdict) -> str:
    """Return how the culprits are related to the cause."""
    if verdict.cause in _CHANGED:
        return "members"
    return "rebalances triggered by" if verdict.cause == "shared_group_id" else "caused by"


def recurrence(verdict: Verdict) -> str:
    """Return whether the cause recurs, and whether that made a storm of rebalances; empty if it does not."""
    if not verdict.is_storm:
        return ""
    return "a rebalance storm" if verdict.rebalances >= MIN_STORM_REBALANCES else "it recurs"


def also_found(verdict: Verdict, finding: Finding) -> str:
    """Return another finding of a group with its members and its figures."""
    if finding.cause == STOP_THE_WORLD:
        stopped = finding.figures.get("stopped_ms", 0)
        how_long = (
            f", {measured(stopped)} in {plural(finding.figures.get('rounds', 1), 'rebalance')}" if stopped else ""
        )
        return f"every rebalance stops all members (eager protocol){how_long}"
    text, figures = CAUSES[finding.cause].summary, headline(finding, verdict.rebalances)
    if finding.culprits and finding.culprits[0] not in figures:
        text += f" (caused by {shown_names(finding.culprits)})"
    text += f": {figures}"
    if verdict.cause == "instance_id_conflict" and set(finding.culprits) <= set(verdict.culprits):
        text += " (most likely the same problem: two processes that replace each other look like that)"
    return text


def order_of_advice(verdict: Verdict) -> str:
    """Return how to follow the prescriptions: with a second cause, the first one that helps may not be enough."""
    is_single = all(finding.cause == STOP_THE_WORLD for finding in verdict.other_findings)
    return "what to do; try in this order, stop when it helps" if is_single else "what to do, in this order"


def other_causes(verdict: Verdict) -> Sequence[str]:
    """Return the other possible causes, each with what would show it."""
    return [f"{cause} ({_CHECKS[cause]})" if cause in _CHECKS else cause for cause in verdict.alternatives]


def incident_time(verdict: Verdict, verdicts: Sequence[Verdict]) -> str:
    """Return when the incident was, compared with the end of the input; empty if its times are unknown."""
    began, ended = (
        shown_time(time_ms).partition(".")[0] for time_ms in (verdict.incident_began_ms, verdict.incident_ended_ms)
    )
    if not began:
        return ""
    date, _, clock = ended.rpartition(" ")
    until = clock if began.startswith(date) else ended
    zone = " UTC" if is_dated(verdict.incident_ended_ms) else ""
    spanned = f"{began}{zone}" if began == ended else f"{began} to {until}{zone}"
    input_ended_ms = max((other.ended_ms for other in verdicts if other.cluster == verdict.cluster), default=0)
    later_ms = max(input_ended_ms, verdict.ended_ms) - verdict.incident_ended_ms
    if later_ms < 1_000:
        text = f"{spanned}; no later line about any group"
    else:
        text = f"{spanned}; the last line about any group is {measured(later_ms)} later"
    return f"{text}: it may still be going on" if verdict.is_storm and later_ms <= _PAUSE_MS else text
