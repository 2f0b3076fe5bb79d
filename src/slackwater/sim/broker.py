"""The simulated broker: the coordinator, its log, and its connections.

Invariants:
- Effects are executed in order. Appends reach the log one after the other, each after its own delay.
- A crash loses the memory, every connection, and a random tail of the pending appends.
- A failover reloads the partition with a new leader epoch; connections stay open.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slackwater.group.coordinator import (
    AppendRecords,
    Coordinator,
    CoordinatorConfig,
    CoordinatorRecord,
    Effect,
    SendResponse,
)
from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import JoinGroup, Request, Response
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers import Checker
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom

OFFSETS_PARTITION = 0
NODE_ID = 1

Reply = Callable[[Response], None]


class WaitingRequest:
    """A request without a response yet, and the callbacks for its response and for a broken connection."""

    __slots__ = ("on_disconnect", "reply", "request")

    def __init__(self, request: Request, reply: Reply, on_disconnect: Callable[[], None]) -> None:
        self.request = request
        self.reply = reply
        self.on_disconnect = on_disconnect


class SimBroker:
    """One broker that coordinates one group."""

    def __init__(self, queue: EventQueue, random: SeededRandom, config: CoordinatorConfig, group_id: str) -> None:
        self.queue = queue
        self.random = random
        self.config = config
        self.group_id = group_id
        self.checkers: Sequence[Checker] = ()
        self.log: list[CoordinatorRecord] = []
        self.ends: dict[TopicPartition, int] = {}
        self.up = True
        self.run_number = 0  # actions of an earlier run_number are ignored
        self.epoch = 0
        self.fail_writes = False
        self.write_delay_ms = 3
        self._waiting: dict[WaitingRequest, None] = {}
        self._appends: deque[AppendRecords] = deque()
        self._due_ms: int | None = None
        self.coordinator = Coordinator(config)
        self.load()

    # --- requests ---------------------------------------------------------------------------------------------------

    def receive(self, request: Request, host: str, reply: Reply, on_disconnect: Callable[[], None]) -> None:
        """Handle a request."""
        if isinstance(request, JoinGroup):
            request = replace(request, client_host=host, uuid=self.random.uuid())
        reply_to = WaitingRequest(request, reply, on_disconnect)
        self._waiting[reply_to] = None
        for checker in self.checkers:
            checker.on_request(reply_to, request)
        self._execute(self.coordinator.handle(request, reply_to, self.queue.now_ms))

    def _execute(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendResponse):
                reply_to = effect.reply_to
                assert isinstance(reply_to, WaitingRequest)
                for checker in self.checkers:
                    checker.on_response(reply_to, reply_to.request, effect.response)
                self._waiting.pop(reply_to, None)
                reply_to.reply(effect.response)
            elif isinstance(effect, AppendRecords):
                for checker in self.checkers:
                    checker.on_append(effect)
                self._appends.append(effect)
                if len(self._appends) == 1:
                    self._schedule_write()
            else:
                for checker in self.checkers:
                    checker.on_event(effect.event)
        self._schedule_tick()

    def _schedule_write(self) -> None:
        run_number = self.run_number
        self.queue.after(self.random.between(0, self.write_delay_ms), lambda: self._write(run_number))

    def _write(self, run_number: int) -> None:
        if run_number != self.run_number:
            return
        append = self._appends.popleft()
        error = Error.NOT_ENOUGH_REPLICAS if self.fail_writes else Error.NONE
        if error is Error.NONE:
            self.log.extend(append.records)
        for checker in self.checkers:
            checker.on_written(append, error)
        self._execute(self.coordinator.on_append_result(append.write_id, error, self.queue.now_ms))
        if self._appends:
            self._schedule_write()

    def _schedule_tick(self) -> None:
        due_ms = self.coordinator.next_due_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            run_number = self.run_number
            self.queue.at(due_ms, lambda: self._tick(run_number, due_ms))

    def _tick(self, run_number: int, due_ms: int) -> None:
        if run_number != self.run_number or self._due_ms != due_ms:
            return
        self._due_ms = None
        self._execute(self.coordinator.tick(self.queue.now_ms))

    # --- faults -----------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Lose everything except the log and a random prefix of the pending appends."""
        self.up = False
        self.run_number += 1
        survived = self.random.between(0, len(self._appends))
        for append in list(self._appends)[:survived]:
            self.log.extend(append.records)
            for checker in self.checkers:
                checker.on_written(append, Error.NONE)
        self._appends.clear()
        self._due_ms = None
        waiting, self._waiting = self._waiting, {}
        for reply_to in waiting:
            for checker in self.checkers:
                checker.on_disconnect(reply_to)
            reply_to.on_disconnect()

    def start(self) -> None:
        """Restart with the log only."""
        self.up = True
        for checker in self.checkers:
            checker.on_restart()
        self.coordinator = Coordinator(self.config)
        self.load()

    def load(self) -> None:
        """Load the partition from the log."""
        self.epoch += 1
        self._execute(self.coordinator.load(OFFSETS_PARTITION, self.epoch, self.queue.now_ms))
        self._replay()

    def fail_over(self, loading_ms: int) -> None:
        """Reload the partition with a new epoch; pending appends are lost."""
        if not self.up:
            return
        self._appends.clear()
        self._due_ms = None
        self.run_number += 1
        for checker in self.checkers:
            checker.on_restart()
        self.epoch += 1
        self._execute(self.coordinator.load(OFFSETS_PARTITION, self.epoch, self.queue.now_ms))
        run_number = self.run_number
        self.queue.after(loading_ms, lambda: self._finish_loading(run_number))

    def _finish_loading(self, run_number: int) -> None:
        if run_number == self.run_number:
            self._replay()

    def _replay(self) -> None:
        for record in self.log:
            self.coordinator.replay(OFFSETS_PARTITION, record)
        effects = self.coordinator.finish_loading(OFFSETS_PARTITION, self.queue.now_ms)
        for checker in self.checkers:
            checker.on_reload()
        self._execute(effects)

    # --- inspection -------------------------------------------------------------------------------------------------

    @property
    def group_state(self) -> GroupState | None:
        """The group's state, or None without a group."""
        group = self.coordinator.groups.get(self.group_id)
        return None if group is None else group.state

    @property
    def generation_id(self) -> int:
        """The group's generation, or -1 without a group."""
        group = self.coordinator.groups.get(self.group_id)
        return -1 if group is None else group.generation_id

    @property
    def leader_id(self) -> str | None:
        """The group's leader."""
        group = self.coordinator.groups.get(self.group_id)
        return None if group is None else group.leader_id

    @property
    def members(self) -> Mapping[str, object]:
        """The group's members by id."""
        group = self.coordinator.groups.get(self.group_id)
        return {} if group is None else group.members

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The group's offsets."""
        group = self.coordinator.groups.get(self.group_id)
        return {} if group is None else {partition: stored.offset for partition, stored in group.offsets.items()}
