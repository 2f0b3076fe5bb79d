"""The simulator: coordinator and members on a virtual clock, with an injected-fault network and log.

Invariants:
- The code of `group/` runs unchanged.
- A run depends only on its seed, on any machine.
- Every checker has its own module; a failure prints the command that replays it.
"""
