"""The pure core of a consumer group: no sockets, no clock, no threads, no logging, no randomness.

Rules kept here
- The coordinator (`coordinator/`) and the member (`member/`) are state machines. One call takes one input and the
  time, and returns an ordered list of effects; a shell (broker, client, simulator) carries them out in that order.
- Everything that happens is told once, as a `GroupEvent` (`events.py`).
- The broker's answers are the codes of one table (`errors.py`).
- Nothing in here imports anything of Slackwater outside `group/`.
"""
