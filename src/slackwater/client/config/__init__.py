"""The clients' settings, under Kafka's names."""

from slackwater.client.config.admin import ADMIN_SETTINGS
from slackwater.client.config.consumer import CONSUMER_SETTINGS
from slackwater.client.config.given import given, named
from slackwater.client.config.producer import PRODUCER_SETTINGS
from slackwater.client.config.shared import cluster_config, number

__all__ = ["ADMIN_SETTINGS", "CONSUMER_SETTINGS", "PRODUCER_SETTINGS", "cluster_config", "given", "named", "number"]
