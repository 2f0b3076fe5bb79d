"""The simulator: the production machines on a virtual clock, with a network and a log that fail on purpose.

Rules kept here
- `group/` runs unchanged.
- A run is deterministic from its seed, on any machine.
- Checkers live in files of their own; a failure prints the one command that replays it.
"""
