"""Causes of rebalances: one module per family of causes, each rule with the Kafka behaviour that it relies on."""
