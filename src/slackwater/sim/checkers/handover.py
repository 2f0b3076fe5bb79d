"""A cooperative rebalance assigns a partition only after its owner has revoked it."""

from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker


class PartitionsAreRevokedFirst(Checker):
    """A partition that a live member of the generation owns is not assigned to another."""

    def on_assigned(self, process: str, partitions: frozenset[TopicPartition], *, cooperative: bool) -> None:
        if not cooperative:
            return
        view = self.view
        for other, owned in view.owned.items():
            if other == process or view.member_ids[other] not in view.members or not owned & partitions:
                continue
            # A member of an older generation may still own partitions only if the rebalance completed without it: it
            # was removed, or it is an absent static member.
            if view.generations[other] == view.generations[process]:
                both = ", ".join(map(str, sorted(owned & partitions)))
                self.fail(f"{process} got {both} while {other} still owned it")
