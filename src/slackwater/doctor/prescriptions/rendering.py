"""Chosen remedies as prescriptions: texts, settings and lines to paste for a library.

Invariants:
- The order of the remedies is the order in which to try them.
- A setting whose number was not measured is left out, and the text names what to measure.
- What a library cannot do, or is not concerned by, is left out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.doctor.prescriptions import numbers
from slackwater.doctor.prescriptions.libraries import LIBRDKAFKA, ONLY_FOR, OWN, SPARK, UNSUPPORTED, properties
from slackwater.doctor.prescriptions.prescription import Prescription
from slackwater.doctor.prescriptions.remedy import Caution, ChosenRemedy, Delay, Remedy
from slackwater.doctor.prescriptions.values import RECORDS_PERCENT
from slackwater.doctor.prescriptions.wording import with_setting_names, wording

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_BASIS: Final = "{basis}"
"""The measurement that a value is based on; without it, the text says what to measure."""
_TO_MEASURE: Final = {
    "pause": "the longest pause",
    "restart": "the longest restart",
    "handler": "the time of the slowest message",
    "herd": "the time in which all members join",
}
"""What a setting is computed from, by the first word of its placeholder."""
_POLL_RECORDS: Final = "max.poll.records"
_SESSION_TIMEOUT: Final = "session.timeout.ms"


def render(chosen: Iterable[ChosenRemedy], library: str | None, figures: Mapping[str, int]) -> tuple[Prescription, ...]:
    """Return the prescriptions for a library. `figures` are those of the cause."""
    prescriptions = (_render(item, library, figures) for item in chosen if library not in item.remedy.not_for)
    possible = [
        item
        for item in prescriptions
        if not UNSUPPORTED.get(library or "", frozenset()) & item.settings.keys()
        and all(library in ONLY_FOR.get(cite, (library,)) for cite in item.cites)
    ]
    return tuple(replace(item, order=order) for order, item in enumerate(possible, start=1))


def _render(chosen: ChosenRemedy, library: str | None, figures: Mapping[str, int]) -> Prescription:
    remedy, values = chosen.remedy, chosen.values | wording(library, chosen.values)
    settings = {name: text for name, value in remedy.settings.items() if (text := _fill(value, values)) is not None}
    what = _fill(remedy.what, values) or _PLACEHOLDER.sub("?", remedy.what)
    what += _to_measure(remedy, settings.keys())
    percent: dict[str, int] = {}
    if _POLL_RECORDS in settings and RECORDS_PERCENT in values:
        percent[_POLL_RECORDS] = int(values[RECORDS_PERCENT])
    if library == OWN and percent:  # it logs every setting that is not the default
        settings[_POLL_RECORDS] = str(max(1, numbers.DEFAULT_POLL_RECORDS * percent.pop(_POLL_RECORDS) // 100))
    session = settings.get(_SESSION_TIMEOUT, "")
    if library == SPARK and session.isdigit() and not figures.get("session_ms"):
        settings[_SESSION_TIMEOUT] = str(max(int(session), numbers.SPARK_SESSION_MS))
    lines = properties(settings)
    if library == LIBRDKAFKA and _POLL_RECORDS in settings:  # the text says what to do without such a setting
        del lines[LIBRDKAFKA]
    return Prescription(
        order=0,
        what=with_setting_names(what, library),
        where=remedy.where,
        cost=with_setting_names(_cost(remedy, values), library),
        settings=settings,
        properties=lines,
        caution=_cautions(remedy.caution, library),
        cites=remedy.cites,
        optional=remedy.optional,
        percent=percent,
    )


def _fill(text: str, values: Mapping[str, str]) -> str | None:
    """Fill in the placeholders; None if a value is missing."""
    if any(match[1] not in values for match in _PLACEHOLDER.finditer(text)):
        return None
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _to_measure(remedy: Remedy, measured: Iterable[str]) -> str:
    """Return what to measure for the settings without a number; empty if all have one, or the text says it."""
    unmeasured = sorted(set(remedy.settings) - set(measured))
    if not unmeasured or _BASIS in remedy.what:
        return ""
    placeholder = _PLACEHOLDER.search(remedy.settings[unmeasured[0]])
    duration = _TO_MEASURE.get(placeholder[1].partition("_")[0] if placeholder else "", "the duration")
    return f" (the logs do not show {duration}: measure it, then set {' and '.join(unmeasured)})"


def _cost(remedy: Remedy, values: Mapping[str, str]) -> str:
    costs = [_delay(cost, values) if isinstance(cost, Delay) else _fill(cost, values) for cost in remedy.cost]
    return "; ".join(cost for cost in costs if cost) or "none"


def _delay(delay: Delay, values: Mapping[str, str]) -> str:
    """Return what happens later, with the numbers if they are known; empty if they are equal."""
    new, present = values.get(delay.new), values.get(delay.present)
    if new is not None and new == present:
        return ""
    if new is not None and not delay.present:
        return f"{delay.what} {new} later{delay.consequence}"
    later = "later" if new is None or present is None else f"after {new} instead of {present}"
    return f"{delay.what} {later}{delay.consequence}"


def _cautions(cautions: Sequence[str | Caution], library: str | None) -> tuple[str, ...]:
    texts = (
        caution if isinstance(caution, str) else caution.text
        for caution in cautions
        if isinstance(caution, str) or caution.applies_to(library)
    )
    return tuple(with_setting_names(text, library) for text in texts)
