"""The doctor's report: one HTML file with the verdicts, their evidence, the cures, and each group's history to look at.

Rules kept here
- The page stands alone: styles, script and data are in it, and it opens without a network.
- Whatever came from a log is text: it is escaped, and data for the script cannot end the script.
- Groups that need somebody come first, then those of which something is to be told; healthy ones are a line each.
- What was not understood, and what would make a verdict surer, is on the page: nothing is left out in silence.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any, Final

from slackwater.doctor.causes.finding import EvidenceLine
from slackwater.doctor.prescriptions import Prescription
from slackwater.doctor.timeline.member_timelines import MemberTimeline
from slackwater.doctor.timeline.pauses import MINUTE_MS, MinuteStats
from slackwater.doctor.timeline.rebalances import Episode, RebalanceRound
from slackwater.doctor.verdict import Verdict
from slackwater.version import __version__

_LEGEND: Final = (
    ("come", "a member came"),
    ("go", "a member left"),
    ("slow", "too slow"),
    ("dead", "session ran out"),
    ("data", "topics or subscription changed"),
    ("fight", "conflict"),
    ("follow", "second round of a cooperative change"),
    ("broker", "coordinator moved or restarted"),
)


def report(
    verdicts: Sequence[Verdict], title: str = "RebalanceRound report", unread: Sequence[tuple[str, int, str]] = ()
) -> str:
    """The page; `unread` has, per file, how many lines about groups were not understood, and one of them."""
    ordered = sorted(verdicts, key=lambda one: (not one.action_needed, not one.storm, -one.rebalances, one.group))
    ill = [one for one in ordered if one.cause != "healthy"]
    calm = [one for one in ordered if one.cause == "healthy"]
    body = [_head(title, ordered), *(_group(one, at) for at, one in enumerate(ill))]
    if calm:
        body.append(_calm(calm))
    if unread:
        body.append(_unread(unread))
    scripts = "".join(
        f"timeline(document.getElementById('timeline-{at}'), {_data(_timeline(one))});\n" for at, one in enumerate(ill)
    )
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{_asset('page.css')}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n<footer>Made by slackwater {escape(__version__)}. Times are UTC.</footer>\n</main>\n"
        f"<script>\n{_asset('timeline.js')}\n{scripts}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    return files("slackwater.web").joinpath(name).read_text(encoding="utf-8")


def _data(value: object) -> str:
    """JSON that can stand inside a script element."""
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- parts ------------------------------------------------------------------------------------------------------------


def _head(title: str, verdicts: Sequence[Verdict]) -> str:
    needed = sum(one.action_needed for one in verdicts)
    count = f"{len(verdicts)} group{'s' if len(verdicts) != 1 else ''}"
    untold = sum(one.cause == "unknown" for one in verdicts)
    said = f"{needed} of {count} need{'s' if needed == 1 else ''} somebody." if needed else f"{count}, all calm."
    if untold:
        said = f"{said} Of {untold} it could not be told." if needed else f"{count}; of {untold} it could not be told."
    times = [one.began_ms for one in verdicts if one.began_ms], [one.ended_ms for one in verdicts if one.ended_ms]
    when = f" From {_when(min(times[0]))} to {_when(max(times[1]))}." if all(times) else ""
    return f'<h1>{escape(title)}</h1><p class="faint">{escape(said + when)}</p>'


def _group(verdict: Verdict, at: int) -> str:
    where = f'<span class="faint">{escape(verdict.cluster)}</span>' if verdict.cluster else ""
    culprits = f"<p>Brought about by <b>{escape(', '.join(verdict.culprits))}</b>.</p>" if verdict.culprits else ""
    parts = [
        f'<section class="group"><div class="heading"><h2>{escape(verdict.group)}</h2>{_badge(verdict)}{where}</div>',
        culprits,
        _beside(verdict),
        _figures(verdict),
        _evidence(verdict.evidence),
        _missing(verdict.missing),
        "<h3>What happened</h3>" + _lag(verdict) + _legend() + f'<div id="timeline-{at}"></div>',
        _cures(verdict.prescriptions),
        _episodes(verdict.episodes),
        _rounds(verdict.rounds),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _beside(verdict: Verdict) -> str:
    """Who else was hit, what else there was, and what else it could be."""
    also = ", ".join(
        _named(one.cause) + (f" (by {', '.join(one.culprits)})" if one.culprits else "") for one in verdict.also
    )
    shown = (
        ("Overloaded by what they took over", ", ".join(verdict.secondary)),
        ("Also", also),
        ("It could also be", ", ".join(map(_named, verdict.alternatives))),
        ("Alerts", ", ".join(verdict.alerts)),
    )
    return "".join(f'<p class="faint">{name}: {escape(text)}.</p>' for name, text in shown if text)


def _named(cause: str) -> str:
    return cause.replace("_", " ")


def _badge(verdict: Verdict) -> str:
    tone = "alarm" if verdict.action_needed else "unsure" if verdict.cause == "unknown" else "calm"
    name = _named(verdict.cause) + (" · storm" if verdict.storm else "")
    return f'<span class="badge {tone}">{escape(name)}</span>'


def _figures(verdict: Verdict) -> str:
    stopped_s = sum(one.stopped_ms for one in verdict.episodes) / 1000
    hours = max(verdict.ended_ms - verdict.began_ms, 1) / 3_600_000
    shown = [
        (f"{verdict.rebalances:,}", "rebalances"),
        (f"{verdict.changes:,}", "changes"),
        (f"{verdict.rebalances / hours:,.1f}" if hours >= 1 / 6 else "–", "per hour"),
        (f"{stopped_s:,.0f} s" if stopped_s else "–", "in rounds"),
        (f"{verdict.confidence:.0%}", "sure"),
    ]
    return '<div class="figures">' + "".join(f"<div><b>{a}</b><span>{b}</span></div>" for a, b in shown) + "</div>"


def _evidence(found: Sequence[EvidenceLine]) -> str:
    if not found:
        return ""
    rows = "".join(
        f'<li><b>{escape(one.what)}</b><span class="where">{escape(_when(one.time_ms))} · '
        f"{escape(one.where or one.source)}</span>{escape(one.line or '')}</li>"
        for one in found
    )
    return f'<h3>What decides it</h3><ul class="evidence">{rows}</ul>'


def _lag(verdict: Verdict) -> str:
    """How much of the lag came from pauses, in a sentence."""
    lag = verdict.lag
    if lag is None:
        return ""
    said = f"It fell up to <b>{lag.most_behind:,} records</b> behind, at {escape(_when(lag.most_behind_ms)[11:16])}"
    if lag.by_pauses is None:
        return f"<p>{said}. Its rounds stop only what moves; how much that was is not recorded.</p>"
    share = lag.by_pauses / lag.most_behind
    return (
        f"<p>{said}; <b>{share:.0%}</b> of that was not read because of rebalances, which had lasted "
        f"{_lasted(lag.stopped_ms)} by then. "
        f'<span class="faint">Reckoned from commits: usually {lag.read_per_minute:,} records a minute are read.</span>'
        "</p>"
    )


def _missing(missing: Sequence[str]) -> str:
    return "".join(f'<p class="faint">Not certain: {escape(one)}.</p>' for one in missing)


def _legend() -> str:
    shown = "".join(f'<span><i style="background:var(--{tone})"></i>{escape(what)}</span>' for tone, what in _LEGEND)
    return f'<div class="legend">{shown}</div>'


def _cures(found: Sequence[Prescription]) -> str:
    if not found:
        return ""
    return f'<h3>What to do, in this order</h3><ol class="cure">{"".join(map(_cure, found))}</ol>'


def _cure(one: Prescription) -> str:
    texts = [f"<li>{escape(one.what)}"]
    if one.optional:
        texts.append(' <span class="faint">(optional)</span>')
    if one.price not in ("", "none"):
        texts.append(f'<p class="faint">Its price: {escape(one.price)}</p>')
    texts += [f'<p class="faint">Fights with: {escape(fight)}</p>' for fight in one.caution]
    if one.properties:
        blocks = (
            f"<dt>{escape(library)}</dt><dd><pre>{escape(chr(10).join(lines))}</pre></dd>"
            for library, lines in one.properties.items()
        )
        texts.append(f'<dl class="paste">{"".join(blocks)}</dl>')
    return "".join(texts) + "</li>"


def _episodes(found: Sequence[Episode]) -> str:
    if not found:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one.kind)}</td><td>{escape(_when(one.began_ms))}</td>"
        f'<td>{escape(_lasted(one.ended_ms - one.began_ms))}</td><td class="number">{one.rebalances:,}</td>'
        f"<td>{escape(', '.join(f'{name} × {count}' for name, count in one.triggers))}</td></tr>"
        for one in found
    )
    return _table("Episodes", ("what", "from", "for", "rebalances", "triggers"), rows)


def _rounds(found: Sequence[RebalanceRound]) -> str:
    if not found:
        return ""
    rows = "".join(
        f'<tr><td class="number">{one.generation}</td><td>{escape(_when(one.began_ms))}</td>'
        f"<td>{escape(_lasted(one.duration_ms))}</td><td>{escape(one.trigger or '?')}"
        f"{' (second round)' if one.follow_up else ''}</td><td>{escape(one.culprit or '')}</td>"
        f"<td>{_count(one.members_before)} → {_count(one.members_after)}</td>"
        f'<td class="faint">{escape(one.evidence or "")}</td></tr>'
        for one in found[-200:]
    )
    names = ("generation", "from", "for", "trigger", "by", "members", "evidence")
    return f"<details><summary>Every rebalance</summary>{_table('', names, rows)}</details>"


def _calm(verdicts: Sequence[Verdict]) -> str:
    rows = "".join(
        f"<tr><td>{escape(one.group)}</td><td>{escape(one.cluster)}</td><td>{_badge(one)}</td>"
        f'<td class="number">{one.rebalances:,}</td><td class="number">{one.confidence:.0%}</td>'
        f'<td class="faint">{escape("; ".join(one.missing))}</td></tr>'
        for one in verdicts
    )
    table = _table("Healthy groups", ("group", "cluster", "", "rebalances", "sure", "not certain"), rows)
    return f'<section class="group">{table}</section>'


def _unread(found: Sequence[tuple[str, int, str]]) -> str:
    rows = "".join(
        f'<tr><td>{escape(file)}</td><td class="number">{lines:,}</td><td><code>{escape(example)}</code></td></tr>'
        for file, lines, example in found
    )
    table = _table("Lines about groups that were not understood", ("file", "lines", "such as"), rows)
    return f'<section class="group">{table}</section>'


def _table(title: str, names: Sequence[str], rows: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return f'{heading}<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


# --- the timeline's data ----------------------------------------------------------------------------------------------


def _timeline(verdict: Verdict) -> dict[str, Any]:
    return {
        "label": f"Timeline of group {verdict.group}",
        "from_ms": verdict.began_ms,
        "to_ms": verdict.ended_ms,
        "episodes": [
            {
                "from_ms": one.began_ms,
                "to_ms": one.ended_ms,
                "kind": one.kind,
                "title": f"{one.kind}: {one.rebalances} rebalances in {_lasted(one.ended_ms - one.began_ms)}",
            }
            for one in verdict.episodes
        ],
        "rebalances": [
            {
                "from_ms": one.began_ms,
                "to_ms": one.ended_ms,
                "generation": one.generation,
                "trigger": "cooperative_followup" if one.follow_up else one.trigger,
                "failed": not one.completed,
                "title": _round_title(one),
            }
            for one in verdict.rounds
        ],
        "lanes": [_lane(one) for one in verdict.member_timelines],
        "frequency": [[one.began_ms, one.began_ms + MINUTE_MS, one.rebalances] for one in verdict.minutes],
        "lag": _curve(verdict.minutes),
    }


def _curve(found: Sequence[MinuteStats]) -> list[list[int]]:
    """How far behind at which time, and how much of that because of rounds; in a gap nothing changed."""
    points: list[list[int]] = []
    for one in found:
        if one.behind is None:
            continue
        if points and one.began_ms > points[-1][0]:
            points.append([one.began_ms, *points[-1][1:]])
        points.append([one.began_ms + MINUTE_MS, one.behind, one.behind_by_pauses or 0])
    return points if any(point[1] for point in points) else []


def _round_title(one: RebalanceRound) -> str:
    by = f" by {one.culprit}" if one.culprit else ""
    return (
        f"generation {one.generation}: {one.trigger or 'trigger unknown'}{by}\n"
        f"{_when(one.began_ms)}, {_lasted(one.duration_ms)}, "
        f"members {_count(one.members_before)} → {_count(one.members_after)}"
    )


def _lane(lane: MemberTimeline) -> dict[str, Any]:
    return {
        "name": lane.name,
        "note": lane.host,
        "culprit": lane.culprit,
        "spans": [
            {"from_ms": one.began_ms, "to_ms": one.ended_ms, "kind": "member", "title": one.what} for one in lane.spans
        ],
        "marks": [{"time_ms": one.time_ms, "kind": one.kind, "title": one.what} for one in lane.marks],
    }


# --- words ------------------------------------------------------------------------------------------------------------


def _when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _lasted(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 7_200_000 else f"{ms / 3_600_000:.1f} h"


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)
