"""The doctor: reads the history of consumer groups and finds the cause of rebalances. No I/O, no Spark, no clock."""
