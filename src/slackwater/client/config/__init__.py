"""The clients' settings, under Kafka's names."""

from slackwater.client.config.admin import ADMIN_SETTINGS
from slackwater.client.config.consumer import CONSUMER_SETTINGS
from slackwater.client.config.parsing import named, parse_settings
from slackwater.client.config.producer import PRODUCER_SETTINGS
from slackwater.client.config.shared import cluster_config, number

__all__ = [
    "ADMIN_SETTINGS",
    "CONSUMER_SETTINGS",
    "PRODUCER_SETTINGS",
    "cluster_config",
    "named",
    "number",
    "parse_settings",
]
