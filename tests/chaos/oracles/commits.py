"""Acknowledged commits: the last one of a group, or a later one, is stored for all partitions of the commit.

Invariants:
- A group commits ascending numbers, each for several partitions at once. They are stored together or not at all.
- If a log file of the group's partition of `__consumer_offsets` was damaged on purpose and the broker's log names the
  file, the group may have an earlier commit or none.
"""

from collections.abc import Sequence

NO_COMMIT = -1


class GroupLedger:
    """The commits of one group; offsets from `sent` on were never sent."""

    def __init__(self, group: str, offsets_partition: int) -> None:
        self.group = group
        self.offsets_partition = offsets_partition
        self.sent = 0
        self.acknowledged = NO_COMMIT

    def check(self, committed: Sequence[int], *, is_loss_reported: bool = False) -> list[str]:
        """Compare with what is stored now, which becomes what must be there."""
        floor = NO_COMMIT if is_loss_reported else self.acknowledged
        violations = []
        if len(set(committed)) != 1:
            violations.append(f"group {self.group}: a commit is stored only in part: {list(committed)}")
        if min(committed) < floor:
            violations.append(
                f"group {self.group}: {self.acknowledged} was acknowledged, but {min(committed)} is stored"
            )
        if max(committed) >= max(self.sent, 0):
            violations.append(f"group {self.group}: {max(committed)} is stored, but only {self.sent - 1} was sent")
        self.acknowledged = min(committed)
        return violations
