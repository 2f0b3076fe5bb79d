"""Consumer groups without I/O: no sockets, no clock, no threads, no logging, no randomness.

Invariants:
- The coordinator (`coordinator/`) and the member (`member/`) are state machines. A call takes one input and the time,
  and returns an ordered list of effects; a shell (broker, client, simulator) executes them in that order.
- Every change of a group is published once, as a `GroupEvent` (`events.py`).
- Error codes are in one table (`errors.py`).
- This package imports nothing of Slackwater outside `group/`.
"""
