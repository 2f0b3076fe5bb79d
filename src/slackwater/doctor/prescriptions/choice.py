"""The remedies for a cause, chosen by the figures of a group."""

from collections.abc import Mapping
from typing import Final

from slackwater.doctor.prescriptions.remedies import REMEDIES, SHARED_DELAY
from slackwater.doctor.prescriptions.remedy import ChosenRemedy, Remedy
from slackwater.doctor.prescriptions.values import POLL_RECORDS_FIGURE, values_of

_POLL_RECORDS: Final = "max.poll.records"


def choose_remedies(
    cause: str, figures: Mapping[str, int], *, is_cooperative: bool = False
) -> tuple[ChosenRemedy, ...]:
    """Return the remedies for a cause, given the measured figures and whether rebalances are incremental."""
    is_late = cause.endswith("poll_delay")  # the figures are those of all findings
    if cause == "poll_delay" and figures.get("handler_blocks"):
        cause = "handler_blocks_heartbeats"
    if is_late and figures.get("rejoined_late"):
        cause = "rejoined_late"
    if cause == "startup_herd" and figures.get("rounds") == 1:
        cause = "startup_in_one_round"
    values = values_of(figures)
    remedies = [remedy for remedy in REMEDIES.get(cause, ()) if not (is_cooperative and _is_cooperative(remedy))]
    if cause == "session_expiry" and "pause_session_ms" not in values:
        remedies.reverse()  # the pause must be found first: its length decides the session timeout
    if is_late and figures.get("together_ms"):
        remedies = [SHARED_DELAY, *remedies]
    if figures.get(POLL_RECORDS_FIGURE) == 1:
        remedies = [remedy for remedy in remedies if _POLL_RECORDS not in remedy.settings]
    return tuple(ChosenRemedy(remedy, values) for remedy in remedies)


def check_version(what: str, cite: str) -> ChosenRemedy:
    """Return the advice to compare a version with those that have a known bug."""
    return ChosenRemedy(Remedy(what, ("an upgrade",), where="operations", cites=(cite,)), {})


def _is_cooperative(remedy: Remedy) -> bool:
    return "cooperative-sticky" in remedy.settings.values()
