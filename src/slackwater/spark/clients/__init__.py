"""Kafka clients of source and sink: their options and settings, and the connections of this process."""
