"""Broker and topic settings, under Kafka's names."""

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.store import Settings, lookup, parse_topic, read_properties
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import Kind, Setting, Value, show

__all__ = [
    "BROKER_SETTINGS",
    "SYNONYMS",
    "TOPIC_SETTINGS",
    "Kind",
    "Setting",
    "Settings",
    "Value",
    "lookup",
    "parse_topic",
    "read_properties",
    "show",
]
