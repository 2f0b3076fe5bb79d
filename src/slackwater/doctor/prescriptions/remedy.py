"""A remedy as data: what to do, what it costs and what it conflicts with, without the numbers of a group.

Texts have placeholders: measured values (`values.py`) and what libraries call differently (`wording.py`).
"""

from dataclasses import dataclass, field

from slackwater.doctor.events.serialization import pickle_by_fields


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Delay:
    """A cost: something happens later. It is left out if both values are equal."""

    what: str
    new: str
    """The name of the value after the change."""
    present: str = ""
    """The name of the value before the change; empty if there is none."""
    consequence: str = ""


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Caution:
    """What a remedy conflicts with, for the clients of some libraries only."""

    text: str
    only_for: frozenset[str | None] | None = None
    """None means all libraries. In the set, None is an unknown library."""
    not_for: frozenset[str] = frozenset()

    def applies_to(self, library: str | None) -> bool:
        """Return whether the clients of a library are concerned."""
        return (self.only_for is None or library in self.only_for) and library not in self.not_for


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do."""

    what: str
    cost: tuple[str | Delay, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    where: str = "client"
    caution: tuple[str | Caution, ...] = ()
    cites: tuple[str, ...] = ()
    optional: bool = False
    not_for: frozenset[str] = frozenset()
    """Libraries whose clients cannot do it, although they have its settings."""


@pickle_by_fields
@dataclass(frozen=True, slots=True)
class ChosenRemedy:
    """A remedy for one group, with the values of its placeholders."""

    remedy: Remedy
    values: dict[str, str]
