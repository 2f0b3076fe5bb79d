"""Settings as DescribeConfigs shows them: value, source and synonyms.

Invariants:
- The first synonym is the current value. The others would apply without it, in order of precedence. A synonym has the
  name under which its value is set: the default of `retention.ms` is `log.retention.hours`, as in Kafka.
- No setting of this broker is sensitive.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.store import Settings
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import Setting, Value, format_value

_DEFAULT_NAMES: Final = {
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms", 1),
    "log.retention.ms": ("log.retention.hours", 3_600_000),
    "log.roll.jitter.ms": ("log.roll.jitter.hours", 3_600_000),
    "log.roll.ms": ("log.roll.hours", 3_600_000),
}
"""Settings whose default Kafka has under another name, and in another unit."""


class ConfigSource(IntEnum):
    """The source of a value, with Kafka's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """A value from one source."""

    name: str
    value: str
    source: ConfigSource


class ConfigDescription(NamedTuple):
    """A setting with its current value."""

    setting: Setting
    value: str
    source: ConfigSource
    read_only: bool
    synonyms: list[ConfigSynonym]


def describe_topic(settings: Settings, overrides: Mapping[str, Value]) -> Iterator[ConfigDescription]:
    """Describe the settings of a topic, sorted by name."""
    for name in sorted(TOPIC_SETTINGS):
        setting = TOPIC_SETTINGS[name]
        synonyms = list(_broker_synonyms(settings, SYNONYMS[name])) if name in SYNONYMS else []
        if name in overrides:
            synonyms.insert(0, ConfigSynonym(name, format_value(overrides[name]), ConfigSource.DYNAMIC_TOPIC_CONFIG))
        value = format_value(settings.for_topic(name, overrides))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        yield ConfigDescription(setting, value, source, False, synonyms)


def describe_broker(settings: Settings) -> Iterator[ConfigDescription]:
    """Describe the settings of the broker, sorted by name."""
    for name in sorted(BROKER_SETTINGS):
        setting = BROKER_SETTINGS[name]
        synonyms = list(_broker_synonyms(settings, name))
        value = format_value(settings[name])
        yield ConfigDescription(setting, value, synonyms[0].source, not setting.dynamic, synonyms)


def describe_default(settings: Settings) -> Iterator[ConfigDescription]:
    """Describe the settings that were set for all brokers of the cluster."""
    for name in sorted(settings.cluster):
        setting = BROKER_SETTINGS[name]
        value = ConfigSynonym(name, format_value(settings.cluster[name]), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield ConfigDescription(setting, value.value, value.source, not setting.dynamic, [value])


def _broker_synonyms(settings: Settings, name: str) -> Iterator[ConfigSynonym]:
    layers = (
        (settings.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (settings.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (settings.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for layer, source in layers:
        if name in layer:
            value = format_value(layer[name])
            alternative = settings.alternatives.get(name) if layer is settings.static else None
            yield ConfigSynonym(*(alternative or (name, value)), source)
    yield _default(name)


def _default(name: str) -> ConfigSynonym:
    default = BROKER_SETTINGS[name].default
    if name in _DEFAULT_NAMES:
        assert isinstance(default, int)
        name, unit = _DEFAULT_NAMES[name]
        default //= unit
    return ConfigSynonym(name, format_value(default), ConfigSource.DEFAULT_CONFIG)
