"""Why groups rebalance: one module per family of causes, each rule with the fact of Kafka that makes it true."""
