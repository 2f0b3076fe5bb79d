"""Micro-batches of a Spark query that is a group member, as a state machine without I/O."""
