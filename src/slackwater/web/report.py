"""The doctor's report: one HTML file with verdicts, evidence, prescriptions and the timeline of each group.

Invariants:
- The page is self-contained: styles, script and data are in it, and it opens without a network.
- Text from logs is escaped, for HTML and as on a terminal (control characters, bidirectional formatting). Data for the
  script cannot end the script element.
- A group begins with its headline and figures. The lines of the group's own library are open, those of others folded.
- The colours of a timeline agree with the verdict.
- Groups that need action come first, then other findings; healthy groups get one line each.
- Lines that were not recognised, and sources that would make a verdict more certain, are listed.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape as escape_html
from importlib.resources import files
from typing import Any, Final

from slackwater.doctor.causes.finding import EvidenceLine
from slackwater.doctor.events.row_predicates import is_close_reason
from slackwater.doctor.events.times import has_clock, is_dated, shown_time
from slackwater.doctor.history.files import display_name
from slackwater.doctor.history.lines import SHOWN_CHARACTERS, readable
from slackwater.doctor.prescriptions.libraries import BROKER, UNKNOWN_LIBRARY
from slackwater.doctor.prescriptions.pasting import place_to_paste, settings_note
from slackwater.doctor.prescriptions.prescription import Prescription
from slackwater.doctor.timeline.member_timelines import MemberTimeline, TimelineMarker
from slackwater.doctor.timeline.pauses import MINUTE_MS, MinuteStats
from slackwater.doctor.timeline.rebalances import Episode, RecordedRebalance
from slackwater.doctor.verdict import Verdict
from slackwater.doctor.verdict_text import (
    also_found,
    explanation,
    incident_time,
    order_of_advice,
    other_causes,
    recurrence,
    relation,
    with_units,
)
from slackwater.escaping import escape_line
from slackwater.version import __version__

_TONES: Final = {
    "poll_timeout": "slow",
    "rebalance_timeout": "slow",
    "sync_timeout": "slow",
    "session_timeout": "expired",
    "member_join": "joined",
    "member_leave": "left",
    "admin_removal": "left",
    "instance_conflict": "conflict",
    "static_changed": "conflict",
    "protocol_change": "conflict",
    "subscription_change": "data",
    "pattern_matched": "data",
    "partitions_added": "data",
    "topic_deleted": "data",
    "leader_rejoin": "data",
    "coordinator_failover": "broker",
}
"""The colour of a rebalance by its trigger, as classes of page.css."""
_OVERRUNS: Final = frozenset({"poll_delay", "kip848_poll_delay"})
_CONFLICTS: Final = frozenset({"instance_id_conflict"})
_REMOVALS: Final = frozenset({"left", "expired", "other"})
"""Colours of the removal of a member, whose reason other sources may show."""
_REPLACED: Final = "was replaced"
_LEGEND: Final = (
    ("joined", "member joined"),
    ("left", "member left"),
    ("slow", "max.poll.interval.ms or rebalance timeout exceeded"),
    ("expired", "session expired"),
    ("data", "topics or subscription changed"),
    ("conflict", "error or conflict"),
    ("follow", "second step of a cooperative rebalance"),
    ("broker", "coordinator moved or restarted"),
    ("other", "reason not recorded"),
)


def report(
    verdicts: Sequence[Verdict], title: str = "Rebalance report", unrecognized: Sequence[tuple[str, int, str]] = ()
) -> str:
    """Return the page; `unrecognized` has per file the number of unrecognised lines about groups, and one of them."""
    ordered = sorted(verdicts, key=_report_order)
    unhealthy = [verdict for verdict in ordered if verdict.cause != "healthy"]
    healthy = [verdict for verdict in ordered if verdict.cause == "healthy"]
    body = [_head(title, ordered), *(_group(verdict, index, verdicts) for index, verdict in enumerate(unhealthy))]
    if healthy:
        body.append(_healthy(healthy))
    if unrecognized:
        body.append(_unrecognized(unrecognized))
    scripts = "".join(
        f"timeline(document.getElementById('timeline-{index}'), {_data(_timeline(verdict))});\n"
        for index, verdict in enumerate(unhealthy)
    )
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{_asset('page.css')}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n<footer>Made by slackwater {_text(__version__)}. Times are UTC.</footer>\n</main>\n"
        f"<script>\n{_asset('timeline.js')}\n{scripts}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    return files("slackwater.web").joinpath(name).read_text(encoding="utf-8")


def _report_order(verdict: Verdict) -> tuple[bool, bool, int, str]:
    return not verdict.action_needed, not verdict.is_storm, -verdict.rebalances, verdict.group


def _text(text: str) -> str:
    """Return a line as HTML."""
    return escape_html(escape_line(text))


def _prose(text: str) -> str:
    """Return a sentence as HTML, with every number on the line of its unit."""
    return escape_html(with_units(escape_line(text)))


def _data(value: object) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- parts ------------------------------------------------------------------------------------------------------------


def _head(title: str, verdicts: Sequence[Verdict]) -> str:
    needed = sum(verdict.action_needed for verdict in verdicts)
    count = f"{len(verdicts)} group{'s' if len(verdicts) != 1 else ''}"
    unknown = sum(verdict.cause == "unknown" for verdict in verdicts)
    partial = sum(verdict.is_partial for verdict in verdicts if verdict.cause != "unknown")
    if needed:
        summary = f"{needed} of {count} need{'s' if needed == 1 else ''} action."
    else:
        summary = f"{count}." if unknown or partial else f"{count}, none needs action."
    if partial:
        summary += f" {partial} had a failure; whether action is needed is not certain."
    if unknown:
        summary += f" The cause is unknown for {unknown}."
    begins = [verdict.began_ms for verdict in verdicts if verdict.began_ms]
    ends = [verdict.ended_ms for verdict in verdicts if verdict.ended_ms]
    if begins and ends:
        summary += f" From {_when(min(begins))} to {_when(max(ends))}."
    return f'<h1>{_text(title)}</h1><p class="faint">{_text(summary)}</p>'


def _group(verdict: Verdict, index: int, verdicts: Sequence[Verdict]) -> str:
    when = incident_time(verdict, verdicts)
    where = f'<span class="faint">{_text(verdict.cluster)}</span>' if verdict.cluster else ""
    names = _text(", ".join(verdict.culprits))
    culprits = f" {_capitalized(relation(verdict))} <b>{names}</b>." if names else ""
    parts = [
        f'<section class="group"><div class="heading"><h2>{_text(verdict.group)}</h2>{_badge(verdict)}{where}</div>',
        f'<p class="headline">{_prose(_headline(verdict))}</p>' if verdict.headline else "",
        f'<p class="faint">When: {_prose(when)}.</p>' if when else "",
        _figures(verdict),
        f"<p>{_text(_capitalized(explanation(verdict)))}.{culprits}</p>",
        _related(verdict),
        _missing(verdict.missing_input),
        _evidence(verdict.evidence),
        f"<p><b>Nothing to do</b>: {_text(verdict.no_action)}.</p>" if verdict.no_action else "",
        _prescriptions(verdict),
        _what_happened(verdict, index),
        _episodes(verdict.episodes) if has_clock(verdict.began_ms) else "",
        _rebalance_table(verdict.recorded_rebalances) if has_clock(verdict.began_ms) else "",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _what_happened(verdict: Verdict, index: int) -> str:
    """Return the place of the timeline; hidden if it would be empty, or if the lines have no times."""
    has_content = bool(verdict.recorded_rebalances or verdict.member_timelines or verdict.lag)
    has_timeline = has_content and has_clock(verdict.began_ms)
    place = f'<div class="timeline" id="timeline-{index}"{"" if has_timeline else " hidden"}></div>'
    return f"<h3>What happened</h3>{_lag(verdict)}{_legend(verdict)}{place}" if has_timeline else place


def _related(verdict: Verdict) -> str:
    """Secondary members, other findings, alternatives and alerts."""
    shown = (
        ("Overloaded by the partitions they took over", ", ".join(verdict.secondary_members)),
        *(("Also", also_found(verdict, finding)) for finding in verdict.other_findings),
        ("Other possible causes", ", ".join(map(_named, other_causes(verdict)))),
        ("Alerts", ", ".join(verdict.alerts)),
    )
    return "".join(f'<p class="faint">{name}: {_prose(text)}.</p>' for name, text in shown if text)


def _headline(verdict: Verdict) -> str:
    """Return the headline as a sentence; a member's name at its start stays as it is."""
    starts_with_name = any(verdict.headline.startswith(name) for name in verdict.culprits)
    is_name = starts_with_name and not verdict.headline.startswith("the ")
    return f"{verdict.headline}." if is_name else f"{_capitalized(verdict.headline)}."


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _named(cause: str) -> str:
    return cause.replace("_", " ")


def _badge(verdict: Verdict) -> str:
    tone = (
        "alarm" if verdict.action_needed else "unsure" if verdict.cause == "unknown" or verdict.is_partial else "calm"
    )
    name = _named(verdict.cause) + (
        f" · {again.removeprefix('a rebalance ')}" if (again := recurrence(verdict)) else ""
    )
    return f'<span class="badge {tone}">{_text(name)}</span>'


def _figures(verdict: Verdict) -> str:
    stopped_s = sum(episode.stopped_ms for episode in verdict.episodes) / 1000
    hours = max(verdict.ended_ms - verdict.began_ms, 1) / 3_600_000
    shown = []
    if verdict.rebalances:
        shown.append((f"{verdict.rebalances:,}", "rebalance" if verdict.rebalances == 1 else "rebalances"))
    if verdict.changes != verdict.rebalances:
        shown.append((f"{verdict.changes:,}", "without second steps of cooperative changes"))
    if verdict.rebalances and hours >= 1 / 6:
        shown.append((f"{verdict.rebalances / hours:,.1f}", "per hour"))
    if stopped_s >= 1:
        shown.append((f"{stopped_s:,.0f} s", "spent rebalancing"))
    shown.append((f"{verdict.confidence:.0%}", "confidence"))
    return '<div class="figures">' + "".join(f"<div><b>{a}</b><span>{b}</span></div>" for a, b in shown) + "</div>"


def _evidence(lines: Sequence[EvidenceLine]) -> str:
    if not lines:
        return ""
    rows = "".join(
        f'<li><b>{_text(line.what)}</b><span class="where">{_text(_when(line.time_ms))} · '
        f"{_text(line.where or line.source)}</span>{_cited(line.line or '')}</li>"
        for line in lines
    )
    return f'<h3>Evidence</h3><ul class="evidence">{rows}</ul>'


def _cited(line: str) -> str:
    """Return a log line without colours; JSON is folded, after its message and error if it has any."""
    if len(line) >= SHOWN_CHARACTERS:
        line = line[: SHOWN_CHARACTERS - 1] + "…"
    text = readable(line)
    shown = f"<code>{_text(text)}</code>" if text else ""
    if line.startswith("{"):
        return f"{shown}<details><summary>as recorded</summary><code>{_text(line)}</code></details>"
    return shown


def _lag(verdict: Verdict) -> str:
    """The largest lag and the part caused by rebalances."""
    lag = verdict.lag
    if lag is None:
        return ""
    largest = f"The lag reached <b>{lag.max_lag:,} records</b> at {_text(_when(lag.max_lag_ms)[11:16])}"
    if lag.by_pauses is None:
        return f"<p>{largest}. Its rebalances stop only the partitions that move; their number is not recorded.</p>"
    share = lag.by_pauses / lag.max_lag
    return (
        f"<p>{largest}; <b>{share:.0%}</b> of it was caused by rebalances, which had taken "
        f"{_lasted(lag.stopped_ms)} by then. "
        f'<span class="faint">Estimated from commits: usually {lag.read_per_minute:,} records per minute.</span>'
        "</p>"
    )


def _missing(missing: Sequence[str]) -> str:
    return "".join(f'<p class="faint">Not certain: {_prose(text)}.</p>' for text in missing)


def _legend(verdict: Verdict) -> str:
    """The colours that the timeline has."""
    used = {_tone(verdict, rebalance) for rebalance in verdict.recorded_rebalances}
    used |= {_mark_tone(verdict, timeline, mark) for timeline in verdict.member_timelines for mark in timeline.marks}
    shown = "".join(
        f'<span><i style="background:var(--{tone})"></i>{_text(text)}</span>' for tone, text in _LEGEND if tone in used
    )
    return f'<div class="legend">{shown}</div>' if shown else ""


def _prescriptions(verdict: Verdict) -> str:
    if not verdict.prescriptions:
        return ""
    items = "".join(_prescription(prescription, verdict.library) for prescription in verdict.prescriptions)
    note = ""
    if any(prescription.properties.keys() - {BROKER} for prescription in verdict.prescriptions):
        note = f'<p class="faint">{_text(_capitalized(settings_note(verdict.library)))}.</p>'
    return f'<h3>{_text(_capitalized(order_of_advice(verdict)))}</h3><ol class="prescriptions">{items}</ol>{note}'


def _prescription(prescription: Prescription, library: str | None) -> str:
    texts = [f"<li><b>{_prose(_capitalized(prescription.what))}</b>"]
    if prescription.optional:
        texts.append(' <span class="faint">(optional)</span>')
    shown = (library or UNKNOWN_LIBRARY, BROKER)
    opened = {name: lines for name, lines in prescription.properties.items() if name in shown}
    folded = {name: lines for name, lines in prescription.properties.items() if name not in opened}
    if opened:
        texts.append(f'<p class="faint">{_text(_capitalized(place_to_paste(prescription, library)))}:</p>')
    texts.append(_to_paste(opened))
    if folded:
        texts.append(f"<details><summary>other client libraries</summary>{_to_paste(folded)}</details>")
    if prescription.cost not in ("", "none"):
        texts.append(f'<p class="faint">Cost: {_prose(prescription.cost)}</p>')
    texts += [f'<p class="faint">Caution: {_prose(text)}</p>' for text in prescription.caution]
    if prescription.cites:
        texts.append(f'<p class="faint">See {_text("; ".join(prescription.cites))}.</p>')
    return "".join(texts) + "</li>"


def _to_paste(properties: Mapping[str, Sequence[str]]) -> str:
    """Lines of several libraries."""
    blocks = (
        f"<dt>{_text(library)}</dt><dd><pre>{chr(10).join(map(_text, lines))}</pre></dd>"
        for library, lines in properties.items()
    )
    return f'<dl class="paste">{"".join(blocks)}</dl>' if properties else ""


def _episodes(episodes: Sequence[Episode]) -> str:
    if not episodes:
        return ""
    rows = "".join(
        f"<tr><td>{_text(episode.kind)}</td><td>{_text(_when(episode.began_ms))}</td>"
        f'<td>{_text(_lasted(episode.ended_ms - episode.began_ms))}</td><td class="number">{episode.rebalances:,}</td>'
        f"<td>{_text(', '.join(f'{_named(name)} × {count}' for name, count in episode.triggers))}</td></tr>"
        for episode in episodes
    )
    return _table("Episodes", ("kind", "from", "duration", "rebalances", "triggers"), rows)


def _rebalance_table(rebalances: Sequence[RecordedRebalance]) -> str:
    if not rebalances:
        return ""
    rows = "".join(
        f'<tr><td class="number">{rebalance.generation}</td><td>{_text(_when(rebalance.began_ms))}</td>'
        f"<td>{_text(_lasted(rebalance.duration_ms))}</td><td>{_text(rebalance.trigger or '?')}"
        f"{' (follow-up)' if rebalance.follow_up else ''}</td><td>{_text(rebalance.culprit or '')}</td>"
        f"<td>{_count(rebalance.members_before)} → {_count(rebalance.members_after)}</td>"
        f'<td class="faint">{_text(_source_of(rebalance.evidence or ""))}</td></tr>'
        for rebalance in rebalances[-200:]
    )
    names = ("generation", "from", "duration", "trigger", "caused by", "members", "evidence")
    return f"<details><summary>All rebalances</summary>{_table('', names, rows)}</details>"


def _source_of(evidence: str) -> str:
    """Return the file of a log line; its position in the file is not its line number."""
    return display_name(evidence.rpartition(":")[0]) if evidence.startswith("file:") else evidence


def _healthy(verdicts: Sequence[Verdict]) -> str:
    has_clusters = any(verdict.cluster for verdict in verdicts)
    rows = "".join(
        f"<tr><td>{_text(verdict.group)}</td>{f'<td>{_text(verdict.cluster)}</td>' if has_clusters else ''}"
        f'<td>{_badge(verdict)}</td><td class="number">{verdict.rebalances:,}</td>'
        f'<td class="number">{verdict.confidence:.0%}</td>'
        f'<td class="faint">{_text("; ".join(verdict.missing_input))}</td></tr>'
        for verdict in verdicts
    )
    names = ("group", *(("cluster",) if has_clusters else ()), "", "rebalances", "confidence", "not certain")
    return f'<section class="group">{_table("Healthy groups", names, rows)}</section>'


def _unrecognized(files: Sequence[tuple[str, int, str]]) -> str:
    rows = "".join(
        f'<tr><td>{_text(file)}</td><td class="number">{lines:,}</td><td><code>{_text(example)}</code></td></tr>'
        for file, lines, example in files
    )
    table = _table("Unrecognised lines about groups", ("file", "lines", "example"), rows)
    return f'<section class="group">{table}</section>'


def _table(title: str, names: Sequence[str], rows: str) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    heading = f"<h3>{_text(title)}</h3>" if title else ""
    return f'{heading}<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


# --- the timeline's data ----------------------------------------------------------------------------------------------


def _timeline(verdict: Verdict) -> dict[str, Any]:
    return {
        "label": escape_line(f"Timeline of group {verdict.group}"),
        "from_ms": verdict.began_ms,
        "to_ms": verdict.ended_ms,
        "dated": is_dated(verdict.began_ms),
        "episodes": [
            {
                "from_ms": episode.began_ms,
                "to_ms": episode.ended_ms,
                "kind": episode.kind,
                "title": f"{episode.kind}: {episode.rebalances} rebalances in "
                f"{_lasted(episode.ended_ms - episode.began_ms)}",
            }
            for episode in verdict.episodes
        ],
        "rebalances": [
            {
                "from_ms": rebalance.began_ms,
                "to_ms": rebalance.ended_ms,
                "generation": rebalance.generation,
                "tone": _tone(verdict, rebalance),
                "failed": not rebalance.completed,
                "title": _rebalance_title(rebalance),
            }
            for rebalance in verdict.recorded_rebalances
        ],
        "timelines": [_timeline_data(verdict, timeline) for timeline in verdict.member_timelines],
        "frequency": [[minute.began_ms, minute.began_ms + MINUTE_MS, minute.rebalances] for minute in verdict.minutes],
        "lag": _curve(verdict.minutes),
    }


def _tone(verdict: Verdict, rebalance: RecordedRebalance) -> str:
    """Return the colour of a rebalance; the verdict knows the reason of a removal, whichever source reported it."""
    if rebalance.follow_up:
        return "follow"
    tone = _TONES.get(rebalance.trigger or "", "other")
    if tone in _REMOVALS and verdict.cause in _OVERRUNS and rebalance.culprit in verdict.culprits:
        return "slow"
    if rebalance.trigger == "static_changed" and not _has_conflict(verdict):
        return "joined"
    return tone


def _mark_tone(verdict: Verdict, timeline: MemberTimeline, mark: TimelineMarker) -> str:
    """Return the colour of a member's marker, in agreement with the verdict."""
    if mark.kind in _REMOVALS and verdict.cause in _OVERRUNS and timeline.culprit and not is_close_reason(mark.what):
        return "slow"
    if mark.what.startswith(_REPLACED) and not _has_conflict(verdict):
        return "joined"
    return mark.kind


def _has_conflict(verdict: Verdict) -> bool:
    return not _CONFLICTS.isdisjoint({verdict.cause, *(finding.cause for finding in verdict.other_findings)})


def _curve(minutes: Sequence[MinuteStats]) -> list[list[int]]:
    """Points of time, lag and the part caused by rebalances; the lag is constant in gaps."""
    points: list[list[int]] = []
    for minute in minutes:
        if minute.lag is None:
            continue
        if points and minute.began_ms > points[-1][0]:
            points.append([minute.began_ms, *points[-1][1:]])
        points.append([minute.began_ms + MINUTE_MS, minute.lag, minute.lag_from_rebalances or 0])
    return points if any(point[1] for point in points) else []


def _rebalance_title(rebalance: RecordedRebalance) -> str:
    by = f", caused by {escape_line(rebalance.culprit)}" if rebalance.culprit else ""
    return (
        f"generation {rebalance.generation}: {rebalance.trigger or 'trigger unknown'}{by}\n"
        f"{_when(rebalance.began_ms)}, {_lasted(rebalance.duration_ms)}, "
        f"members {_count(rebalance.members_before)} → {_count(rebalance.members_after)}"
    )


def _timeline_data(verdict: Verdict, timeline: MemberTimeline) -> dict[str, Any]:
    return {
        "name": escape_line(timeline.name),
        "note": None if timeline.host is None else escape_line(timeline.host),
        "culprit": timeline.culprit,
        "spans": [
            {"from_ms": span.began_ms, "to_ms": span.ended_ms, "kind": "member", "title": escape_line(span.what)}
            for span in timeline.spans
        ],
        "marks": [
            {
                "time_ms": marker.time_ms,
                "kind": _mark_tone(verdict, timeline, marker),
                "title": escape_line(marker.what),
            }
            for marker in timeline.marks
        ],
    }


# --- formatting -------------------------------------------------------------------------------------------------------


def _when(time_ms: int) -> str:
    return shown_time(time_ms).partition(".")[0] or "(no time)"


def _lasted(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 7_200_000 else f"{ms / 3_600_000:.1f} h"


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)
