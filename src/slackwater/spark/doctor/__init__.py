"""The doctor's Spark job: from log files to verdicts."""
