"""Record formats of Kafka's internal topics."""
