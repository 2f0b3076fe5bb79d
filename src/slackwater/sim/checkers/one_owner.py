"""No partition has two owners in one generation."""

from slackwater.group.assignors.consumer_protocol import decode_assignment
from slackwater.group.coordinator import AppendRecords, GroupMetadata
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker, SimulationView


class OneOwnerPerGeneration(Checker):
    """Checks the assignments of the leader and the partitions that members consider their own."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.assignments: dict[int, dict[TopicPartition, str]] = {}

    def on_written(self, append: AppendRecords, error: Error) -> None:
        if error is not Error.NONE:
            return
        for record in append.records:
            if not isinstance(record, GroupMetadata) or record.value is None:
                continue
            owners: dict[TopicPartition, str] = {}
            for member in record.value.members:
                name = member.group_instance_id or member.member_id
                for partition in decode_assignment(member.assignment).partitions:
                    if partition in owners:
                        self.fail(f"{partition} is assigned to {owners[partition]} and to {name}")
                    owners[partition] = name
            before = self.assignments.setdefault(record.value.generation_id, owners)
            if before != owners:
                self.fail(f"generation {record.value.generation_id} has two assignments")

    def on_assigned(self, process: str, partitions: frozenset[TopicPartition], *, cooperative: bool) -> None:
        view = self.view
        generation = view.generations[process]
        for other, owned in view.owned.items():
            if other == process or view.generations[other] != generation or not owned & partitions:
                continue
            if view.member_ids[other] in view.members:  # else it was fenced and learns it with its next request
                both = ", ".join(map(str, sorted(owned & partitions)))
                self.fail(f"{process} and {other} both own {both} in generation {generation}")
