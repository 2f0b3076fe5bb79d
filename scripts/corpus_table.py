"""Write docs/doctor-corpus.md: what the doctor says of the labelled incidents, from all files and from each source.

Run it from the repository's root: `.venv/bin/python scripts/corpus_table.py`. `--check` only says whether the page is
as it would be written.
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
from slackwater.doctor.verdict import Verdict, judge  # noqa: E402

PAGE: Final = ROOT / "docs" / "doctor-corpus.md"
SOURCES: Final = {
    "all files": ("broker", "clients", "offsets"),
    "broker's log alone": ("broker",),
    "clients' logs alone": ("clients",),
    "`__consumer_offsets` alone": ("offsets",),
}
RIGHT, UNSURE, WRONG, NOTHING = "right", "unsure", "wrong", "nothing to read"


class Outcome(NamedTuple):
    """One group of one incident, by one source."""

    incident: str
    library: str
    cause: str
    said: str
    confidence: float
    how: str


def main() -> int:
    """Write the page, or compare it."""
    text = page({name: list(outcomes(sources)) for name, sources in SOURCES.items()})
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


def outcomes(sources: tuple[str, ...]) -> Iterator[Outcome]:
    """What is said of every group in the corpus."""
    for incident in incidents():
        label = truth(incident)
        rows = read_incident(incident, sources)
        cluster = ClusterHistory.of(row for row in rows if not row.group)
        for group, expected in label["groups"].items():
            own = [row for row in rows if row.group == group]
            verdict = judge(GroupHistory(group, own, cluster)) if own else None
            yield _outcome(incident, label["library"], expected, verdict)


def _outcome(incident: str, library: str, expected: dict[str, object], verdict: Verdict | None) -> Outcome:
    cause = str(expected["cause"])
    if verdict is None:
        return Outcome(incident, library, cause, "", 0.0, NOTHING)
    culprits = expected["culprits"]
    assert isinstance(culprits, list)
    if verdict.cause == cause and (not culprits or set(verdict.culprits) & set(culprits)):
        how = RIGHT
    else:
        how = WRONG if verdict.confidence >= SURE and verdict.cause != cause else UNSURE
    return Outcome(incident, library, cause, verdict.cause, verdict.confidence, how)


def page(found: dict[str, list[Outcome]]) -> str:
    """The page's text."""
    lines = [
        "# The doctor on the labelled incidents",
        "",
        f"{len(incidents())} incidents played by real brokers and clients. `scripts/corpus_table.py` writes this page.",
        "",
        "Right: the labelled cause, and its culprits. Unsure: something else, with a confidence below 0.8 and the",
        "source that would decide it. Wrong: something else for sure. Clients of librdkafka log nothing unless",
        "something is wrong, so that many groups have no client's line at all.",
        "",
        f"| read | {RIGHT} | {UNSURE} | {WRONG} | {NOTHING} |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, rows in found.items():
        counts = Counter(row.how for row in rows)
        lines.append(f"| {name} | " + " | ".join(str(counts[how]) for how in (RIGHT, UNSURE, WRONG, NOTHING)) + " |")
    lines += ["", "## By cause", "", "Right of all, per source.", ""]
    lines += [f"| cause | {' | '.join(found)} |", "|---|" + "---:|" * len(found)]
    for cause in sorted({row.cause for row in found["all files"]}):
        cells = []
        for rows in found.values():
            own = [row for row in rows if row.cause == cause]
            cells.append(f"{sum(row.how == RIGHT for row in own)} of {len(own)}")
        lines.append(f"| {cause} | {' | '.join(cells)} |")
    for name, rows in found.items():
        doubtful = [row for row in rows if row.how in (UNSURE, WRONG)]
        if doubtful:
            lines += ["", f"## Not right from the {name.removeprefix('the ')}", ""]
            lines += ["| incident | library | labelled | said | confidence |", "|---|---|---|---|---:|"]
            lines += [f"| {r.incident} | {r.library} | {r.cause} | {r.said} | {r.confidence:.2f} |" for r in doubtful]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
