"""Reads logs, dumped records and group events into rows of the event table, without Spark."""
