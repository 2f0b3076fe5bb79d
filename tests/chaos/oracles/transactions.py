"""Transactions: a committed one is visible as a whole, an aborted one not at all, and each of them ends.

Invariants:
- A transaction writes its number into every partition, and commits it as the offset of its group.
- An acknowledged commit is visible in every partition, with all its records, in the order of the transactions. Of a
  transaction that was aborted, or for which no commit was requested, nothing is visible.
- A commit without an acknowledgement may have either outcome, in all partitions and in the group the same. An outcome
  that was seen once stays.
"""

from collections import Counter
from collections.abc import Sequence
from enum import Enum

from tests.chaos.oracles import first_examples

NO_OFFSET = -1


class Outcome(Enum):
    """What is known of a transaction."""

    ABORTED = "aborted"  # or not yet committed
    UNKNOWN = "unknown"
    COMMITTED = "committed"


class TransactionLedger:
    """The transactions of one producer; transaction n wrote `sizes[n]` records to each partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes: list[Outcome] = []
        self.sizes: list[int] = []

    def begin(self, size: int) -> int:
        """Begin a transaction; return its number."""
        self.outcomes.append(Outcome.ABORTED)
        self.sizes.append(size)
        return len(self.sizes) - 1

    def check(self, visible: Sequence[Sequence[int]], group_offset: int) -> list[str]:
        """Compare with the numbers in each partition and the offset of the group, which become what must be there."""
        violations = []
        counts = [Counter(numbers) for numbers in visible]
        last_committed = NO_OFFSET
        for number, (outcome, size) in enumerate(zip(self.outcomes, self.sizes, strict=True)):
            seen = [count[number] for count in counts]
            is_committed = seen == [size] * len(seen)
            if not is_committed and any(seen):
                violations.append(
                    f"transaction {number} of {size} records is visible in part: {seen} in each partition"
                )
            elif is_committed and outcome is Outcome.ABORTED:
                violations.append(f"transaction {number} is visible, but no commit was requested")
            elif not is_committed and outcome is Outcome.COMMITTED:
                violations.append(f"transaction {number} was committed, but nothing of it is visible")
            if is_committed:
                last_committed = number
            self.outcomes[number] = Outcome.COMMITTED if is_committed else Outcome.ABORTED
        violations = first_examples(violations)
        if any(list(numbers) != sorted(numbers) for numbers in visible):
            violations.append("transactions are visible in another order")
        if group_offset != last_committed:
            violations.append(f"the group has offset {group_offset}; the last visible transaction is {last_committed}")
        return [f"{self.name}: {violation}" for violation in violations]
