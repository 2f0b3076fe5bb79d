"""A member's settings, under Kafka's names (dots as underscores) with Kafka's defaults.

Invariants:
- Invalid settings raise UsageError when the config is created.
- The rebalance protocol is the highest that *all* assignors support: cooperative-sticky with range is eager (CL-25).
- Durations are in milliseconds.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from slackwater.group.assignors import Assignor, CooperativeStickyAssignor, RangeAssignor, RebalanceProtocol
from slackwater.group.errors import UsageError
from slackwater.group.messages import MAX_INT

BACKGROUND_REBALANCE_TIMEOUT_MS: Final = 60_000
JOIN_GROUP_TIMEOUT_LAPSE_MS: Final = 5_000
_INSTANCE_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class RebalanceDriver(Enum):
    """The driver of a rebalance.

    POLL is the Java consumer (KIP-62): joins and listener callbacks run only inside the application's `poll`, and a
    member that does not poll within max.poll.interval.ms leaves. BACKGROUND rejoins as soon as it learns of a
    rebalance: it has no poll timer, and partitions in use (`hold`) stay until they are released.
    """

    POLL = "poll"
    BACKGROUND = "background"


def _default_assignors() -> tuple[Assignor, ...]:
    return RangeAssignor(), CooperativeStickyAssignor()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """Member settings; `rebalance_timeout_ms` defaults to max.poll.interval.ms (60 s in BACKGROUND)."""

    group_id: str
    client_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    assignors: tuple[Assignor, ...] = field(default_factory=_default_assignors)
    client_rack: str | None = None
    exclude_internal_topics: bool = True
    leave_group_on_close: bool = True
    driver: RebalanceDriver = RebalanceDriver.POLL
    cluster: str | None = None

    def __post_init__(self) -> None:
        if not self.group_id:
            raise UsageError("group.id is empty; set it to the name of the group.")
        if self.group_instance_id is not None and not _is_legal_instance_id(self.group_instance_id):
            raise UsageError(
                f"group.instance.id = {self.group_instance_id!r} is not a legal name; use 1 to 249 of the characters "
                "a-z, A-Z, 0-9, '.', '_' and '-', and neither '.' nor '..'."
            )
        for name in (
            "session_timeout_ms",
            "heartbeat_interval_ms",
            "max_poll_interval_ms",
            "request_timeout_ms",
            "default_api_timeout_ms",
            "auto_commit_interval_ms",
            "join_rebalance_timeout_ms",
        ):
            if not 0 < (value := getattr(self, name)) <= MAX_INT:
                dotted = name.removeprefix("join_").replace("_", ".")
                raise UsageError(f"{dotted} = {value} is out of range; use 1 to {MAX_INT}.")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:  # CL-03
            raise UsageError(
                f"heartbeat.interval.ms = {self.heartbeat_interval_ms} must be lower than session.timeout.ms = "
                f"{self.session_timeout_ms}; a third of it is usual."
            )
        if not 0 <= self.retry_backoff_ms <= self.retry_backoff_max_ms:
            raise UsageError(
                f"retry.backoff.ms = {self.retry_backoff_ms} must lie between 0 and retry.backoff.max.ms = "
                f"{self.retry_backoff_max_ms}."
            )
        names = [assignor.name for assignor in self.assignors]
        if len(set(names)) != len(names):
            raise UsageError(f"partition.assignment.strategy names an assignor twice: {', '.join(names)}.")
        if not self._common_protocols():  # CL-25
            raise UsageError(
                f"partition.assignment.strategy = {', '.join(names) or 'nothing'} has no rebalance protocol in common; "
                "use assignors that all support EAGER, or all support COOPERATIVE."
            )

    def _common_protocols(self) -> set[RebalanceProtocol]:
        supported = [set(assignor.protocols) for assignor in self.assignors]
        return set.intersection(*supported) if supported else set()

    @property
    def protocol(self) -> RebalanceProtocol:
        """The rebalance protocol (CL-25)."""
        cooperative = RebalanceProtocol.COOPERATIVE in self._common_protocols()
        return RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER

    @property
    def is_static(self) -> bool:
        """Whether the member has a group.instance.id."""
        return self.group_instance_id is not None

    @property
    def is_background(self) -> bool:
        """Whether rebalances proceed without polls."""
        return self.driver is RebalanceDriver.BACKGROUND

    @property
    def join_rebalance_timeout_ms(self) -> int:
        """The rebalance timeout sent in JoinGroup."""
        if self.rebalance_timeout_ms is not None:
            return self.rebalance_timeout_ms
        return BACKGROUND_REBALANCE_TIMEOUT_MS if self.is_background else self.max_poll_interval_ms

    @property
    def join_request_timeout_ms(self) -> int:
        """The request timeout of JoinGroup: the coordinator holds it for a whole rebalance (CL-16)."""
        extended_ms = self.join_rebalance_timeout_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS
        return max(self.request_timeout_ms, extended_ms if extended_ms <= MAX_INT else self.join_rebalance_timeout_ms)

    @property
    def release_wait_ms(self) -> int:
        """The time by which BACKGROUND delays its JoinGroup for partitions in use that it must revoke first.

        The rebalance may be one heartbeat interval old when the member learns of it, and JoinGroup must arrive before
        the group's rebalance timeout.
        """
        timeout_ms = self.join_rebalance_timeout_ms
        return max(timeout_ms - 2 * self.heartbeat_interval_ms, timeout_ms // 2)

    def assignor(self, name: str | None) -> Assignor | None:
        """The configured assignor with this name."""
        return next((assignor for assignor in self.assignors if assignor.name == name), None)


def _is_legal_instance_id(instance_id: str) -> bool:
    return _INSTANCE_ID.fullmatch(instance_id) is not None and instance_id not in (".", "..")
