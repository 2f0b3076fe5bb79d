"""Prescriptions: what to set, per library, with the numbers of this history, the cost and the conflicts.

Invariants:
- A prescription is a remedy with its numbers filled in; the order is the order in which to try them.
- A session timeout is never lowered; an unknown present value is taken to be the library's default.
- A value that depends on an unknown present value is a part of it ("44 % of the present value"), in `percent`.
- What the group already has is not prescribed, nor what its library cannot do.
- A setting whose number was not measured is left out, and the text names what to measure.
- `settings` (Kafka's names and values) are all that a simulator needs to replay the history.
"""
