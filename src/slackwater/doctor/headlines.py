"""The headline of a verdict: one line with the figures that decide it.

Invariants:
- Only measured figures are in a headline; without a figure, its clause is left out.
- A rule whose finding the figures cannot describe writes its own headline.
"""

from collections.abc import Callable, Mapping
from typing import Final

from slackwater.doctor.causes.finding import Finding
from slackwater.doctor.phrases import count_of, plural, shown_names
from slackwater.doctor.prescriptions.numbers import measured, seconds


def headline(finding: Finding, rebalances: int) -> str:
    """Return the line that states a finding with its figures."""
    if finding.headline:
        return finding.headline
    describe = _DESCRIBE.get(finding.cause.removeprefix("kip848_"), _unknown)
    return describe(finding, rebalances)


def no_action(finding: Finding, *, is_stable: bool) -> str:
    """Return why nothing is to be done about an expected change; empty for other causes."""
    if finding.cause == "coordinator_restart":
        goes_on = "whether the group goes on is not in the input" if finding.missing_input else "the group goes on"
        return f"{shown_names(finding.culprits, 'the coordinator')} is back; {goes_on}"
    expected = _EXPECTED.get(finding.cause.removeprefix("kip848_"), "")
    return f"{expected}; the last rebalance completed" if expected and is_stable else expected


def _duration(figures: Mapping[str, int], name: str) -> str:
    value = figures.get(name)
    return measured(value) if value else ""


def _setting(figures: Mapping[str, int], name: str) -> str:
    value = figures.get(name)
    return seconds(value) if value else ""


def _poll_delay(finding: Finding, rebalances: int) -> str:
    figures, who, often = finding.figures, shown_names(finding.culprits), count_of(len(finding.times))
    if together := _duration(figures, "together_ms"):
        total = f", {len(finding.times)} times in all" if len(finding.times) > len(finding.culprits) else ""
        often = f" ({len(finding.culprits)} members within {together}{total})"
    if figures.get("handler_blocks"):
        session, handler = _setting(figures, "session_ms"), _duration(figures, "handler_ms")
        busy = f"its handler was busy for {handler}" if handler else "its handler was busy"
        limit = f", session.timeout.ms is {session}" if session else ""
        return f"{who}: no heartbeat while {busy}{limit}{often}"
    limit = _setting(figures, "limit_ms")
    if not limit:
        return f"{who}: more than max.poll.interval.ms between polls{often}"
    if figures.get("longest_ms", 0) <= figures["limit_ms"]:
        return f"{who}: more than {limit} (max.poll.interval.ms) between polls{often}"
    return f"{who}: {_duration(figures, 'longest_ms')} between polls, max.poll.interval.ms is {limit}{often}"


def _session_expiry(finding: Finding, rebalances: int) -> str:
    figures, who, often = finding.figures, shown_names(finding.culprits), count_of(len(finding.times))
    pause, session = _duration(figures, "pause_ms"), _setting(figures, "session_ms")
    if pause and session:
        return f"{who}: no heartbeat for {pause}, session.timeout.ms is {session}{often}"
    if session:
        return f"{who}: no heartbeat for more than {session} (session.timeout.ms){often}"
    return f"{who}: no heartbeat for {pause or 'its session timeout'}{often}"


def _crash_loop(finding: Finding, rebalances: int) -> str:
    uptime = _duration(finding.figures, "uptime_ms")
    ran = f"; the shortest run was {uptime}" if uptime else ""
    return f"{shown_names(finding.culprits)}: stopped and restarted {len(finding.times)} times{ran}"


def _crash(finding: Finding, rebalances: int) -> str:
    if finding.alternatives:
        return f"{shown_names(finding.culprits)}: no heartbeat for its session timeout, and no sign of it afterwards"
    away = _duration(finding.figures, "restart_ms")
    return f"{shown_names(finding.culprits)}: ended without leaving" + (f", back after {away}" if away else "")


def _stuck(finding: Finding, rebalances: int) -> str:
    open_for = _duration(finding.figures, "open_ms")
    waits = f", waiting for {shown_names(finding.culprits)}" if finding.culprits else ""
    if open_for:
        limit = _setting(finding.figures, "timeout_ms")
        longest = f", max.poll.interval.ms is {limit}" if limit else ""
        return f"a rebalance is open for {open_for}{longest}{waits}"
    return f"a rebalance was given up because members did not rejoin{count_of(len(finding.times))}{waits}"


def _never_converges(finding: Finding, rebalances: int) -> str:
    return f"{len(finding.times)} follow-up rebalances in a row without a change of members"


def _flapping(finding: Finding, rebalances: int) -> str:
    period = _duration(finding.figures, "period_ms")
    every = f", in turn every {period}" if period else ""
    return f"{shown_names(finding.culprits)}: joined or left {len(finding.times)} times{every}"


def _static_restart(finding: Finding, rebalances: int) -> str:
    figures = finding.figures
    late = finding.cause == "static_restart_too_late"
    away, session = _duration(figures, "late_ms" if late else "restart_ms"), _setting(figures, "session_ms")
    back = f"back {away} after" if away else "back after" if late else ""
    limit = f", session.timeout.ms is {session}" if session else ""
    if late:
        return f"{shown_names(finding.culprits)}: {back} the session expired{limit}{count_of(len(finding.times))}"
    back = f"back after {away}" if away else "back in time"
    return f"{shown_names(finding.culprits)}: static members restarted, {back}{limit}{count_of(len(finding.times))}"


def _rolling_restart(finding: Finding, rebalances: int) -> str:
    away = _duration(finding.figures, "restart_ms")
    for_ms = f", away for up to {away}" if away else ""
    members = plural(len(finding.culprits), "member")
    return f"{members} left and came back{for_ms}; {plural(rebalances, 'rebalance')}"


def _migration(finding: Finding, rebalances: int) -> str:
    members = plural(len(finding.culprits), "member")
    return f"{members} came back with another assignor; {plural(rebalances, 'rebalance')}"


def _coordinator(finding: Finding, rebalances: int) -> str:
    down = _duration(finding.figures, "down_ms")
    who = shown_names(finding.culprits, "the coordinator")
    return f"{who} was unavailable for {down}{count_of(len(finding.times))}" if down else f"{who} restarted"


def _startup(finding: Finding, rebalances: int) -> str:
    figures = finding.figures
    members, rounds = figures.get("members") or len(finding.culprits), figures.get("rounds") or 1
    within = f" within {_duration(figures, 'spread_ms')}" if figures.get("spread_ms") else ""
    return f"{plural(members, 'member')} joined{within}, in {plural(rounds, 'rebalance')}"


def _unknown(finding: Finding, rebalances: int) -> str:
    if not finding.times:
        return "the input shows neither a failure nor a group at work"
    return f"{shown_names(finding.culprits)}: left{count_of(len(finding.times))}; the reason is not in the input"


def _healthy(finding: Finding, rebalances: int) -> str:
    return f"{plural(rebalances, 'rebalance')}, no failure" if rebalances else "no failure"


def _sentence(text: str) -> Callable[[Finding, int], str]:
    """Return a headline of the culprits, a text and the number of events."""
    return lambda finding, _: f"{shown_names(finding.culprits)}: {text}{count_of(len(finding.times))}"


def _change(text: str) -> Callable[[Finding, int], str]:
    return lambda finding, _: f"{shown_names(finding.culprits)} {text}"


def _scaling(text: str) -> Callable[[Finding, int], str]:
    return lambda finding, _: f"{plural(len(finding.culprits), 'member')} {text}: {shown_names(finding.culprits)}"


_EXPECTED: Final = {
    "assignor_migration": "every member is restarted when a deploy changes the assignor",
    "rolling_restart": "rebalances are expected when members are restarted",
    "static_restart_in_time": "the members were back before their sessions expired",
    "partitions_added": "a rebalance is expected when partitions are added",
    "new_topic_matched": "a rebalance is expected when a topic is created that the subscription matches",
    "topic_deleted": "a rebalance is expected when a topic is deleted; remove it from the subscription",
    "subscription_change": "a rebalance is expected when the subscribed topics of a member change",
    "scale_out": "a rebalance is expected when members are added",
    "scale_in": "a rebalance is expected when members are removed",
    "startup_herd": "rebalances are expected while members start",
}
_DESCRIBE: Final[dict[str, Callable[[Finding, int], str]]] = {
    "poll_delay": _poll_delay,
    "session_expiry": _session_expiry,
    "crash_loop": _crash_loop,
    "crash": _crash,
    "stuck_rebalance": _stuck,
    "assignor_never_converges": _never_converges,
    "autoscaler_flapping": _flapping,
    "static_restart_too_late": _static_restart,
    "static_restart_in_time": _static_restart,
    "rolling_restart": _rolling_restart,
    "assignor_migration": _migration,
    "coordinator_restart": _coordinator,
    "startup_herd": _startup,
    "healthy": _healthy,
    "unknown": _unknown,
    "instance_id_conflict": _sentence("two running processes use this group.instance.id"),
    "inconsistent_protocol": _sentence("rejected, no assignor in common with the group"),
    "shared_group_id": _sentence("left by members that read no common topic"),
    "join_refused": _sentence("failed to join the group"),
    "known_bug": _sentence("its version has a known bug"),
    "static_member_leaves": _sentence("a static member that sent LeaveGroup"),
    "coordinator_unreachable": _sentence("found its coordinator and lost it again"),
    "connect_config_loop": _sentence("its configuration offset is not that of the assignment"),
    "leader_rejoins": _sentence("started a rebalance although nothing changed"),
    "partitions_added": _change("got more partitions"),
    "new_topic_matched": _change("was created and matches the subscription"),
    "topic_deleted": _change("was deleted"),
    "subscription_change": _change("changed the subscription"),
    "scale_out": _scaling("joined"),
    "scale_in": _scaling("left for good"),
}
