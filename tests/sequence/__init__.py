"""Random joins, leaves, stalls, kills and broker restarts while a producer writes, and an oracle that watches.

`python -m tests.sequence --seed 7` plays one sequence; `make soak` plays many.
"""
