"""Settings as DescribeConfigs shows them: value, source and synonyms.

Invariants:
- The first synonym is the current value. The others would apply without it, in order of precedence.
- No setting of this broker is sensitive.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.store import Settings
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import Setting, Value, format_value


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
        value, source = synonyms[0][1:] if synonyms else (format_value(setting.default), ConfigSource.DEFAULT_CONFIG)
        yield ConfigDescription(setting, value, source, False, synonyms)


def describe_broker(settings: Settings) -> Iterator[ConfigDescription]:
    """Describe the settings of the broker, sorted by name."""
    for name in sorted(BROKER_SETTINGS):
        setting = BROKER_SETTINGS[name]
        synonyms = list(_broker_synonyms(settings, name))
        yield ConfigDescription(setting, synonyms[0].value, synonyms[0].source, not setting.dynamic, synonyms)


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
            yield ConfigSynonym(name, format_value(layer[name]), source)
    yield ConfigSynonym(name, format_value(BROKER_SETTINGS[name].default), ConfigSource.DEFAULT_CONFIG)
