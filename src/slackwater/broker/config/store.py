"""The broker's settings: defaults, start-up settings and changes by AlterConfigs.

Invariants:
- Layers, from weak to strong: default, static (file and command line), dynamic for all brokers of the cluster, dynamic
  for this broker. A topic setting overrides the broker setting that is its synonym.
- An unknown setting is rejected with the nearest known name. Kafka settings that have no effect here
  (`IGNORED_SETTINGS`) are accepted and ignored, because server.properties files contain many of them.
- Variables such as `${env:NAME}` are replaced in static settings only: a client that may alter settings must not read
  the environment or the files of the broker.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.listeners import configured_endpoints
from slackwater.broker.config.security import find_listener_setting
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.group.errors import UsageError
from slackwater.settings import Setting, Value, format_value
from slackwater.variables import expand_variables

# Prefixes of Kafka settings that have no effect on a single broker.
IGNORED_SETTINGS: Final = (
    "add.partitions.",
    "alter.",
    "auto.leader.",
    "background.",
    "broker.",
    "client.quota",
    "config.providers",
    "confluent.",
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


# Alternative names in Kafka, in order of precedence, with our name and the factor for the value.
ALTERNATIVE_NAMES: Final = {
    "broker.id": ("node.id", 1),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}
_REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)


def is_ignored(name: str) -> bool:
    """Whether this is a Kafka setting without effect here."""
    return broker_setting(name) is None and name.startswith(IGNORED_SETTINGS)


def broker_setting(name: str) -> Setting | None:
    """Return the definition of a broker setting, also of one listener."""
    return BROKER_SETTINGS.get(name) or find_listener_setting(name)


def find_setting(known: Mapping[str, Setting], name: str) -> Setting:
    """Return the setting with this name; raise `UsageError` with the nearest name if it is unknown."""
    setting = broker_setting(name) if known is BROKER_SETTINGS else known.get(name)
    if setting is None:
        nearest = get_close_matches(name, known, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else "."
        owner = "topic" if known is TOPIC_SETTINGS else "broker"
        raise UsageError(f"{name} is not a {owner} setting{hint}")
    return setting


class Settings:
    """A broker's settings."""

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, Value] = {}
        self.cluster: dict[str, Value] = {}
        self.dynamic: dict[str, Value] = {}
        self.ignored: list[str] = []
        self.alternatives: dict[str, tuple[str, str]] = {}
        """The name and value that a static setting was given under, if it is one of ALTERNATIVE_NAMES."""
        self._watchers: list[Callable[[], None]] = []
        expanded = {
            name: text if is_ignored(name) else expand_variables(name, text) for name, text in (static or {}).items()
        }
        for name, text in self._with_primary_names(expanded).items():
            if is_ignored(name):
                self.ignored.append(name)
            else:
                self.static[name] = find_setting(BROKER_SETTINGS, name).parse(text)
        self.check()

    def _with_primary_names(self, settings: Mapping[str, str]) -> dict[str, str]:
        renamed = {name: text for name, text in settings.items() if name not in ALTERNATIVE_NAMES}
        for name, (primary_name, factor) in ALTERNATIVE_NAMES.items():
            if name in settings:
                try:
                    value = int(settings[name])
                except ValueError:
                    raise UsageError(f"{name} = {settings[name]!r} is not a whole number.") from None
                if primary_name not in renamed:
                    renamed[primary_name] = str(value * factor if value > 0 else value)
                    self.alternatives[primary_name] = (name, settings[name])
        return renamed

    def __getitem__(self, name: str) -> Value:
        for layer in (self.dynamic, self.cluster, self.static):
            if name in layer:
                return layer[name]
        return find_setting(BROKER_SETTINGS, name).default

    def number(self, name: str) -> int:
        """Return an integer setting."""
        value = self[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean setting."""
        return bool(self[name])

    def text(self, name: str) -> str:
        """Return a setting as text."""
        return format_value(self[name])

    def listener_names(self) -> set[str]:
        """Return the names of the settings that are set for single listeners."""
        layers = (self.dynamic, self.cluster, self.static)
        return {name for layer in layers for name in layer if name.startswith("listener.name.")}

    def for_listener(self, listener: str, name: str, mechanism: str = "") -> Value:
        """Return the setting of a listener, and of a mechanism if it is given: the most specific value that is set."""
        prefix = f"listener.name.{listener.lower()}."
        set_names = self.listener_names()
        for specific in (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}"):
            if specific in set_names:
                return self[specific]
        return self[name]

    def client_auth(self, listener: str, *, has_sasl: bool) -> str:
        """Return whether clients need a certificate; with SASL only the listener's own setting counts, as in Kafka."""
        own = f"listener.name.{listener.lower()}.ssl.client.auth"
        if has_sasl and own not in self.listener_names():
            return "none"
        return str(self.for_listener(listener, "ssl.client.auth"))

    def for_topic(self, name: str, overrides: Mapping[str, Value]) -> Value:
        """Return a topic setting: the override, or the broker's value."""
        if name in overrides:
            return overrides[name]
        return self[SYNONYMS[name]] if name in SYNONYMS else TOPIC_SETTINGS[name].default

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` after every change by AlterConfigs."""
        self._watchers.append(changed)

    def alter(self, changes: Mapping[str, Value | None]) -> None:
        """Set dynamic values of this broker; None removes a value."""
        merged = {**self.dynamic, **changes}
        self.set_dynamic(self.cluster, {name: value for name, value in merged.items() if value is not None})

    def set_dynamic(self, cluster: Mapping[str, Value], dynamic: Mapping[str, Value]) -> None:
        """Replace the dynamic values: those for all brokers and those for this one."""
        self.cluster, self.dynamic = dict(cluster), dict(dynamic)
        for changed in self._watchers:
            changed()

    def with_dynamic(self, cluster: Mapping[str, Value], dynamic: Mapping[str, Value]) -> "Settings":
        """Return a copy with other dynamic values."""
        settings = Settings()
        settings.static, settings.cluster, settings.dynamic = self.static, dict(cluster), dict(dynamic)
        settings.alternatives = self.alternatives
        return settings

    def check(self) -> None:
        """Raise `UsageError` if settings contradict each other or need more than one broker."""
        configured_endpoints(self)
        for name in _REPLICATION_FACTORS:
            if self.number(name) != 1:
                raise UsageError(f"{name} = {self.number(name)} is not possible with one broker; use 1.")
        minimum, maximum = self.number("group.min.session.timeout.ms"), self.number("group.max.session.timeout.ms")
        if minimum > maximum:
            raise UsageError(
                f"group.min.session.timeout.ms = {minimum} is above group.max.session.timeout.ms = {maximum}; "
                "use a smaller minimum or a larger maximum."
            )


def parse_topic_settings(settings: Mapping[str, str]) -> dict[str, Value]:
    """Parse the overrides of a topic."""
    return {name: find_setting(TOPIC_SETTINGS, name).parse(text) for name, text in settings.items()}
