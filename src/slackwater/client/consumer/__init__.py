"""The consumer: Kafka's consumer API for one application thread."""
