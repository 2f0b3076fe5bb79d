"""What must hold under every fault: one module per guarantee, without processes and sockets where possible.

A check returns the violations it finds, one sentence each. `Violation` ends a fault early, when nothing more can be
checked.
"""


class Violation(Exception):
    """A guarantee was violated."""
