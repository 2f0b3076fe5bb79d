"""Definition of a setting: Kafka name, type, default and allowed values.

Invariants:
- An invalid value raises a `UsageError` that names the setting, the value and the allowed values.
- Values are stored with their type and formatted as Kafka's tools show them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from slackwater.group.errors import UsageError

Value = int | float | bool | str | tuple[str, ...]

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


class SettingType(IntEnum):
    """The setting types of DescribeConfigs, with their numbers on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting; `low` and `high` limit numbers, `choices` limits text."""

    name: str
    kind: SettingType
    default: Value
    doc: str
    low: int | float | None = None
    high: int | float | None = None
    choices: tuple[str, ...] = ()
    dynamic: bool = False  # AlterConfigs may change it while the broker runs

    def parse(self, text: str) -> Value:
        """Parse a value; raise `UsageError` if it is invalid."""
        value = _PARSERS[self.kind](self, text.strip())
        self._check(value, text)
        return value

    def _check(self, value: Value, text: str) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.low is not None and value < self.low:
                raise UsageError(f"{self.name} = {text} is too small; use {self.low} or more.")
            high = self.high if self.high is not None else _MAX_VALUES.get(self.kind)
            if high is not None and value > high:
                raise UsageError(f"{self.name} = {text} is too large; use {high} or less.")
        if self.choices:
            for word in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
                if word not in self.choices:
                    choices = ", ".join(filter(None, self.choices))
                    raise UsageError(f"{self.name} = {text} is unknown; use one of {choices}.")

    def type_error(self, text: str, expected: str) -> UsageError:
        """Return the error for a value of the wrong type."""
        return UsageError(f"{self.name} = {text!r} is not {expected}.")


def int_setting(name: str, default: int, doc: str, *, low: int | None = None, dynamic: bool = False) -> Setting:
    """Define a 32-bit integer setting."""
    return Setting(name=name, kind=SettingType.INT, default=default, low=low, doc=doc, dynamic=dynamic)


def long_setting(name: str, default: int, doc: str, *, low: int | None = None, dynamic: bool = False) -> Setting:
    """Define a 64-bit integer setting."""
    return Setting(name=name, kind=SettingType.LONG, default=default, low=low, doc=doc, dynamic=dynamic)


def flag_setting(name: str, default: bool, doc: str, *, dynamic: bool = False) -> Setting:
    """Define a boolean setting."""
    return Setting(name=name, kind=SettingType.BOOLEAN, default=default, doc=doc, dynamic=dynamic)


def choice_setting(name: str, default: str, choices: tuple[str, ...], doc: str) -> Setting:
    """Define a setting with a fixed list of values."""
    return Setting(name=name, kind=SettingType.STRING, default=default, choices=choices, doc=doc)


def text_setting(name: str, default: str, doc: str, *, dynamic: bool = False) -> Setting:
    """Define a text setting."""
    return Setting(name=name, kind=SettingType.STRING, default=default, doc=doc, dynamic=dynamic)


def list_setting(name: str, doc: str, *, default: tuple[str, ...] = (), choices: tuple[str, ...] = ()) -> Setting:
    """Define a setting with a list of words."""
    return Setting(name=name, kind=SettingType.LIST, default=default, choices=choices, doc=doc)


def password_setting(name: str, doc: str, *, dynamic: bool = False) -> Setting:
    """Define a secret; no error, log line or description shows its value."""
    return Setting(name=name, kind=SettingType.PASSWORD, default="", doc=doc, dynamic=dynamic)


def format_value(value: Value) -> str:
    """Format a value as Kafka's tools show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _boolean(setting: Setting, text: str) -> Value:
    if text.lower() not in ("true", "false"):
        raise setting.type_error(text, "true or false")
    return text.lower() == "true"


def _integer(setting: Setting, text: str) -> Value:
    try:
        return int(text)
    except ValueError:
        raise setting.type_error(text, "a whole number") from None


def _number(setting: Setting, text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        raise setting.type_error(text, "a number") from None


_PARSERS: Final[dict[SettingType, Callable[[Setting, str], Value]]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.STRING: lambda _setting, text: text,
    SettingType.PASSWORD: lambda _setting, text: text,
    SettingType.INT: _integer,
    SettingType.LONG: _integer,
    SettingType.DOUBLE: _number,
    SettingType.LIST: lambda _setting, text: tuple(word.strip() for word in text.split(",") if word.strip()),
}
_MAX_VALUES: Final = {SettingType.INT: MAX_INT, SettingType.LONG: MAX_LONG}
