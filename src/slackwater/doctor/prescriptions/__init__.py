"""Prescriptions: what to set, per library, with the numbers of this history, the cost and the conflicts.

Invariants:
- A prescription is a remedy with its numbers filled in; the order is the order in which to try them.
- A session timeout is never lowered; an unknown present value is taken to be the library's default.
- A value that depends on an unknown present value is a part of it ("44 % of the present value"), in `percent`.
- What the group already has is not prescribed, nor what its library cannot do.
- A setting whose number was not measured is left out, and the text names what to measure.
- `settings` (Kafka's names and values) are all that a simulator needs to replay the history.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slackwater.doctor.defaults import SESSION_TIMEOUT_MS
from slackwater.doctor.events.serialization import pickle_by_fields
from slackwater.doctor.prescriptions import numbers
from slackwater.doctor.prescriptions.libraries import (
    BROKER,
    LIBRDKAFKA,
    ONLY_FOR,
    OWN,
    PROPERTIES,
    SPARK,
    UNKNOWN_LIBRARY,
    UNSUPPORTED,
    WITH_UNDERSCORES,
    WITHOUT_POLL_TIMER,
    properties,
)
from slackwater.doctor.prescriptions.remedies import (
    ABOVE_THE_POLL_INTERVAL,
    DEPLOY_TWICE,
    FEWER_RECORDS,
    OFF_THE_POLL_THREAD,
    REMEDIES,
    SHARED_DELAY,
    STOP_ONCE,
    Remedy,
)

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_CHANGE: Final = re.compile(r"\{(\w+)\} instead of \{(\w+)\}")
_BASIS: Final = "{basis}"
"""The measurement that a value is based on; without it, the text says what to measure."""
_TO_MEASURE: Final = {
    "pause": "the longest pause",
    "restart": "the longest restart",
    "handler": "the time of the slowest message",
    "herd": "the time in which all members join",
}
"""What a setting is computed from, by the first word of its placeholder."""
_CLIENT_SETTING: Final = re.compile(
    rf"(?<![\w.])(?:{'|'.join(re.escape(name) for name, lines in PROPERTIES.items() if OWN in lines)})(?![\w]|\.\w)"
)
_COOLDOWN_PERIODS: Final = 4
_HANDLE_FEWER: Final = "handle fewer messages at a time"
_READ_FEWER: Final = "read fewer records per micro-batch"
_CONSUME_FEWER: Final = "handle fewer messages per consume() call"
_POLL_IS_ONE: Final = "; with poll(), which returns one message at a time, only a faster handler helps"
MAX_POLL_INTERVAL: Final = "max.poll.interval.ms"
POLL_RECORDS: Final = "max.poll.records"
POLL_RECORDS_KEY: Final = "poll_records"
SESSION: Final = "session.timeout.ms"
INSTANCE_ID: Final = "group.instance.id"


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Prescription:
    """One thing to do, with the numbers of this group."""

    order: int
    what: str
    where: str
    cost: str
    settings: dict[str, str]
    properties: dict[str, tuple[str, ...]]
    caution: tuple[str, ...]
    cites: tuple[str, ...]
    optional: bool
    percent: dict[str, int] = field(default_factory=dict)
    """Settings whose present value is unknown: what percentage of it to set."""


def prescribe(cause: str, figures: Mapping[str, int], *, is_cooperative: bool = False) -> tuple[Prescription, ...]:
    """Return the prescriptions for a cause, given the measured figures and whether rebalances are incremental."""
    is_late = cause.endswith("poll_delay")  # the figures are those of all findings
    if cause == "poll_delay" and figures.get("handler_blocks"):
        cause = "handler_blocks_heartbeats"
    if is_late and figures.get("rejoined_late"):
        cause = "rejoined_late"
    if cause == "startup_herd" and figures.get("rounds") == 1:
        cause = "startup_in_one_round"
    values = _values(figures)
    remedies = [remedy for remedy in REMEDIES.get(cause, ()) if not (is_cooperative and _is_cooperative(remedy))]
    if cause == "session_expiry" and "pause_session_ms" not in values:
        remedies.reverse()  # the pause must be found first: its length decides the session timeout
    if is_late and figures.get("together_ms"):
        remedies = [SHARED_DELAY, *remedies]
    if figures.get("poll_records") == 1:
        remedies = [remedy for remedy in remedies if POLL_RECORDS not in remedy.settings]
    prescriptions = _numbered(_fill_in(remedy, values) for remedy in remedies)
    if POLL_RECORDS_KEY in figures:
        return prescriptions
    percent = numbers.percent_of_records(figures.get("limit_ms"), _longest_ms(figures))
    return tuple(
        _with_percent(item, percent, figures) if percent and POLL_RECORDS in item.settings else item
        for item in prescriptions
    )


def _with_percent(item: Prescription, percent: int, figures: Mapping[str, int]) -> Prescription:
    longest, limit = numbers.measured(_longest_ms(figures) or 0), numbers.seconds(figures["limit_ms"])
    why = f"{longest} must fit into {limit} with a third of it as a margin"
    return replace(item, what=f"{item.what}: {percent} % of the present value ({why})", percent={POLL_RECORDS: percent})


def check_version(what: str, cite: str) -> Prescription:
    """Return the advice to compare a version with those that have a known bug."""
    return _fill_in(Remedy(what, "an upgrade", where="operations", cites=(cite,)), {})


def for_library(
    prescriptions: Sequence[Prescription], library: str | None, figures: Mapping[str, int]
) -> tuple[Prescription, ...]:
    """Leave out what the library cannot do or is not concerned by, and use its defaults for unknown present values."""
    possible = [
        item
        for item in prescriptions
        if not UNSUPPORTED.get(library or "", frozenset()) & item.settings.keys()
        and not (library == SPARK and item.what == OFF_THE_POLL_THREAD.what)
        and all(library in ONLY_FOR.get(cite, (library,)) for cite in item.cites)
    ]
    return _numbered(_adapt(item, library, figures) for item in possible)


def _adapt(item: Prescription, library: str | None, figures: Mapping[str, int]) -> Prescription:
    settings, percent = dict(item.settings), dict(item.percent)
    if library == OWN and POLL_RECORDS in percent:  # it logs every setting that is not the default
        settings[POLL_RECORDS] = str(max(1, numbers.DEFAULT_POLL_RECORDS * percent.pop(POLL_RECORDS) // 100))
        item = replace(item, what=item.what.rpartition(":")[0])
    if library == LIBRDKAFKA and item.what.startswith(FEWER_RECORDS):
        what = item.what.replace(FEWER_RECORDS, _CONSUME_FEWER)
        what = what.replace("of the present value", "of the present number")
        item = replace(
            item,
            what=what + _POLL_IS_ONE,
            properties={name: lines for name, lines in item.properties.items() if name != LIBRDKAFKA},
        )
    if library == SPARK:
        item = replace(item, what=item.what.replace(FEWER_RECORDS, _READ_FEWER))
    if library == LIBRDKAFKA:
        item = replace(item, cost=item.cost.replace(DEPLOY_TWICE + STOP_ONCE, "stop all members once"))
    elif library is not None:
        item = replace(item, cost=item.cost.replace(STOP_ONCE, ""))
    session = settings.get(SESSION, "")
    if library == SPARK and session.isdigit() and not figures.get("session_ms"):
        settings[SESSION] = str(max(int(session), numbers.SPARK_SESSION_MS))
    caution = tuple(text for text in item.caution if text != ABOVE_THE_POLL_INTERVAL or library in (None, LIBRDKAFKA))
    if library in WITHOUT_POLL_TIMER:
        item = replace(item, what=_without_poll_timer(item.what), cost=_without_poll_timer(item.cost))
        caution = tuple(_without_poll_timer(text) for text in caution if "is also the rebalance timeout" not in text)
    if library in WITH_UNDERSCORES:
        item = replace(item, what=_with_underscores(item.what), cost=_with_underscores(item.cost))
        caution = tuple(map(_with_underscores, caution))
    lines = properties(settings) if settings != item.settings else item.properties
    return replace(item, settings=settings, properties=lines, caution=caution, percent=percent)


def _without_poll_timer(text: str) -> str:
    """Return a text for a library whose only limit for a batch is the rebalance timeout."""
    return text.replace(FEWER_RECORDS, _HANDLE_FEWER).replace(MAX_POLL_INTERVAL, "the rebalance timeout")


def _with_underscores(text: str) -> str:
    """Return a text with the settings of clients as Python libraries write them."""
    return _CLIENT_SETTING.sub(lambda match: match[0].replace(".", "_"), text)


def lines_to_paste(prescription: Prescription, library: str | None) -> Sequence[str]:
    """Return the lines for the group's library, for a broker, or, if the library is unknown, those for Java."""
    return prescription.properties.get(library or UNKNOWN_LIBRARY) or prescription.properties.get(BROKER) or ()


def place_to_paste(prescription: Prescription, library: str | None = None) -> str:
    """Return where the lines of a prescription belong; empty if it has none."""
    if not prescription.properties:
        return ""
    if library == SPARK and SPARK in prescription.properties:
        return "set as an option of readStream in every query of the group; then restart it"
    lines = prescription.properties.get(BROKER)
    if prescription.settings.keys() == {INSTANCE_ID}:
        return "set in the configuration of each process, with a value of its own; then restart it"
    if lines is None:
        return "set in the configuration of every consumer of the group; then restart them"
    if lines[0].startswith("kafka-configs.sh"):
        return "run on any machine that reaches the broker; no restart is needed"
    return "set in the configuration of every broker; then restart them"


def settings_note(library: str | None) -> str:
    """Return whose names the settings have."""
    if library is None:
        return "the client library is not known; settings as for Java"
    return f"setting names are those of {library}"


def _numbered(prescriptions: Iterable[Prescription]) -> tuple[Prescription, ...]:
    return tuple(replace(item, order=order) for order, item in enumerate(prescriptions, start=1))


def _is_cooperative(remedy: Remedy) -> bool:
    return "cooperative-sticky" in remedy.settings.values()


def _longest_ms(figures: Mapping[str, int]) -> int | None:
    """Return the time of the longest batch; None if the input only shows that it was longer than the limit."""
    longest = figures.get("p99_ms") or figures.get("longest_ms")
    return None if longest is not None and longest <= figures.get("limit_ms", 0) else longest


def _fill_in(remedy: Remedy, values: Mapping[str, str]) -> Prescription:
    settings = {name: text for name, value in remedy.settings.items() if (text := _fill(value, values)) is not None}
    unmeasured = sorted(set(remedy.settings) - set(settings))
    what = _fill(remedy.what, values) or _PLACEHOLDER.sub("?", remedy.what)
    if unmeasured and _BASIS not in remedy.what:
        placeholder = _PLACEHOLDER.search(remedy.settings[unmeasured[0]])
        duration = _TO_MEASURE.get(placeholder[1].partition("_")[0] if placeholder else "", "the duration")
        what += f" (the logs do not show {duration}: measure it, then set {' and '.join(unmeasured)})"
    return Prescription(
        order=0,
        what=what,
        where=remedy.where,
        cost=_fill(_without_equal_numbers(remedy.cost, values), values) or _without_numbers(remedy.cost),
        settings=settings,
        properties=properties(settings),
        caution=remedy.caution,
        cites=remedy.cites,
        optional=remedy.optional,
    )


def _fill(text: str, values: Mapping[str, str]) -> str | None:
    """Fill in the placeholders; None if a value is missing."""
    if any(match[1] not in values for match in _PLACEHOLDER.finditer(text)):
        return None
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _without_equal_numbers(text: str, values: Mapping[str, str]) -> str:
    """Remove a clause `… after {new} instead of {now}` whose numbers are equal; "none" if nothing is left."""
    clauses = [
        clause
        for clause in text.split("; ")
        if not ((match := _CHANGE.search(clause)) and values.get(match[1], "?") == values.get(match[2]))
    ]
    return "; ".join(clauses) or "none"


def _without_numbers(text: str) -> str:
    return re.sub(r" after \{\w+\} instead of \{\w+\}", " later", text).replace("{herd_delay} later", "later")


def _basis(figures: Mapping[str, int]) -> str:
    """Return the measurement that a limit for batches is based on."""
    batches = figures.get("late_batches", 0)
    if p99 := figures.get("p99_ms"):
        return f"the 99th percentile of {batches} late batches ({numbers.measured(p99)})"
    if batches > 1 and _longest_ms(figures):
        return f"the longest of {batches} late batches ({numbers.measured(figures['longest_ms'])})"
    if _longest_ms(figures):
        return "the longest batch"
    limit = figures.get("limit_ms")
    shows = f"shows only that it takes more than {numbers.seconds(limit)}" if limit else "does not show its duration"
    return f"the longest batch (measure it: the input {shows})"


def _values(figures: Mapping[str, int]) -> dict[str, str]:
    """Return all values for placeholders that can be computed."""
    values: dict[str, str] = {}
    limit, longest = figures.get("limit_ms"), _longest_ms(figures)
    values["basis"] = _basis(figures)
    poll = numbers.with_margin(longest)
    if poll is not None and limit:
        values["poll_interval_ms"], values["poll"] = str(poll), numbers.seconds(poll)
        values["poll_now"] = numbers.seconds(limit)
    percent = numbers.percent_of_records(limit, longest)
    if records := figures.get(POLL_RECORDS_KEY):
        if (fewer := numbers.fewer_records(limit, longest, records)) is not None:
            values["poll_records"] = str(fewer)
    elif percent is not None:
        values["poll_records"] = f"{percent} % of the present value"
    for name in ("pause", "restart", "handler"):
        session = numbers.with_margin(figures.get(f"{name}_ms") or (longest if name == "handler" else None))
        if session is not None:
            present = figures.get("session_ms") or SESSION_TIMEOUT_MS
            session = min(max(session, present, numbers.MIN_SESSION_MS), numbers.MAX_SESSION_MS)
            values[f"{name}_session_ms"] = str(session)
            values[f"{name}_heartbeat_ms"] = str(numbers.heartbeat(session))
            values.setdefault("session", numbers.seconds(session))
            if name == "restart" and present == session:  # also if it is unknown: then both are the default
                values["session_now"] = values["session"]
    if session_now := figures.get("session_ms"):
        values["session_now"] = numbers.seconds(session_now)
    if period := figures.get("period_ms"):
        values["cooldown"] = numbers.seconds(numbers.round_up(_COOLDOWN_PERIODS * period))
    if (spread := numbers.with_margin(figures.get("spread_ms"))) is not None:
        values["herd_delay_ms"], values["herd_delay"] = str(spread), numbers.seconds(spread)
    return values
