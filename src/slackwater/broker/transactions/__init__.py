"""Transactions in the broker: their coordinator, and their markers in the logs of partitions."""
