"""The settings in force: defaults, what the start-up said, what AlterConfigs changed.

Rules kept here
- Layers, from weak to strong: default, static (file and command line), what AlterConfigs set for all brokers of the
  cluster, what it set for this one, and for a topic its own overrides on top of the broker's value of the synonym.
- A setting nobody knows is refused, with the nearest known name; one that belongs to Kafka and means nothing here is
  taken and ignored (`FOREIGN`), because server.properties files carry many of them.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.listeners import advertised_address
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.group.errors import UsageError
from slackwater.settings import Setting, Value

# The beginnings of names that a Kafka server.properties may hold and that have no meaning for one embedded broker.
FOREIGN: Final = (
    "add.partitions.",
    "advertised.",
    "alter.",
    "auto.leader.",
    "background.",
    "broker.",
    "client.quota",
    "config.providers",
    "confluent.",
    "connection.failed.",
    "connections.max.reauth.",
    "controlled.",
    "controller.",
    "cordoned.",
    "create.topic.policy.",
    "delegation.",
    "delete.records.",
    "early.",
    "fetch.purgatory.",
    "follower.",
    "group.consumer.",
    "group.coordinator.",
    "group.share.",
    "group.streams.",
    "initial.broker",
    "inter.broker.",
    "kafka.metrics.",
    "leader.",
    "listener",
    "log.cleaner.dedupe.",
    "log.cleaner.io.",
    "log.cleaner.threads",
    "log.dir",
    "log.flush.",
    "max.connection.",
    "max.connections.per.",
    "metadata.",
    "metric",
    "num.io.",
    "num.network.",
    "num.recovery.",
    "num.replica.",
    "offsets.commit.",
    "offsets.load.",
    "offsets.topic.compression.",
    "principal.",
    "process.roles",
    "producer.purgatory.",
    "queued.max.request.bytes",
    "quota.",
    "remote.",
    "replica.",
    "replication.",
    "request.timeout.",
    "sasl.",
    "security.",
    "share.",
    "socket.",
    "ssl.",
    "streams.",
    "telemetry.",
    "transaction.",
    "transactional.",
    "zookeeper.",
)


# Kafka's other names of a setting, the stronger first, and what one of theirs is in ours.
OTHER_NAMES: Final = {
    "broker.id": ("node.id", 1),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}
_ONE_REPLICA: Final = ("default.replication.factor", "offsets.topic.replication.factor")


def is_foreign(name: str) -> bool:
    """Whether a setting is Kafka's and means nothing here."""
    return name not in BROKER_SETTINGS and name.startswith(FOREIGN)


def find_setting(known: Mapping[str, Setting], name: str) -> Setting:
    """The setting of this name, or one sentence on what it may have been meant to be."""
    setting = known.get(name)
    if setting is None:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        whose = "a topic" if known is TOPIC_SETTINGS else "this broker"
        raise UsageError(f"{name} is no setting of {whose}{hint}")
    return setting


class Settings:
    """A broker's settings."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, Value] = {}
        self.cluster: dict[str, Value] = {}
        self.dynamic: dict[str, Value] = {}
        self.ignored: list[str] = []
        self._watchers: list[Callable[[], None]] = []
        for name, text in _under_our_names(given or {}).items():
            if is_foreign(name):
                self.ignored.append(name)
            else:
                self.static[name] = find_setting(BROKER_SETTINGS, name).parse(text)
        self.check()

    def __getitem__(self, name: str) -> Value:
        for layer in (self.dynamic, self.cluster, self.static):
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
        if name in overrides:
            return overrides[name]
        return self[SYNONYMS[name]] if name in SYNONYMS else TOPIC_SETTINGS[name].default

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever AlterConfigs changed something."""
        self._watchers.append(changed)

    def alter(self, changes: Mapping[str, Value | None]) -> None:
        """Set dynamic values of this broker; None removes one."""
        merged = {**self.dynamic, **changes}
        self.set_dynamic(self.cluster, {name: value for name, value in merged.items() if value is not None})

    def set_dynamic(self, cluster: Mapping[str, Value], dynamic: Mapping[str, Value]) -> None:
        """Put other dynamic values into force: those for all brokers, and those for this one."""
        self.cluster, self.dynamic = dict(cluster), dict(dynamic)
        for changed in self._watchers:
            changed()

    def with_dynamic(self, cluster: Mapping[str, Value], dynamic: Mapping[str, Value]) -> "Settings":
        """What the settings would be with other dynamic values."""
        trial = Settings()
        trial.static, trial.cluster, trial.dynamic = self.static, dict(cluster), dict(dynamic)
        return trial

    def check(self) -> None:
        """Raise `UsageError` if two settings contradict each other, or one asks for more than one broker."""
        advertised_address(self.text("advertised.listeners"))
        for name in _ONE_REPLICA:
            if self.number(name) != 1:
                raise UsageError(f"{name} = {self.number(name)} is impossible with one broker; use 1.")
        least, most = self.number("group.min.session.timeout.ms"), self.number("group.max.session.timeout.ms")
        if least > most:
            raise UsageError(
                f"group.min.session.timeout.ms = {least} is above group.max.session.timeout.ms = {most}; "
                "use a smaller minimum or a larger maximum."
            )


def _under_our_names(given: Mapping[str, str]) -> dict[str, str]:
    ours = {name: text for name, text in given.items() if name not in OTHER_NAMES}
    for name, (our_name, unit) in OTHER_NAMES.items():
        if name in given:
            try:
                value = int(given[name])
            except ValueError:
                raise UsageError(f"{name} = {given[name]!r} is not a whole number.") from None
            ours.setdefault(our_name, str(value * unit if value > 0 else value))
    return ours


def parse_topic_settings(given: Mapping[str, str]) -> dict[str, Value]:
    """A topic's overrides, checked."""
    return {name: find_setting(TOPIC_SETTINGS, name).parse(text) for name, text in given.items()}


def read_properties(path: Path) -> dict[str, str]:
    """A Java properties file, as far as server.properties files go: key=value, comments, continued lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise UsageError(f"the settings file {path} is not text in UTF-8. Use a properties file.") from None
    return dict(_pairs(text.replace("\\\n", "").splitlines(), path))


def _pairs(lines: Iterable[str], path: Path) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if line and line[0] not in "#!":
            name, found, value = line.partition("=")
            if not found:
                raise UsageError(f"{path}, line {number}: {line!r} is no setting; write name=value.")
            yield name.strip(), value.strip()
