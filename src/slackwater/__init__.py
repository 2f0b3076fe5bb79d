"""Slackwater: Kafka's consumer-group system, end to end, in Python."""

__version__ = "0.1.0"
