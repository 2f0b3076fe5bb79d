"""What must hold under every fault: one module per guarantee, without processes and sockets where possible.

A check returns the violations it finds, one sentence each. `Violation` ends a fault early, when nothing more can be
checked.
"""


class Violation(Exception):
    """A guarantee was violated."""


def first_examples(violations: list[str], count: int = 5) -> list[str]:
    """Return the first violations of a kind, and how many more there are."""
    more = len(violations) - count
    return [*violations[:count], f"and {more} more of this kind"] if more > 0 else violations
