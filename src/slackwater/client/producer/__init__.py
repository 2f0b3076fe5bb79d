"""The producer."""

from slackwater.client.producer.accumulator import RecordMetadata
from slackwater.client.producer.producer import Producer

__all__ = ["Producer", "RecordMetadata"]
