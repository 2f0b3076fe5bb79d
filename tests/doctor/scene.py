"""A group's life told in rows, as a broker's log, a client's log or the offsets topic would tell it.

Rules kept here
- A scene says what happened; which sources tell of it is the test's choice (`broker`, `log`, `record`).
- Times are seconds from the scene's start, so that a test reads like a timeline.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from slackwater.doctor.events.rows import Row, SingleRowDetail
from slackwater.doctor.events.table import FactKind
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, judge
from slackwater.group.events import EventKind, EventSource, GroupState, Trigger


@dataclass
class Scene:
    """Rows of one group, and of the cluster around it."""

    group: str = "g"
    rows: list[Row] = field(default_factory=list)
    cluster: list[Row] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    there: dict[str, None] = field(default_factory=dict)
    generation: int = 0
    assignor: str | None = None
    """By what a generation was assigned, where the broker tells it."""
    _made: int = 0

    def verdict(self) -> Verdict:
        """What the doctor says."""
        return judge(self.history())

    def history(self) -> GroupHistory:
        """The group's history."""
        return GroupHistory(self.group, self.rows, ClusterHistory.of(self.cluster))

    # ---- the broker's log

    def join(self, client: str, at: float, *, instance: str | None = None) -> str:
        """A member asks for an id, and joins."""
        self._made += 1
        member = f"{instance or client}-{UUID(int=self._made)}"
        self.ids[instance or client] = member
        state = GroupState.STABLE if self.there else GroupState.EMPTY
        self.there[instance or client] = None
        self.broker(EventKind.MEMBER_JOINED, at, member=member, instance=instance, state_before=state)
        self.broker(EventKind.REBALANCE_STARTED, at, trigger=Trigger.MEMBER_JOIN, detail={"culprit": member})
        return member

    def leave(self, client: str, at: float, reason: str = "not provided") -> None:
        """A member leaves by request."""
        self.there.pop(client, None)
        self.broker(EventKind.MEMBER_LEFT, at, member=self.ids[client], detail={"by": "itself", "reason": reason})
        self.broker(
            EventKind.REBALANCE_STARTED, at, trigger=Trigger.MEMBER_LEAVE, detail={"member_ids": [self.ids[client]]}
        )

    def expire(self, client: str, at: float, member: str | None = None) -> None:
        """A member's session ends."""
        if member is None:
            self.there.pop(client, None)
        gone = member or self.ids[client]
        self.broker(EventKind.MEMBER_EXPIRED, at, member=gone, detail={"timer": "session"})
        self.broker(EventKind.REBALANCE_STARTED, at, trigger=Trigger.SESSION_TIMEOUT, detail={"culprit": gone})

    def drop(self, client: str, at: float) -> None:
        """A member did not rejoin in time."""
        self.there.pop(client, None)
        self.broker(EventKind.MEMBER_DROPPED, at, member=self.ids[client], detail={"timer": "rebalance"})

    def replace(self, instance: str, at: float) -> tuple[str, str]:
        """A static member comes back under a new id."""
        old = self.ids[instance]
        self._made += 1
        new = f"{instance}-{UUID(int=self._made)}"
        self.ids[instance] = new
        self.broker(EventKind.MEMBER_REPLACED, at, instance=instance, member=new, detail={"old_member": old})
        return old, new

    def rejoin(self, client: str, at: float, trigger: str = Trigger.LEADER_REJOIN, reason: str = "") -> None:
        """A member that is there starts a round."""
        self.broker(
            EventKind.REBALANCE_STARTED,
            at,
            trigger=trigger,
            detail={"culprit": self.ids[client], "client_reason": reason or None},
        )

    def form(self, at: float) -> None:
        """A generation is formed and assigned."""
        self.generation += 1
        size = len(self.there)
        self.broker(EventKind.GENERATION_FORMED, at, generation=self.generation, members=size, assignor=self.assignor)
        self.broker(EventKind.REBALANCE_COMPLETED, at, generation=self.generation, members=size)

    def start(self, *clients: str, at: float = 0.0) -> "Scene":
        """Members that start together."""
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
        """A client's process comes up."""
        self.log(client, FactKind.CLIENT_STARTED, at)
        self.log(client, FactKind.CLIENT_SUBSCRIBED, at, detail={"topics": list(topics)})

    # ---- the offsets topic

    def record(self, at: float, topics: dict[str, tuple[str, ...]] | None = None, limit_ms: int = 300_000) -> None:
        """The present generation as `__consumer_offsets` has it."""
        self.add_record(
            at, EventKind.GENERATION_RECORDED, {"detail": {"member_ids": [self.ids[one] for one in self.there]}}
        )
        for client in self.there:
            read = (topics or {}).get(client, ("t",))
            self.add_record(
                at,
                FactKind.MEMBER_RECORDED,
                {
                    "member": self.ids[client],
                    "client": client,
                    "detail": {"topics": list(read), "rebalance_timeout_ms": limit_ms, "session_timeout_ms": 10_000},
                },
            )

    def add_record(self, at: float, kind: str, columns: dict[str, Any]) -> None:
        self.rows.append(self._row(kind, at, EventSource.OFFSETS_TOPIC, {"generation": self.generation} | columns))

    # ---- around the group

    def around(self, kind: str, at: float, **detail: Any) -> None:
        """Something that names no group."""
        self.cluster.append(Row(round(at * 1000), kind, EventSource.BROKER_LOG, detail=SingleRowDetail(detail)))

    def _row(self, kind: str, at: float, source: str, columns: dict[str, Any]) -> Row:
        detail = {name: value for name, value in (columns.pop("detail", None) or {}).items() if value is not None}
        return Row(round(at * 1000), kind, source, group=self.group, detail=SingleRowDetail(detail), **columns)
