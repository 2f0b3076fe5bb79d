"""The lines of a prescription that a user pastes into a configuration, and where they belong."""

from collections.abc import Sequence

from slackwater.doctor.prescriptions.libraries import BROKER, SPARK, UNKNOWN_LIBRARY
from slackwater.doctor.prescriptions.prescription import Prescription


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
    if prescription.settings.keys() == {"group.instance.id"}:
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
