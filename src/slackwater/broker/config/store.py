"""The settings in force: defaults, what the start-up said, what AlterConfigs changed.

Rules kept here
- Layers, from weak to strong: default, static (file and command line), dynamic (AlterConfigs), and for a topic its own
  overrides on top of the broker's value of the synonym.
- A setting nobody knows is refused, with the nearest known name; one that belongs to Kafka and means nothing here is
  taken and ignored (`FOREIGN`), because server.properties files carry many of them.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.setting import Setting, Value
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.group.errors import UsageError

# The beginnings of names that a Kafka server.properties may hold and that have no meaning for one embedded broker.
FOREIGN: Final = (
    "advertised.",
    "background.",
    "broker.",
    "controller.",
    "controlled.",
    "client.quota",
    "confluent.",
    "follower.",
    "initial.broker",
    "inter.broker.",
    "leader.",
    "listener",
    "log.dir",
    "log.flush.",
    "metadata.",
    "metric",
    "num.io.",
    "num.network.",
    "num.recovery.",
    "num.replica.",
    "process.roles",
    "replica.",
    "sasl.",
    "security.",
    "share.",
    "socket.",
    "ssl.",
    "streams.",
    "transaction.",
    "zookeeper.",
)


def lookup(known: Mapping[str, Setting], name: str) -> Setting:
    """The setting of this name, or one sentence on what it may have been meant to be."""
    setting = known.get(name)
    if setting is None:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise UsageError(f"{name} is no setting of this broker{hint}")
    return setting


class Settings:
    """A broker's settings."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, Value] = {}
        self.dynamic: dict[str, Value] = {}
        self.ignored: list[str] = []
        self._watchers: list[Callable[[], None]] = []
        for name, text in (given or {}).items():
            if name not in BROKER_SETTINGS and name.startswith(FOREIGN):
                self.ignored.append(name)
            else:
                self.static[name] = lookup(BROKER_SETTINGS, name).parse(text)

    def __getitem__(self, name: str) -> Value:
        for layer in (self.dynamic, self.static):
            if name in layer:
                return layer[name]
        return BROKER_SETTINGS[name].default

    def number(self, name: str) -> int:
        """A whole number."""
        value = self[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """Yes or no."""
        return bool(self[name])

    def text(self, name: str) -> str:
        """A text."""
        return str(self[name])

    def of_topic(self, name: str, overrides: Mapping[str, Value]) -> Value:
        """A topic's setting: its own, or the broker's."""
        return overrides[name] if name in overrides else self[SYNONYMS[name]]

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever AlterConfigs changed something."""
        self._watchers.append(changed)

    def alter(self, changes: Mapping[str, Value | None]) -> None:
        """Set dynamic values; None removes one."""
        for name, value in changes.items():
            if value is None:
                self.dynamic.pop(name, None)
            else:
                self.dynamic[name] = value
        for changed in self._watchers:
            changed()


def parse_topic(given: Mapping[str, str]) -> dict[str, Value]:
    """A topic's overrides, checked."""
    return {name: lookup(TOPIC_SETTINGS, name).parse(text) for name, text in given.items()}


def read_properties(path: Path) -> dict[str, str]:
    """A Java properties file, as far as server.properties files go: key=value, comments, continued lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}.") from error
    return dict(_pairs(text.replace("\\\n", "").splitlines(), path))


def _pairs(lines: Iterable[str], path: Path) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if line and line[0] not in "#!":
            name, found, value = line.partition("=")
            if not found:
                raise UsageError(f"{path}, line {number}: {line!r} is no setting; write name=value.")
            yield name.strip(), value.strip()
