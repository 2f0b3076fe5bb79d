"""The types of resources that have settings."""

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """Resource types, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
