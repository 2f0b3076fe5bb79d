"""Settings as a client is shown them: value, where it comes from, and what it would fall back to.

Rules kept here
- The first synonym is the value in force; those behind it are what would hold without it, strongest first.
- Nothing here is secret: no setting of this broker is sensitive.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.store import Settings
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import Setting, Value, show


class Source(IntEnum):
    """Where a value comes from, by Kafka's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """One value that holds, or would hold."""

    name: str
    value: str
    source: Source


class Described(NamedTuple):
    """One setting."""

    setting: Setting
    value: str
    source: Source
    read_only: bool
    synonyms: list[Synonym]


def describe_topic(settings: Settings, overrides: Mapping[str, Value]) -> Iterator[Described]:
    """A topic's settings, in the order of their names."""
    for name in sorted(TOPIC_SETTINGS):
        setting = TOPIC_SETTINGS[name]
        synonyms = list(_broker_synonyms(settings, SYNONYMS[name])) if name in SYNONYMS else []
        if name in overrides:
            synonyms.insert(0, Synonym(name, show(overrides[name]), Source.DYNAMIC_TOPIC_CONFIG))
        value, source = synonyms[0][1:] if synonyms else (show(setting.default), Source.DEFAULT_CONFIG)
        yield Described(setting, value, source, False, synonyms)


def describe_broker(settings: Settings) -> Iterator[Described]:
    """The broker's settings, in the order of their names."""
    for name in sorted(BROKER_SETTINGS):
        setting = BROKER_SETTINGS[name]
        synonyms = list(_broker_synonyms(settings, name))
        yield Described(setting, synonyms[0].value, synonyms[0].source, not setting.dynamic, synonyms)


def describe_default(settings: Settings) -> Iterator[Described]:
    """What was set for all brokers of the cluster."""
    for name in sorted(settings.cluster):
        setting = BROKER_SETTINGS[name]
        value = Synonym(name, show(settings.cluster[name]), Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield Described(setting, value.value, value.source, not setting.dynamic, [value])


def _broker_synonyms(settings: Settings, name: str) -> Iterator[Synonym]:
    layers = (
        (settings.dynamic, Source.DYNAMIC_BROKER_CONFIG),
        (settings.cluster, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (settings.static, Source.STATIC_BROKER_CONFIG),
    )
    for layer, source in layers:
        if name in layer:
            yield Synonym(name, show(layer[name]), source)
    yield Synonym(name, show(BROKER_SETTINGS[name].default), Source.DEFAULT_CONFIG)
