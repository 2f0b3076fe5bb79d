"""Broker and topic settings, under Kafka's names."""

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.store import Settings, find_setting, parse_topic_settings
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import Setting, SettingType, Value, format_value

__all__ = [
    "BROKER_SETTINGS",
    "SYNONYMS",
    "TOPIC_SETTINGS",
    "Setting",
    "SettingType",
    "Settings",
    "Value",
    "find_setting",
    "format_value",
    "parse_topic_settings",
]
