"""Results of benchmarks: each script records its rows, and `benchmarks/run.py` puts all of them into one table."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

VARIABLE: Final = "SLACKWATER_BENCHMARK_RESULTS"
"""Names the file that rows are appended to; without it nothing is recorded."""


@dataclass(frozen=True, slots=True)
class Result:
    """One row: what was measured, the peer's figure and ours, their ratio, and the target for it."""

    what: str
    peer: str
    ours: str
    ratio: float | None
    target: str

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if not self.target or self.ratio is None:
            return None
        sign, limit = self.target.split()
        return self.ratio <= float(limit) if sign == "≤" else self.ratio >= float(limit)


def add_result(what: str, *, ours: str, peer: str = "", ratio: float | None = None, target: str = "") -> None:
    """Append a row; `target` is "≤ 0.5" or "≥ 1.5" and applies to the ratio."""
    path = os.environ.get(VARIABLE)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(Result(what, peer, ours, ratio, target)), ensure_ascii=False) + "\n")


def read_results(path: Path) -> Iterator[Result]:
    """The rows of a file."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield Result(**json.loads(line))
