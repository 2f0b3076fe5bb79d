"""A prescription: a remedy as text, with the numbers of a group and the setting names of its library."""

from dataclasses import dataclass, field

from slackwater.doctor.events.serialization import pickle_by_fields


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
