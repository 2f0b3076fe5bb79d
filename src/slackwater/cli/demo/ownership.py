"""How long partitions were without an owner.

Rules kept here
- It counts looks at a group, not guesses: between two looks a partition has the owner that it had at the first of them.
- While a cooperative group rebalances, members keep what they have: the last assignment counts, of members that are
  still there. Whoever was stopped or killed owns nothing from that moment until it is back, whatever the coordinator
  thinks.
- A partition counts from its first owner on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ownership:
    """One group's partitions; times are seconds of any clock that does not jump."""

    owners: dict[int, str] = field(default_factory=dict)
    """The last assignment, by partition."""
    away: set[str] = field(default_factory=set)
    """Who was stopped or killed, and is not back."""
    lengths: dict[int, list[float]] = field(default_factory=dict)
    """By partition, every time that it was without an owner."""
    _bare: dict[int, float] = field(default_factory=dict)
    """Since when a partition has none."""

    def see(self, now: float, assigned: Mapping[int, str] | None, members: set[str]) -> None:
        """A look at the group: the assignment where there is one (`None` while it rebalances), and who is in it."""
        if assigned is not None:
            for partition in assigned.keys() - self.owners.keys():
                self.lengths.setdefault(partition, [])
            self.owners.update({partition: assigned.get(partition, "") for partition in self.lengths})
        for partition, owner in self.owners.items():
            owned = owner in members and owner not in self.away
            if not owned:
                self._bare.setdefault(partition, now)
            elif (since := self._bare.pop(partition, None)) is not None:
                self.lengths[partition].append(now - since)

    def close(self, now: float) -> None:
        """Nobody has to own anything any more."""
        for partition, since in self._bare.items():
            self.lengths[partition].append(now - since)
        self._bare.clear()
        self.owners.clear()

    @property
    def total_s(self) -> float:
        """Partition-seconds."""
        return sum(sum(lengths) for lengths in self.lengths.values())

    @property
    def longest_s(self) -> float:
        """The longest time that one partition waited."""
        return max((length for lengths in self.lengths.values() for length in lengths), default=0.0)
