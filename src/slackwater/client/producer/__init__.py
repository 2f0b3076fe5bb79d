"""The producer."""

from slackwater.client.producer.delivery import RecordMetadata
from slackwater.client.producer.producer import Producer, SerializationError, UnknownTopicError

__all__ = ["Producer", "RecordMetadata", "SerializationError", "UnknownTopicError"]
