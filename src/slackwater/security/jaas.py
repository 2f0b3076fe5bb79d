"""Java's `sasl.jaas.config`: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Invariants:
- No error shows an option's value: it may be a password.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from slackwater.group.errors import UsageError

_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;]))""", re.DOTALL)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_EXPECTED: Final = 'write LoginModuleClass required name="value";'


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module: its class without the package, and its options."""

    name: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Parse the value of `sasl.jaas.config`."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", False) or tokens.count((";", False)) != 1:
        raise UsageError(f"sasl.jaas.config needs one login module that ends with a semicolon; {_EXPECTED}")
    (class_name, _), (flag, _), *rest = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise UsageError(f"sasl.jaas.config has no control flag after the login module; {_EXPECTED}")
    options: dict[str, str] = {}
    if len(rest) % 3:
        raise UsageError(f"sasl.jaas.config has an incomplete option; {_EXPECTED}")
    for (name, _), (equals, is_quoted), (value, _) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != "=" or is_quoted:
            raise UsageError(f"sasl.jaas.config has an option without `=`; {_EXPECTED}")
        options[name] = value
    return LoginModule(class_name.rpartition(".")[2], options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return the words and the marks `=` and `;`, each with whether it was quoted."""
    tokens: list[tuple[str, bool]] = []
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"sasl.jaas.config has a quote without its end; {_EXPECTED}")
        double, single, word, mark = match.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            tokens.append((re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted), True))
        else:
            tokens.append((word or mark, False))
        at = match.end()
    return tokens
