"""Clients of any Kafka cluster: consumer, producer, admin, on one connection layer."""
