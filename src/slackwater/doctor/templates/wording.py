"""Log line templates: wordings, and the regular expressions that match them.

A wording is the line as its library's source has it: `<slot>` captures a value, `<*>` matches any text, `[[…]]` is
optional. Everything else is literal.

Invariants:
- A pattern matches the whole text; the family's suffix allows the logger's name or further lines after the message.
- A loose pattern allows any text after the message: loggers append threads, fields and marks of their own. Where the
  text could become part of a value, a line is only matched loosely if no other pattern matches it.
- Families are tried in order. If a family with `tries_later_families` has a marker in the line, later families are
  tried too. Among the other families, the one whose marker comes first in the line is used.
- Within a family, the keys that the line contains select the templates to try, in their order.
"""

import re
from collections.abc import Callable, Mapping, Sequence
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
"""The values that a template can capture."""

_TOKEN: Final = re.compile(r"<([a-z_]+|\*)>|(\[\[)|(\]\])")
_OPTIONAL: Final = re.compile(r"\[\[(?:(?!\[\[|\]\]).)*\]\]")
_TYPES: Final = COLUMNS | DETAIL
_POSSIBLY_EMPTY: Final = frozenset(
    {"reason", "client_reason", "error", "why", "member_ids", "partitions", "topics", "assignors", "value", "node"}
)
_SINGLE_WORDS: Final = frozenset({"state_before", "operation", "setting", "version", "topic"})
_NAMES: Final = frozenset({"group", "member", "client", "instance", "leader", "assignor", "culprit"})
_LAST_SLOT: Final = re.compile(r"\.([*+])\?((?:\)\??)*)$")
_NAME: Final = r"\S*[^\s.,;:\"'`)\]}\\]"
"""Replaces the dot in the last slot of a loose pattern if the slot is a name: it ends before punctuation."""
_WORD_OR_SPACE: Final = r"(?:\S++|[^\S\n])"
"""Replaces the dot in a slot at the end of a message. SUFFIX matches only before a space and at the end of the text, so
it is tried once for each word; to try it after each character takes about twice as long."""
SUFFIX: Final = r"(?: \([\w.$]+\))?\s*(?:\n[\s\S]*)?$"
"""The text after a message: the logger in brackets, as in Kafka's layout, and the further lines of a long message."""


@dataclass(frozen=True, slots=True)
class Template:
    """One wording of one library, and the event that it reports."""

    name: str
    versions: str
    key: str
    wording: str
    kind: str | None
    also: Mapping[str, str] = field(default_factory=dict)
    """Further slots: a constant, or `<slot>` to copy another slot's value."""


@dataclass(frozen=True, slots=True)
class Family:
    """The templates of one kind of program, with the prefix that its lines share."""

    name: str
    source: str
    markers: tuple[str, ...]
    """Every line of the family contains one of these."""
    prefix: str
    """The pattern from the start of the line to the message."""
    prefix_slots: tuple[str, ...]
    words: tuple[str, ...]
    """A line that no template matches is reported as unrecognized if it contains one of these."""
    templates: tuple[Template, ...]
    suffix: str = SUFFIX
    tries_later_families: bool = False
    """Whether a line with a marker of the family may also belong to a later family."""


def compile_wording(wording: str) -> tuple[str, tuple[str, ...]]:
    """Return the wording's pattern and the slots of its groups."""
    pattern: list[str] = []
    slots: list[str] = []
    position = 0
    for token in _TOKEN.finditer(wording):
        pattern.append(re.escape(wording[position : token.start()]))
        position = token.end()
        if token[2]:
            pattern.append("(?:")
        elif token[3]:
            pattern.append(")?")
        elif token[1] == "*":
            pattern.append(".*?")
        else:
            pattern.append(_capture(token[1]))
            slots.append(token[1])
    pattern.append(re.escape(wording[position:]))
    return "".join(pattern), tuple(slots)


def _capture(slot: str) -> str:
    if slot not in SLOTS:
        raise KeyError(f"a wording has <{slot}>, which is not in SLOTS")
    if _TYPES.get(slot) == LONG:
        return r"(-?\d+)"
    if slot in _SINGLE_WORDS:
        return r"(\S+?)"
    return r"(.*?)" if slot in _POSSIBLY_EMPTY else r"(.+?)"


@dataclass(frozen=True, slots=True, eq=False)
class CompiledTemplate:
    """A template with the pattern for the whole line and the group number of each slot."""

    template: Template
    pattern: str
    groups: Mapping[str, int]
    constants: Mapping[str, str]
    required: str
    """The longest literal that every matching line contains: most lines of other templates do not contain it."""
    match: Callable[[str], re.Match[str] | None]
    match_loosely: Callable[[str], re.Match[str] | None] | None
    """Allows any text after the message; None for a family with a suffix of its own."""
    ends_with_literal: bool
    """Text after the message cannot become part of a value."""
    has_context: bool
    """Whether the text around the message may name what the template does not capture."""

    def matches_loosely(self, text: str) -> re.Match[str] | None:
        """Match a message that any text may follow."""
        return None if self.match_loosely is None else self.match_loosely(text)

    def values(self, match: re.Match[str]) -> dict[str, str]:
        """Return the non-empty values by slot."""
        values = {slot: match[number] for slot, number in self.groups.items() if match[number]}
        return values | {slot: value for slot, value in self.constants.items() if value}


def compile_template(family: Family, template: Template) -> CompiledTemplate:
    """Compile one template of a family."""
    body, body_slots = compile_wording(template.wording)
    groups = {slot: number for number, slot in enumerate((*family.prefix_slots, *body_slots), start=1)}
    constants = {"template": template.name, "kind": template.kind or "", "source": family.source}
    for slot, value in template.also.items():
        reference = _TOKEN.fullmatch(value)
        if reference:
            groups[slot] = groups[reference[1]]
        else:
            constants[slot] = value
    loosely = None
    ends_with_literal = body.endswith(r"\)") or not body.endswith((")", "?"))
    if family.suffix == SUFFIX:
        loosely = re.compile(family.prefix + _loose(body, body_slots), re.ASCII).match
        body = _LAST_SLOT.sub(lambda end: f"{_WORD_OR_SPACE}{end[1]}?{end[2]}", body)
    pattern = family.prefix + body + family.suffix
    constants = {slot: value for slot, value in constants.items() if slot not in groups}
    required = required_literal(template.wording)
    match = re.compile(pattern, re.ASCII).match
    has_context = family.tries_later_families and "client" not in family.prefix_slots
    return CompiledTemplate(
        template, pattern, groups, constants, required, match, loosely, ends_with_literal, has_context
    )


def _first_in_text(
    text: str, competing_families: Sequence[tuple[Sequence[str], Sequence[CompiledTemplate]]]
) -> Sequence[CompiledTemplate]:
    def first(family: tuple[Sequence[str], Sequence[CompiledTemplate]]) -> int:
        return min((place for marker in family[0] if (place := text.find(marker)) >= 0), default=len(text))

    return min(competing_families, key=first)[1]


def _loose(body: str, slots: Sequence[str]) -> str:
    """Return a pattern for a message that any text may follow."""
    if body.endswith(r"(-?\d+)"):
        return body + r"(?!\d)"
    if slots and slots[-1] in _NAMES:
        return _LAST_SLOT.sub(lambda end: _NAME + end[2], body)
    return _LAST_SLOT.sub(lambda end: f".{end[1]}{end[2]}", body)


def required_literal(wording: str) -> str:
    """Return the longest part of a wording that is neither a slot nor optional."""
    mandatory = wording
    while (shorter := _OPTIONAL.sub("<*>", mandatory)) != mandatory:
        mandatory = shorter
    return max(_TOKEN.sub("\n", mandatory).split("\n"), key=len)


def compile_by_key(family: Family) -> dict[str, list[CompiledTemplate]]:
    """Compile a family's templates, grouped by key, in their order."""
    compiled: dict[str, list[CompiledTemplate]] = {}
    for template in family.templates:
        compiled.setdefault(template.key, []).append(compile_template(family, template))
    return compiled


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """The templates to try on a line, and the words that make the line relevant if none matches."""

    templates: Sequence[CompiledTemplate]
    words: Sequence[str]
    competing_families: Sequence[tuple[Sequence[str], Sequence[CompiledTemplate]]] = ()
    """Markers and templates of families without `tries_later_families`, if the line has markers of several: the first
    one in the line counts, the others are part of an id or of another value."""


class TemplateSet:
    """The templates of several families. The literals in a line select the templates to try.

    A set of literals is an integer with bit `n` set for `literals[n]`. The selection depends on nothing else, so it is
    cached by that integer.
    """

    def __init__(self, families: Sequence[Family]) -> None:
        keyed = [(family, compile_by_key(family)) for family in families]
        self.literals: Final = sorted(
            {literal for family, compiled in keyed for literal in (*family.markers, *compiled) if literal}
        )
        bits = {literal: 1 << number for number, literal in enumerate(self.literals)} | {"": 0}
        self._families: Final = [
            (
                family,
                [bits[marker] for marker in family.markers],
                [(bits[key], templates) for key, templates in compiled.items()],
            )
            for family, compiled in keyed
        ]
        self._choices: Final[dict[int, TemplateChoice | None]] = {}

    def choose(self, literals: int) -> TemplateChoice | None:
        """Return the templates for a line with these literals, or None if no family has a marker among them."""
        try:
            return self._choices[literals]
        except KeyError:
            choice = self._choices[literals] = self._choose(literals)
            return choice

    def literals_in(self, text: str) -> int:
        """Return the literals in a text."""
        return sum(1 << number for number, literal in enumerate(self.literals) if literal in text)

    def match(self, text: str, choice: TemplateChoice) -> tuple[CompiledTemplate, re.Match[str]] | None:
        """Return the first template that matches a text, and its match."""
        templates = _first_in_text(text, choice.competing_families) if choice.competing_families else choice.templates
        candidates = [template for template in templates if template.required in text]
        for template in candidates:
            if match := template.match(text) or (template.ends_with_literal and template.matches_loosely(text)):
                return template, match
        for template in candidates:
            if match := template.matches_loosely(text):
                return template, match
        return None

    def read(self, text: str) -> dict[str, str] | None:
        """Return a line's values by slot, {} for a relevant line that no template matches, None for any other line."""
        choice = self.choose(self.literals_in(text))
        if choice is None:
            return None
        if matched := self.match(text, choice):
            template, match = matched
            return template.values(match)
        return {} if any(word in text for word in choice.words) else None

    def _choose(self, literals: int) -> TemplateChoice | None:
        """Return the templates of the families up to the first one without `tries_later_families`."""
        found = [
            (family, [template for bit, templates in keys if bit & literals == bit for template in templates])
            for family, markers, keys in self._families
            if any(bit & literals == bit for bit in markers)
        ]
        if not found:
            return None
        exclusive = [number for number, (family, _) in enumerate(found) if not family.tries_later_families]
        last = exclusive[0] if exclusive else len(found)
        chosen = found[: last + 1]
        return TemplateChoice(
            [template for _, templates in chosen for template in templates],
            [word for family, _ in chosen for word in family.words],
            [(found[number][0].markers, found[number][1]) for number in exclusive] if len(exclusive) > 1 else (),
        )
