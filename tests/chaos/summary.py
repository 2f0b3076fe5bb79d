"""What a run counts, and the table at its end."""

from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.oracles.heartbeats import TARGET_S, HeartbeatOracle


@dataclass
class Counts:
    """What happened so far, over all data directories."""

    records: int = 0
    commits: int = 0
    transactions: int = 0
    starts: int = 0
    refusals: int = 0
    reported_losses: int = 0
    injected_errors: int = 0
    max_memory_bytes: int = 0
    requests: int = 0
    connections: int = 0
    heartbeats: HeartbeatOracle = field(default_factory=HeartbeatOracle)


@dataclass
class Summary:
    """The result of a run; `violations` are the faults that violated guarantees, with a sentence for each."""

    counts: Counts = field(default_factory=Counts)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, list[str]]] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """Return the table and the totals."""
        violated = Counter(name for name, _ in self.violations)
        width = max((len(name) for name in self.faults), default=0)
        violated["total"] = len(self.violations)
        rows = [*sorted(self.faults.items()), ("total", self.faults.total())]
        counts, beats = self.counts, self.counts.heartbeats
        median, high, higher = (1000 * beats.percentile_s(share) for share in (0.5, 0.99, 0.999))
        slowest, slowest_net = 1000 * beats.max_s, 1000 * beats.max_net_s
        return [
            f"{'fault':{width}}  count    violated",
            *(f"{name:{width}}  {count:5}  {violated[name] or '-':>10}" for name, count in rows),
            "",
            f"time                 {self.seconds:.0f} s",
            f"broker               {counts.starts} starts, {counts.refusals} refusals with a sentence",
            f"acknowledged         {counts.records:,} records, {counts.commits:,} commits",
            f"transactions         {counts.transactions:,}",
            f"reported losses      {counts.reported_losses} log files that were damaged on purpose",
            f"hostile              {counts.requests:,} requests, {counts.connections:,} connections",
            f"failed operations    {counts.injected_errors:,} of the disk",
            f"heartbeats           {beats.count:,}; {beats.above_target} took more than {1000 * TARGET_S:.0f} ms",
            f"heartbeat latency    {median:.1f} ms median, {high:.1f} ms 99 %, {higher:.1f} ms 99.9 %",
            f"slowest heartbeat    {slowest:.0f} ms; without waits for a processor {slowest_net:.0f} ms",
            f"memory               {counts.max_memory_bytes >> 20} MB at most",
        ]
