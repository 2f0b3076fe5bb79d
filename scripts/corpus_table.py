"""Write docs/doctor-corpus.md: the doctor's verdicts on the labelled incidents, from all files and from each source.

Run it from the repository's root: `.venv/bin/python scripts/corpus_table.py`. With `--check` it only reports by its
exit code whether the page is up to date.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.doctor.corpus import incidents, read_incident, truth  # noqa: E402

from slackwater.doctor.causes.finding import SURE  # noqa: E402
from slackwater.doctor.timeline.cluster_history import ClusterHistory  # noqa: E402
from slackwater.doctor.timeline.group_history import GroupHistory  # noqa: E402
from slackwater.doctor.verdict import Verdict, diagnose_group  # noqa: E402

PAGE: Final = ROOT / "docs" / "doctor-corpus.md"
SOURCES: Final = {
    "all files": ("broker", "clients", "offsets"),
    "broker log only": ("broker",),
    "client logs only": ("clients",),
    "`__consumer_offsets` only": ("offsets",),
}
RIGHT, UNSURE, WRONG, NOTHING = "right", "unsure", "wrong", "no data"


class CorpusResult(NamedTuple):
    """The verdict on one group of one incident, from some sources."""

    incident: str
    library: str
    cause: str
    found: str
    confidence: float
    rating: str


def main() -> int:
    """Write or check the page."""
    text = page({name: list(results(sources)) for name, sources in SOURCES.items()})
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


def results(sources: tuple[str, ...]) -> Iterator[CorpusResult]:
    """Return the result for every group in the corpus."""
    for incident in incidents():
        label = truth(incident)
        rows = read_incident(incident, sources)
        cluster = ClusterHistory.of(row for row in rows if not row.group)
        for group, expected in label["groups"].items():
            own = [row for row in rows if row.group == group]
            verdict = diagnose_group(GroupHistory(group, own, cluster)) if own else None
            yield _result(incident, label["library"], expected, verdict)


def _result(incident: str, library: str, expected: dict[str, object], verdict: Verdict | None) -> CorpusResult:
    cause = str(expected["cause"])
    if verdict is None:
        return CorpusResult(incident, library, cause, "", 0.0, NOTHING)
    culprits = expected["culprits"]
    assert isinstance(culprits, list)
    if verdict.cause == cause and (not culprits or set(verdict.culprits) & set(culprits)):
        rating = RIGHT
    else:
        rating = WRONG if verdict.confidence >= SURE and verdict.cause != cause else UNSURE
    return CorpusResult(incident, library, cause, verdict.cause, verdict.confidence, rating)


def page(by_source: dict[str, list[CorpusResult]]) -> str:
    """Return the text of the page."""
    lines = [
        "# The doctor on the labelled incidents",
        "",
        f"{len(incidents())} incidents recorded from real brokers and clients.",
        "`scripts/corpus_table.py` writes this page.",
        "",
        "Right: the labelled cause and its culprits. Unsure: another result with a confidence below 0.8, with the",
        "source that would decide. Wrong: another result with a higher confidence. librdkafka logs only problems, so",
        "many groups have no line in a client log.",
        "",
        f"| source | {RIGHT} | {UNSURE} | {WRONG} | {NOTHING} |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, rows in by_source.items():
        counts = Counter(row.rating for row in rows)
        lines.append(
            f"| {name} | " + " | ".join(str(counts[rating]) for rating in (RIGHT, UNSURE, WRONG, NOTHING)) + " |"
        )
    lines += ["", "## By cause", "", "Right results of all groups, per source.", ""]
    lines += [f"| cause | {' | '.join(by_source)} |", "|---|" + "---:|" * len(by_source)]
    for cause in sorted({row.cause for row in by_source["all files"]}):
        cells = []
        for rows in by_source.values():
            own = [row for row in rows if row.cause == cause]
            cells.append(f"{sum(row.rating == RIGHT for row in own)} of {len(own)}")
        lines.append(f"| {cause} | {' | '.join(cells)} |")
    for name, rows in by_source.items():
        doubtful = [row for row in rows if row.rating in (UNSURE, WRONG)]
        if doubtful:
            lines += ["", f"## Unsure or wrong from {name}", ""]
            lines += ["| incident | library | label | result | confidence |", "|---|---|---|---|---:|"]
            lines += [f"| {r.incident} | {r.library} | {r.cause} | {r.found} | {r.confidence:.2f} |" for r in doubtful]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
