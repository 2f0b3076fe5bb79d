"""Clients of any Kafka cluster: consumer, producer and admin client on one network layer."""
