"""The consumer: Kafka's thick client for one application thread."""
