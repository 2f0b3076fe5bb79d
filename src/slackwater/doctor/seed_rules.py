"""The rows of the source texts, each with the rule that answers it.

Rules kept here
- One entry per row of text 003, sections 4 and 7, and of text 004's troubleshooting and alerting: what it says, which
  causes (or alerts) of ours it is, and which remedies name it. A test looks for rows without a rule.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SeedRow:
    """A row of a source text."""

    cite: str
    says: str
    causes: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()


SEED_ROWS: Final = (
    SeedRow("003 §4 row 1", "session.timeout.ms up: fewer kicks from blips and GC", ("session_expiry",)),
    SeedRow("003 §4 row 2", "max.poll.interval.ms up: fewer kicks from slow processing", ("poll_delay",)),
    SeedRow("003 §4 row 3", "max.poll.records down: a lighter batch", ("poll_delay", "kip848_poll_delay")),
    SeedRow("003 §4 row 4", "offload processing: poll always returns quickly", ("poll_delay", "kip848_poll_delay")),
    SeedRow(
        "003 §7 row 1",
        "heartbeat failed, group is rebalancing: another member was kicked",
        ("poll_delay", "session_expiry"),
    ),
    SeedRow("003 §7 row 2", "LeaveGroup right after processing: poll delay", ("poll_delay",)),
    SeedRow("003 §7 row 3", "kicked after a long GC: session expiry", ("session_expiry",)),
    SeedRow("003 §7 row 4", "a storm on every rolling deploy: member restarts", ("rolling_restart",)),
    SeedRow("003 §7 row 5", "throughput 0 on every rebalance: eager stop-the-world", ("eager_stop_the_world",)),
    SeedRow("004 Frequent Rebalances row 1", "processing too slow", ("poll_delay",)),
    SeedRow("004 Frequent Rebalances row 2", "network instability", ("session_expiry",)),
    SeedRow("004 Frequent Rebalances row 3", "GC pauses", ("session_expiry",)),
    SeedRow("004 Frequent Rebalances row 4", "consumer crashes", ("crash_loop", "crash")),
    SeedRow(
        "004 Stuck Rebalance", "PreparingRebalance, no progress", ("stuck_rebalance",), ("RebalanceStuck", "NoProgress")
    ),
    SeedRow(
        "004 Rebalance Storm",
        "cascading rebalances in quick succession",
        ("poll_delay", "session_expiry", "crash_loop"),
    ),
    SeedRow("004 Alerting row 1", "more than one rebalance an hour", (), ("RebalancesTooOften",)),
    SeedRow("004 Alerting row 2", "failed rebalances", (), ("RebalancesFail",)),
    SeedRow("004 Alerting row 3", "longer than 60 s", (), ("RebalanceTooLong",)),
)
