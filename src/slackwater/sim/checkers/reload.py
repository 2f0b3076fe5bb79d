"""A reload restores the group of the last records, without a rebalance."""

from slackwater.group.coordinator import CommittedOffset, GroupMetadata, StoredGroup
from slackwater.group.events import GroupState
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker


class ReloadRestoresGroup(Checker):
    """Members, generation and offsets are those of the last records (CO-06, CO-09)."""

    def on_reload(self) -> None:
        stored: StoredGroup | None = None
        offsets: dict[TopicPartition, int] = {}
        for record in self.view.log:
            if isinstance(record, GroupMetadata):
                stored = record.value
            elif isinstance(record, CommittedOffset):
                if record.value is None:
                    offsets.pop(TopicPartition(record.topic, record.partition), None)
                else:
                    offsets[TopicPartition(record.topic, record.partition)] = record.value.offset
        view = self.view
        if view.committed != offsets:
            self.fail(f"the reload restored offsets {view.committed}, the log has {offsets}")
        if stored is None:
            return
        members = frozenset(member.member_id for member in stored.members)
        state = GroupState.STABLE if members else GroupState.EMPTY
        if (view.group_state, view.generation_id, frozenset(view.members)) != (state, stored.generation_id, members):
            self.fail(
                f"the reload restored {view.group_state} in generation {view.generation_id} with {[*view.members]}, "
                f"the log has {state} in generation {stored.generation_id} with {sorted(members)}"
            )
