"""Log lines as they are worded, and the patterns that read them.

Rules kept here
- A wording is the line itself, as its library's source has it: `<slot>` where a value stands, `<*>` where something
  stands that nobody asks for, `[[…]]` around what may be missing. All else is taken literally.
- Patterns keep to a small dialect (spark/doctor/history/patterns.py): numbered groups, classes, lazy runs of one
  character.
- A pattern spans the whole text: what follows the message is the logger's name, or the rest of a longer message.
- The first family with a marker in the text has it, and of its templates the first with its `key` in the text; only
  templates that share a key are tried one after the other. So a key must be telling, and what is telling comes first.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.doctor.events.table import COLUMNS, DETAIL, LONG

SLOTS: Final = (
    "template",
    "kind",
    "source",
    "head",
    "group",
    "generation",
    "member",
    "node",
    "members",
    "client",
    "group_protocol",
    "old_generation",
    "reason",
    "state_before",
    "leader",
    "static_members",
    "by",
    "trigger",
    "instance",
    "host",
    "assignor",
    "client_reason",
    "error",
    "why",
    "operation",
    "pending",
    "culprit",
    "member_ids",
    "old_member",
    "holder",
    "old_leader",
    "epoch",
    "assignors",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "timer",
    "timer_ms",
    "duration_ms",
    "limit_ms",
    "over_ms",
    "rebalance_needed",
    "metadata_changed",
    "topics",
    "topic",
    "partition",
    "partitions",
    "count",
    "setting",
    "value",
    "version",
)
"""What a line can tell."""

_PLACE: Final = re.compile(r"<([a-z_]+|\*)>|(\[\[)|(\]\])")
_TYPES: Final = COLUMNS | DETAIL
_TAILS: Final = frozenset(
    {"reason", "client_reason", "error", "why", "member_ids", "partitions", "topics", "assignors", "value", "node"}
)
_WORDS: Final = frozenset({"state_before", "operation", "setting", "version", "topic"})
SUFFIX: Final = r"(?: \([\w.$]+\))?\s*(?:\n[\s\S]*)?$"
"""What may follow a message: the logger in brackets, as Kafka's layout has it, and the lines of a longer message."""


@dataclass(frozen=True, slots=True)
class Template:
    """One line, as one library in some of its versions words it."""

    name: str
    versions: str
    key: str
    wording: str
    kind: str | None
    also: Mapping[str, str] = field(default_factory=dict)
    """Slots that the words do not have and the template knows: a constant, or `<slot>` for what stands in that one."""


@dataclass(frozen=True, slots=True)
class Family:
    """The lines that one kind of program writes, and what they begin with."""

    name: str
    source: str
    markers: tuple[str, ...]
    """A line of this family contains one of them; families are tried in order, and the first one has the line."""
    prefix: str
    """A pattern from the line's beginning to its message."""
    prefix_slots: tuple[str, ...]
    words: tuple[str, ...]
    """A line that no template reads is still relevant if it contains one of these; with none, none is."""
    templates: tuple[Template, ...]
    suffix: str = SUFFIX


def compile_wording(wording: str) -> tuple[str, tuple[str, ...]]:
    """A wording's pattern, and the slots of its groups."""
    pattern: list[str] = []
    slots: list[str] = []
    at = 0
    for place in _PLACE.finditer(wording):
        pattern.append(re.escape(wording[at : place.start()]))
        at = place.end()
        if place[2]:
            pattern.append("(?:")
        elif place[3]:
            pattern.append(")?")
        elif place[1] == "*":
            pattern.append(".*?")
        else:
            pattern.append(_capture(place[1]))
            slots.append(place[1])
    pattern.append(re.escape(wording[at:]))
    return "".join(pattern), tuple(slots)


def _capture(slot: str) -> str:
    if slot not in SLOTS:
        raise KeyError(f"a wording has <{slot}>, which is no slot")
    if _TYPES.get(slot) == LONG:
        return r"(-?\d+)"
    if slot in _WORDS:
        return r"(\S+?)"
    return r"(.*?)" if slot in _TAILS else r"(.+?)"


@dataclass(frozen=True, slots=True)
class Reading:
    """A template made ready: the pattern over the whole text, and which group fills which slot."""

    template: Template
    pattern: str
    groups: Mapping[str, int]
    constants: Mapping[str, str]


def reading(family: Family, template: Template) -> Reading:
    """Make a family's template ready."""
    body, body_slots = compile_wording(template.wording)
    groups = {slot: number for number, slot in enumerate((*family.prefix_slots, *body_slots), start=1)}
    constants = {"template": template.name, "kind": template.kind or "", "source": family.source}
    for slot, value in template.also.items():
        same = _PLACE.fullmatch(value)
        if same:
            groups[slot] = groups[same[1]]
        else:
            constants[slot] = value
    return Reading(template, family.prefix + body + family.suffix, groups, constants)


def compile_by_key(family: Family) -> dict[str, list[Reading]]:
    """A family's templates made ready, those of one key together, in order."""
    found: dict[str, list[Reading]] = {}
    for template in family.templates:
        found.setdefault(template.key, []).append(reading(family, template))
    return found


class TemplateSet:
    """Reads single texts by the families' templates: what Spark's workers do to columns, done to one text."""

    def __init__(self, families: tuple[Family, ...]) -> None:
        self._families = [
            (
                family,
                [
                    (key, [(made, re.compile(made.pattern)) for made in some])
                    for key, some in compile_by_key(family).items()
                ],
            )
            for family in families
        ]

    def read(self, text: str) -> dict[str, str] | None:
        """A line's values by slot; {} for a relevant line that no template reads, None for one that does not matter."""
        for family, keys in self._families:
            if any(marker in text for marker in family.markers):
                return _read(text, keys) or ({} if any(word in text for word in family.words) else None)
        return None


def _read(text: str, keys: list[tuple[str, list[tuple[Reading, re.Pattern[str]]]]]) -> dict[str, str] | None:
    for made, pattern in next((some for key, some in keys if key in text), []):
        if match := pattern.match(text):
            values = {slot: match[number] for slot, number in made.groups.items() if match[number]}
            return values | {slot: value for slot, value in made.constants.items() if value}
    return None
