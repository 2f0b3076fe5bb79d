"""Migration from an eager to the cooperative assignor in two rolling bounces, in a group of our and other clients.

The first bounce adds cooperative-sticky before or after the eager assignor; the second removes the eager one. Before
every restart and at the end the group shares all partitions and has read every record once. No partition ever has two
owners, by the monotonic clock that all programs share.

librdkafka and kafka-python reject a list with eager and cooperative assignors. Such a member keeps its eager assignor
in the first bounce and restarts first in the second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.interop.clients import (
    CONFLUENT,
    JAVA,
    KAFKA_PYTHON,
    OURS,
    Client,
    Driver,
    Member,
    MemberSnapshot,
    partitions,
    wait_for_assignment,
    wait_until,
)
from tests.interop.test_groups import offsets, spread
from tests.interop.test_mixed_groups import describe_group

Name = Callable[[str], str]
Start = Callable[[Client], Driver]
PARTITIONS = 6
EAGER, COOPERATIVE = "range", "cooperative-sticky"


@dataclass(frozen=True)
class OwnershipInterval:
    """How long a member owned a partition; `until` is None while it owns it."""

    partition: str
    member: str
    since: int
    until: int | None


def ownership_intervals(member: str, snapshot: MemberSnapshot) -> list[OwnershipInterval]:
    """The partitions that a member has owned, from its callbacks."""
    intervals: list[OwnershipInterval] = []
    since: dict[str, int] = {}
    for (kind, changed), moment in zip(snapshot.events, snapshot.moments, strict=True):
        for partition in changed:
            if kind == "assigned":
                assert partition not in since, f"{member} was assigned {partition} twice"
                since[partition] = moment
            else:
                intervals.append(OwnershipInterval(partition, member, since.pop(partition), moment))
    return intervals + [OwnershipInterval(partition, member, moment, None) for partition, moment in since.items()]


def overlapping_owners(intervals: Sequence[OwnershipInterval]) -> list[tuple[OwnershipInterval, OwnershipInterval]]:
    """Pairs of members that owned a partition at the same time."""
    ordered = sorted(intervals, key=lambda interval: (interval.partition, interval.since))
    return [
        (first, second)
        for first, second in pairwise(ordered)
        if first.partition == second.partition and (first.until is None or first.until > second.since)
    ]


@dataclass
class Group:
    """A running group, and the snapshots of its former members."""

    bootstrap: str
    group: str
    topic: str
    writer: Driver
    members: dict[str, Member] = field(default_factory=dict)
    past: list[tuple[str, MemberSnapshot]] = field(default_factory=list)
    written: int = 0

    def join(self, driver: Driver, name: str, assignor: str) -> None:
        """Add a member and wait for the assignment."""
        self.members[name] = driver.join(name, self.group, [self.topic], assignor=assignor)
        self.settle()

    def bounce(self, name: str, assignor: str) -> None:
        """Restart a member with another list of assignors; meanwhile the others own all partitions."""
        member = self.members.pop(name)
        snapshot = member.close()
        assert snapshot is not None
        self.past.append((name, snapshot))
        self.settle()
        self.join(member.driver, name, assignor)

    def settle(self) -> None:
        """Wait until all partitions are shared, write records, wait until they are read, and commit."""
        wait_for_assignment(list(self.members.values()), partitions(self.topic, PARTITIONS))
        self.writer.produce(self.topic, spread(PARTITIONS, range(self.written, self.written + PARTITIONS)))
        self.written += PARTITIONS
        wait_until(lambda: len(self._records()) >= self.written, self._records)
        for member in self.members.values():
            member.commit()

    def _snapshots(self) -> list[tuple[str, MemberSnapshot]]:
        return self.past + [(name, member.snapshot()) for name, member in self.members.items()]

    def _records(self) -> list[tuple[str, int]]:
        received = offsets(record for _, snapshot in self._snapshots() for record in snapshot.records)
        return [(partition, offset) for partition, received_offsets in received.items() for offset in received_offsets]

    def check(self, assignor: str) -> None:
        """The group uses this assignor, no partition had two owners, and every record was read once."""
        assert describe_group(self.bootstrap, self.group).assignor == assignor
        overlaps = overlapping_owners(
            [interval for name, snapshot in self._snapshots() for interval in ownership_intervals(name, snapshot)]
        )
        assert not overlaps
        written = range(self.written // PARTITIONS)
        expected = [(name, offset) for name in partitions(self.topic, PARTITIONS) for offset in written]
        assert sorted(self._records()) == sorted(expected)

    def close(self) -> None:
        """Close all members."""
        for member in self.members.values():
            member.close()


def _marks(we_lead: bool, where: str) -> list[pytest.MarkDecorator]:
    """One case with Java is enough for every run."""
    is_first = we_lead and where == "before"
    return [pytest.mark.java] if is_first else [pytest.mark.java, pytest.mark.repetition]


def migration_cases() -> list[object]:
    """The other client, whether our member leads, and the order of the assignors."""
    before, after = f"{COOPERATIVE},{EAGER}", f"{EAGER},{COOPERATIVE}"
    java = [
        pytest.param(JAVA, we_lead, both, marks=_marks(we_lead, where), id=f"java-{who}-{where}")
        for we_lead, who in ((True, "we-lead"), (False, "they-lead"))
        for both, where in ((before, "before"), (after, "after"))
    ]
    others = [
        pytest.param(CONFLUENT, False, before, id="confluent-kafka-they-lead-before"),
        pytest.param(KAFKA_PYTHON, True, after, id="kafka-python-we-lead-after"),
    ]
    return [*java, *others]


@pytest.mark.parametrize(("client", "we_lead", "both"), migration_cases())
def test_two_bounces_migrate_to_cooperative(
    bootstrap: str, running: Start, name: Name, client: Client, we_lead: bool, both: str
) -> None:
    ours, theirs = running(OURS), running(client)
    topic = theirs.create_topic(name("migration"), PARTITIONS)
    group = Group(bootstrap, name("migration-group"), topic, theirs)
    order = {"ours": ours, "theirs": theirs} if we_lead else {"theirs": theirs, "ours": ours}
    for member, driver in (order | {"ours-too": ours}).items():
        group.join(driver, member, EAGER)
    group.check(EAGER)

    can_mix = client is JAVA
    for member in ("ours", "theirs", "ours-too") if can_mix else ("ours", "ours-too"):
        group.bounce(member, both)
    group.check(both.partition(",")[0] if can_mix else EAGER)

    for member in ("theirs", "ours", "ours-too"):
        group.bounce(member, COOPERATIVE)
    group.check(COOPERATIVE)
    group.close()


def test_assignment_before_revocation_is_an_overlap() -> None:
    events = [("assigned", frozenset({"t-0"})), ("revoked", frozenset({"t-0"}))]
    first = ownership_intervals("first", MemberSnapshot(frozenset(), 1, events, [10, 20], []))
    after, early = (
        ownership_intervals("other", MemberSnapshot(frozenset(), 2, events[:1], [moment], [])) for moment in (20, 19)
    )
    assert not overlapping_owners([*first, *after])
    assert overlapping_owners([*first, *early]) == [(first[0], early[0])]
