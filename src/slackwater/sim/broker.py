"""The coordinator's shell in the simulator: a log that survives, a memory that does not.

Rules kept here
- Effects are carried out in order. Appends reach the log one after the other, each after its own delay; the answer to
  a request leaves only when the coordinator says so.
- A crash takes the memory, every connection, and of the appends under way a tail that never reached the log.
- A failover is a reload with a new leader epoch: connections stay, the shard answers as loading meanwhile.
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

SHARD = 0
NODE_ID = 1

Reply = Callable[[Response], None]


class Caller:
    """One request under way: where its answer goes, and whom to tell when its connection breaks."""

    __slots__ = ("broken", "reply", "request")

    def __init__(self, request: Request, reply: Reply, broken: Callable[[], None]) -> None:
        self.request = request
        self.reply = reply
        self.broken = broken


class SimBroker:
    """One broker that coordinates one group."""

    def __init__(self, agenda: EventQueue, dice: SeededRandom, config: CoordinatorConfig, group_id: str) -> None:
        self.agenda = agenda
        self.dice = dice
        self.config = config
        self.group_id = group_id
        self.checkers: Sequence[Checker] = ()
        self.log: list[CoordinatorRecord] = []
        self.ends: dict[TopicPartition, int] = {}
        self.up = True
        self.lives = 0  # how often it was started: what was planned in another life does not happen
        self.epoch = 0
        self.refuse_writes = False
        self.write_delay_ms = 3
        self._waiting: dict[Caller, None] = {}
        self._appends: deque[AppendRecords] = deque()
        self._due_ms: int | None = None
        self.coordinator = Coordinator(config)
        self.load()

    # --- requests ---------------------------------------------------------------------------------------------------

    def receive(self, request: Request, host: str, reply: Reply, broken: Callable[[], None]) -> None:
        """Handle a request that arrived."""
        if isinstance(request, JoinGroup):
            request = replace(request, client_host=host, uuid=self.dice.uuid())
        caller = Caller(request, reply, broken)
        self._waiting[caller] = None
        for checker in self.checkers:
            checker.arrived(caller, request)
        self._carry_out(self.coordinator.handle(request, caller, self.agenda.now_ms))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendResponse):
                caller = effect.caller
                assert isinstance(caller, Caller)
                for checker in self.checkers:
                    checker.answered(caller, caller.request, effect.response)
                self._waiting.pop(caller, None)
                caller.reply(effect.response)
            elif isinstance(effect, AppendRecords):
                for checker in self.checkers:
                    checker.appended(effect)
                self._appends.append(effect)
                if len(self._appends) == 1:
                    self._plan_write()
            else:
                for checker in self.checkers:
                    checker.told(effect.event)
        self._plan_tick()

    def _plan_write(self) -> None:
        life = self.lives
        self.agenda.after(self.dice.between(0, self.write_delay_ms), lambda: self._write(life))

    def _write(self, life: int) -> None:
        if life != self.lives:
            return
        append = self._appends.popleft()
        error = Error.NOT_ENOUGH_REPLICAS if self.refuse_writes else Error.NONE
        if error is Error.NONE:
            self.log.extend(append.records)
        for checker in self.checkers:
            checker.written(append, error)
        self._carry_out(self.coordinator.on_append_result(append.write_id, error, self.agenda.now_ms))
        if self._appends:
            self._plan_write()

    def _plan_tick(self) -> None:
        due_ms = self.coordinator.next_due_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            life = self.lives
            self.agenda.at(due_ms, lambda: self._tick(life, due_ms))

    def _tick(self, life: int, due_ms: int) -> None:
        if life != self.lives or self._due_ms != due_ms:
            return
        self._due_ms = None
        self._carry_out(self.coordinator.tick(self.agenda.now_ms))

    # --- faults -----------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Lose everything but the log; appends under way reach it up to some point, or not at all."""
        self.up = False
        self.lives += 1
        survived = self.dice.between(0, len(self._appends))
        for append in list(self._appends)[:survived]:
            self.log.extend(append.records)
            for checker in self.checkers:
                checker.written(append, Error.NONE)
        self._appends.clear()
        self._due_ms = None
        waiting, self._waiting = self._waiting, {}
        for caller in waiting:
            for checker in self.checkers:
                checker.abandoned(caller)
            caller.broken()

    def start(self) -> None:
        """Come back with the log and nothing else."""
        self.up = True
        for checker in self.checkers:
            checker.restarted()
        self.coordinator = Coordinator(self.config)
        self.load()

    def load(self) -> None:
        """Read the log."""
        self.epoch += 1
        self._carry_out(self.coordinator.load(SHARD, self.epoch, self.agenda.now_ms))
        self._replay()

    def fail_over(self, loading_ms: int) -> None:
        """Give the shard up and take it back under a new epoch; what was being written is not."""
        if not self.up:
            return
        self._appends.clear()
        self._due_ms = None
        self.lives += 1
        for checker in self.checkers:
            checker.restarted()
        self.epoch += 1
        self._carry_out(self.coordinator.load(SHARD, self.epoch, self.agenda.now_ms))
        life = self.lives
        self.agenda.after(loading_ms, lambda: self._finish_loading(life))

    def _finish_loading(self, life: int) -> None:
        if life == self.lives:
            self._replay()

    def _replay(self) -> None:
        for record in self.log:
            self.coordinator.replay(SHARD, record)
        effects = self.coordinator.finish_loading(SHARD, self.agenda.now_ms)
        for checker in self.checkers:
            checker.reloaded()
        self._carry_out(effects)

    # --- looking in -------------------------------------------------------------------------------------------------

    @property
    def group_state(self) -> GroupState | None:
        """The group's state; None when there is none."""
        group = self.coordinator.groups.get(self.group_id)
        return None if group is None else group.state

    @property
    def generation_id(self) -> int:
        """The group's generation; -1 when there is none."""
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
        return {} if group is None else {at: stored.offset for at, stored in group.offsets.items()}
