"""The producer."""

from slackwater.client.producer.delivery import RecordMetadata
from slackwater.client.producer.producer import Producer, UnknownTopic

__all__ = ["Producer", "RecordMetadata", "UnknownTopic"]
