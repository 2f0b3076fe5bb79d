"""A cooperative round never gives a partition that its owner has not given up."""

from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker


class CooperativeRoundsWaitForTheOwner(Checker):
    """While a live member of the generation still owns a partition, nobody else is given it."""

    def assigned(self, process: str, partitions: frozenset[TopicPartition], *, cooperative: bool) -> None:
        if not cooperative:
            return
        view = self.view
        for other, owned in view.owned.items():
            if other == process or view.member_ids[other] not in view.members or not owned & partitions:
                continue
            # A member that has not heard of this generation yet may still believe in what it owns only if the round
            # went on without it, and then it is no member any more, or a static one that is away.
            if view.generations[other] == view.generations[process]:
                both = ", ".join(map(str, sorted(owned & partitions)))
                self.fail(f"{process} was given {both} while {other} still owned it")
