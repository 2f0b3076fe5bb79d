"""The producer."""

from slackwater.client.producer.delivery import RecordMetadata
from slackwater.client.producer.producer import Producer, UnknownTopicError

__all__ = ["Producer", "RecordMetadata", "UnknownTopicError"]
