"""Builds the rows of a group's history, as a broker's log, clients' logs and the offsets topic contain them.

Invariants:
- A method adds the rows of one source (`broker`, `log`, `record`); the test chooses the sources.
- Times are seconds from the start of the scenario, which is in 2023: the rows of a log with dates.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from slackwater.doctor.events.rows import Row, SingleRowDetail
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, diagnose_group
from slackwater.group.events import EventKind, EventSource, GroupState, Trigger

START_MS = 1_700_000_040_000  # a whole minute


@dataclass
class Scenario:
    """The rows of one group and of its cluster."""

    group: str = "g"
    rows: list[Row] = field(default_factory=list)
    cluster: list[Row] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    current: dict[str, None] = field(default_factory=dict)
    generation: int = 0
    assignor: str | None = None
    """The assignor of each generation, if the broker logs it."""
    _id_count: int = 0

    def verdict(self) -> Verdict:
        """The doctor's verdict."""
        return diagnose_group(self.history())

    def history(self) -> GroupHistory:
        """The group's history."""
        return GroupHistory(self.group, self.rows, ClusterHistory.of(self.cluster))

    # ---- the broker's log

    def join(self, client: str, at: float, *, instance: str | None = None) -> str:
        """A member gets an id and joins."""
        self._id_count += 1
        member = f"{instance or client}-{UUID(int=self._id_count)}"
        self.ids[instance or client] = member
        state = GroupState.STABLE if self.current else GroupState.EMPTY
        self.current[instance or client] = None
        self.broker(EventKind.MEMBER_JOINED, at, member=member, instance=instance, state_before=state)
        self.broker(EventKind.REBALANCE_STARTED, at, trigger=Trigger.MEMBER_JOIN, detail={"culprit": member})
        return member

    def leave(self, client: str, at: float, reason: str = "not provided") -> None:
        """A member leaves by request."""
        self.current.pop(client, None)
        self.broker(EventKind.MEMBER_LEFT, at, member=self.ids[client], detail={"by": "itself", "reason": reason})
        self.broker(
            EventKind.REBALANCE_STARTED, at, trigger=Trigger.MEMBER_LEAVE, detail={"member_ids": [self.ids[client]]}
        )

    def expire(self, client: str, at: float, member: str | None = None) -> None:
        """A member's session expires."""
        if member is None:
            self.current.pop(client, None)
        expired = member or self.ids[client]
        self.broker(EventKind.MEMBER_EXPIRED, at, member=expired, detail={"timer": "session"})
        self.broker(EventKind.REBALANCE_STARTED, at, trigger=Trigger.SESSION_TIMEOUT, detail={"culprit": expired})

    def drop(self, client: str, at: float) -> None:
        """A member did not rejoin in time."""
        self.current.pop(client, None)
        self.broker(EventKind.MEMBER_DROPPED, at, member=self.ids[client], detail={"timer": "rebalance"})

    def replace(self, instance: str, at: float) -> tuple[str, str]:
        """A static member rejoins with a new member id."""
        old = self.ids[instance]
        self._id_count += 1
        new = f"{instance}-{UUID(int=self._id_count)}"
        self.ids[instance] = new
        self.broker(EventKind.MEMBER_REPLACED, at, instance=instance, member=new, detail={"old_member": old})
        return old, new

    def rejoin(self, client: str, at: float, trigger: str = Trigger.LEADER_REJOIN, reason: str = "") -> None:
        """A current member starts a rebalance."""
        self.broker(
            EventKind.REBALANCE_STARTED,
            at,
            trigger=trigger,
            detail={"culprit": self.ids[client], "client_reason": reason or None},
        )

    def form(self, at: float) -> None:
        """A generation is formed and assigned."""
        self.generation += 1
        size = len(self.current)
        self.broker(EventKind.GENERATION_FORMED, at, generation=self.generation, members=size, assignor=self.assignor)
        self.broker(EventKind.REBALANCE_COMPLETED, at, generation=self.generation, members=size)

    def start(self, *clients: str, at: float = 0.0) -> "Scenario":
        """Members start together."""
        for client in clients:
            self.join(client, at)
        self.form(at + 0.5)
        return self

    def broker(self, kind: str, at: float, **columns: Any) -> None:
        """A line of the broker's log."""
        self.rows.append(self._row(kind, at, EventSource.BROKER_LOG, columns))

    # ---- a client's log

    def log(self, client: str, kind: str, at: float, **columns: Any) -> None:
        """A line of a client's log."""
        self.rows.append(self._row(kind, at, EventSource.CLIENT_LOG, {"client": client} | columns))

    def started(self, client: str, at: float, topics: tuple[str, ...] = ("t",)) -> None:
        """A client's process starts."""
        self.log(client, OtherEventKind.CLIENT_STARTED, at)
        self.log(client, OtherEventKind.CLIENT_SUBSCRIBED, at, detail={"topics": list(topics)})

    # ---- the offsets topic

    def record(self, at: float, topics: dict[str, tuple[str, ...]] | None = None, limit_ms: int = 300_000) -> None:
        """The current generation in `__consumer_offsets`."""
        self.add_record(
            at, EventKind.GENERATION_RECORDED, {"detail": {"member_ids": [self.ids[client] for client in self.current]}}
        )
        for client in self.current:
            subscribed = (topics or {}).get(client, ("t",))
            self.add_record(
                at,
                OtherEventKind.MEMBER_RECORDED,
                {
                    "member": self.ids[client],
                    "client": client,
                    "detail": {
                        "topics": list(subscribed),
                        "rebalance_timeout_ms": limit_ms,
                        "session_timeout_ms": 10_000,
                    },
                },
            )

    def add_record(self, at: float, kind: str, columns: dict[str, Any]) -> None:
        self.rows.append(self._row(kind, at, EventSource.OFFSETS_TOPIC, {"generation": self.generation} | columns))

    # ---- the cluster

    def around(self, kind: str, at: float, **detail: Any) -> None:
        """A row that belongs to no group."""
        self.cluster.append(
            Row(START_MS + round(at * 1000), kind, EventSource.BROKER_LOG, detail=SingleRowDetail(detail))
        )

    def _row(self, kind: str, at: float, source: str, columns: dict[str, Any]) -> Row:
        detail = {name: value for name, value in (columns.pop("detail", None) or {}).items() if value is not None}
        return Row(
            START_MS + round(at * 1000), kind, source, group=self.group, detail=SingleRowDetail(detail), **columns
        )
