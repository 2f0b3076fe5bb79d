"""The outcome of writes: an append of a collector is pending until it is completed here.

Invariants:
- Records are applied when they are written, in the order of the appends, before the append's callback runs.
- Unloading a partition completes its pending writes with NOT_COORDINATOR.
"""

from slackwater.group.coordinator.coordinator_state import WriteCallback
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.errors import Error


def complete_write(collector: EffectCollector, write_id: int, error: Error) -> None:
    """Apply the records of a finished write, unless it failed, and run its callback."""
    state = collector.state
    write = state.writes.pop(write_id, None)
    if write is None:
        return  # already completed, when its partition was unloaded
    offsets_partition, records, callback, producer_id = write
    if records and (group := state.groups.get(records[0].group_id)) is not None:
        group.in_flight.pop(write_id, None)
        if error is Error.NONE and producer_id is None:
            group.apply(records)
        elif error is Error.NONE and producer_id is not None:
            group.apply_pending(producer_id, records)
            state.transactions.setdefault((offsets_partition, producer_id), {})[group.group_id] = None
    callback(collector, error)


def time_out_write(collector: EffectCollector, write_id: int) -> None:
    """Run a write's callback with REQUEST_TIMED_OUT; its result is still applied when it arrives."""
    writes = collector.state.writes
    write = writes.get(write_id)
    if write is not None:
        writes[write_id] = write._replace(callback=_ignore_result)
        write.callback(collector, Error.REQUEST_TIMED_OUT)


def call_after_last_write(collector: EffectCollector, group: ClassicGroup, callback: WriteCallback) -> None:
    """Run `callback` after the callback of the group's last write, which must be pending."""
    writes = collector.state.writes
    write_id = next(reversed(group.in_flight))
    write = writes[write_id]

    def run_both(collector: EffectCollector, error: Error) -> None:
        write.callback(collector, error)
        callback(collector, error)

    writes[write_id] = write._replace(callback=run_both)


def _ignore_result(collector: EffectCollector, error: Error) -> None:
    """The callback of a write that timed out."""
