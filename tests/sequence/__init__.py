"""Random joins, leaves, stalls, kills and broker restarts while a producer writes; an oracle checks the guarantees.

`python -m tests.sequence --seed 7` runs one sequence; `make soak` runs many.
"""
