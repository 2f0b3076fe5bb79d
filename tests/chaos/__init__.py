"""Random faults of disk, clock, network and processes, and hostile requests, against running broker processes.

`python -m tests.chaos --minutes 10 --seed 7` runs it; `make chaos` too. docs/soak.md describes faults and checks.
"""
