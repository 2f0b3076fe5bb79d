"""The settings of the clients, under Kafka's names."""

from slackwater.client.config.admin import ADMIN_SETTINGS
from slackwater.client.config.cluster import cluster_config, int_value
from slackwater.client.config.consumer import CONSUMER_SETTINGS
from slackwater.client.config.display import format_setting
from slackwater.client.config.parsing import merge_settings, parse_settings
from slackwater.client.config.producer import PRODUCER_SETTINGS

__all__ = [
    "ADMIN_SETTINGS",
    "CONSUMER_SETTINGS",
    "PRODUCER_SETTINGS",
    "cluster_config",
    "format_setting",
    "int_value",
    "merge_settings",
    "parse_settings",
]
