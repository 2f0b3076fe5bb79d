"""The doctor in this process: the diagnosis of small local input without Spark."""
