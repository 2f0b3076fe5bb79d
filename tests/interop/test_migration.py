"""From an eager to the cooperative assignor in two rolling bounces, live, in a group of our members and others'.

The first bounce adds cooperative-sticky beside the eager assignor, before or behind it; the second takes the eager one
away. Before every restart and at the end the group shares all partitions and reads every record once; and never, by
the clock of the machine that all programs share, have two members had one partition.

librdkafka and kafka-python refuse a list in which eager and cooperative assignors stand side by side. One such member
can still come along: it keeps its eager assignor through the first bounce, and is the first of the second.
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
    Look,
    Member,
    partitions,
    settled,
    wait_until,
)
from tests.interop.test_groups import offsets, spread
from tests.interop.test_mixed_groups import described

Name = Callable[[str], str]
Start = Callable[[Client], Driver]
COUNT = 6
EAGER, COOPERATIVE = "range", "cooperative-sticky"


@dataclass(frozen=True)
class Stint:
    """How long a member had a partition; `until` is None while it has it."""

    partition: str
    member: str
    since: int
    until: int | None


def stints(member: str, look: Look) -> list[Stint]:
    """What a member has had, by its callbacks."""
    found: list[Stint] = []
    since: dict[str, int] = {}
    for (kind, changed), moment in zip(look.events, look.moments, strict=True):
        for partition in changed:
            if kind == "assigned":
                assert partition not in since, f"{member} was given {partition} twice"
                since[partition] = moment
            else:
                found.append(Stint(partition, member, since.pop(partition), moment))
    return found + [Stint(partition, member, moment, None) for partition, moment in since.items()]


def owned_twice(found: Sequence[Stint]) -> list[tuple[Stint, Stint]]:
    """Pairs of members that had one partition at one moment."""
    ordered = sorted(found, key=lambda one: (one.partition, one.since))
    return [
        (one, after)
        for one, after in pairwise(ordered)
        if one.partition == after.partition and (one.until is None or one.until > after.since)
    ]


@dataclass
class Group:
    """A group under way, and what its former members have seen."""

    bootstrap: str
    group: str
    topic: str
    writer: Driver
    members: dict[str, Member] = field(default_factory=dict)
    past: list[tuple[str, Look]] = field(default_factory=list)
    written: int = 0

    def join(self, driver: Driver, name: str, assignor: str) -> None:
        """A member comes, and the group settles."""
        self.members[name] = driver.join(name, self.group, [self.topic], assignor=assignor)
        self.settle()

    def bounce(self, name: str, assignor: str) -> None:
        """A member restarts with another list of assignors; meanwhile the others have everything."""
        member = self.members.pop(name)
        seen = member.close()
        assert seen is not None
        self.past.append((name, seen))
        self.settle()
        self.join(member.driver, name, assignor)

    def settle(self) -> None:
        """Wait until all partitions are shared; write, let everything be read, and commit."""
        settled(list(self.members.values()), partitions(self.topic, COUNT))
        self.writer.produce(self.topic, spread(COUNT, range(self.written, self.written + COUNT)))
        self.written += COUNT
        wait_until(lambda: len(self._records()) >= self.written, self._records)
        for member in self.members.values():
            member.commit()

    def _looks(self) -> list[tuple[str, Look]]:
        return self.past + [(name, member.look()) for name, member in self.members.items()]

    def _records(self) -> list[tuple[str, int]]:
        came = offsets(record for _, look in self._looks() for record in look.records)
        return [(partition, offset) for partition, seen in came.items() for offset in seen]

    def check(self, assignor: str) -> None:
        """Everybody lives by this assignor; nothing was owned twice, or read twice, or not at all."""
        assert described(self.bootstrap, self.group).assignor == assignor
        twice = owned_twice([one for name, look in self._looks() for one in stints(name, look)])
        assert not twice
        each = range(self.written // COUNT)
        assert sorted(self._records()) == sorted((one, at) for one in partitions(self.topic, COUNT) for at in each)

    def close(self) -> None:
        """End all members."""
        for member in self.members.values():
            member.close()


def ways() -> list[object]:
    """Which client comes along, whether one of ours leads, and where the cooperative assignor stands in the lists."""
    before, behind = f"{COOPERATIVE},{EAGER}", f"{EAGER},{COOPERATIVE}"
    java = [
        pytest.param(JAVA, we_lead, both, marks=pytest.mark.java, id=f"java-{who}-{where}")
        for we_lead, who in ((True, "we-lead"), (False, "they-lead"))
        for both, where in ((before, "before"), (behind, "behind"))
    ]
    others = [
        pytest.param(CONFLUENT, False, before, id="confluent-kafka-they-lead-before"),
        pytest.param(KAFKA_PYTHON, True, behind, id="kafka-python-we-lead-behind"),
    ]
    return [*java, *others]


@pytest.mark.parametrize(("client", "we_lead", "both"), ways())
def test_two_bounces_lead_from_eager_to_cooperative(
    bootstrap: str, running: Start, name: Name, client: Client, we_lead: bool, both: str
) -> None:
    ours, theirs = running(OURS), running(client)
    topic = theirs.create_topic(name("migration"), COUNT)
    group = Group(bootstrap, name("migration-group"), topic, theirs)
    order = {"ours": ours, "theirs": theirs} if we_lead else {"theirs": theirs, "ours": ours}
    for one, driver in (order | {"ours-too": ours}).items():
        group.join(driver, one, EAGER)
    group.check(EAGER)

    mixes = client is JAVA
    for one in ("ours", "theirs", "ours-too") if mixes else ("ours", "ours-too"):
        group.bounce(one, both)
    group.check(both.partition(",")[0] if mixes else EAGER)

    for one in ("theirs", "ours", "ours-too"):
        group.bounce(one, COOPERATIVE)
    group.check(COOPERATIVE)
    group.close()


def test_a_partition_that_is_given_before_it_is_taken_was_owned_twice() -> None:
    events = [("assigned", frozenset({"t-0"})), ("revoked", frozenset({"t-0"}))]
    one = stints("one", Look(frozenset(), 1, events, [10, 20], []))
    after, early = (stints("other", Look(frozenset(), 2, events[:1], [moment], [])) for moment in (20, 19))
    assert not owned_twice([*one, *after])
    assert owned_twice([*one, *early]) == [(one[0], early[0])]
