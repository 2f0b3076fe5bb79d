r"""`ssl.principal.mapping.rules`: from the name in a client's certificate to the name of its principal (KIP-371).

The first rule whose pattern matches the whole name applies: `RULE:^CN=(.*?),OU=dev.*$/$1/L` makes `alice` of
`CN=Alice,OU=dev,O=Example`. `L` and `U` change the case. `DEFAULT` takes the name as it is.
"""

import re
from typing import Final, NamedTuple

from slackwater.group.errors import UsageError
from slackwater.security.errors import SslAuthenticationError

# A slash in a pattern or a replacement is escaped.
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_GROUP: Final = re.compile(r"\\(.)|\$(\d+)")


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    case: str


class PrincipalMapping:
    """The parsed rules."""

    def __init__(self, rules: str) -> None:
        self._rules: list[_Rule | None] = []  # None: DEFAULT
        at = 0
        while at < len(rules):
            match = _RULE.match(rules, at)
            if match is None or match.end() == at:
                raise _invalid(rules)
            default, pattern, replacement, case = match.groups()
            try:
                self._rules.append(None if default else _Rule(re.compile(pattern), replacement, case))
            except re.error:
                raise _invalid(rules) from None
            at = match.end()

    def name(self, subject: str) -> str:
        """Return the name of the principal, or raise if no rule matches."""
        for rule in self._rules:
            if rule is None:
                return subject
            if (match := rule.pattern.fullmatch(subject)) is None:
                continue
            name = _replace(rule.replacement, match)
            return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        raise SslAuthenticationError(f"no rule of ssl.principal.mapping.rules matches {subject}")


def _replace(replacement: str, match: re.Match[str]) -> str:
    """Fill in the groups, as Java's `replaceAll` does: `$1` is the first."""

    def fill(part: re.Match[str]) -> str:
        literal, group = part.groups()
        if literal is not None:
            return str(literal)
        try:
            return match[int(group)] or ""
        except IndexError:
            return ""

    return _GROUP.sub(fill, replacement)


def _invalid(rules: str) -> UsageError:
    return UsageError(
        f"ssl.principal.mapping.rules = {rules} is not valid; use RULE:PATTERN/REPLACEMENT/[LU] or DEFAULT."
    )
