"""The labelled incidents with a part of their lines or files missing, and two incidents in one log.

Invariants:
- The damage depends on the seed and the incident only.
- A verdict is wrong and sure if its cause is none of the labels and its confidence is `SURE` or more.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, diagnose_group
from tests.doctor.corpus import read_incident, truth

SOURCE_SETS: Final = (("broker", "clients", "offsets"), ("broker",), ("clients",), ("offsets",))
PAIRS: Final = (("broker", "clients"), ("broker", "offsets"), ("clients", "offsets"))
LOST_SHARE: Final = 0.1


class Judged(NamedTuple):
    """The verdict on incomplete input, and the causes that would be right."""

    what: str
    labels: tuple[str, ...]
    verdict: Verdict

    @property
    def is_wrong_and_sure(self) -> bool:
        """Whether the verdict names another cause and is sure of it."""
        return self.verdict.cause not in self.labels and self.verdict.confidence >= SURE


def with_lines_missing(
    incident: str, seed: int, source_sets: Iterable[Sequence[str]] = SOURCE_SETS
) -> Iterator[Judged]:
    """Diagnose an incident without a random tenth of its lines."""
    for sources in source_sets:
        lines_left = partial(_lines_left, random.Random(f"{seed} {incident} {sources}"))
        rows = read_incident(incident, sources, lines_left)
        yield from _judge(f"{incident} {'+'.join(sources)} seed {seed}", incident, rows)


def _lines_left(choice: random.Random, lines: list[str]) -> list[str]:
    return [line for line in lines if choice.random() >= LOST_SHARE]


def with_a_file_missing(incident: str) -> Iterator[Judged]:
    """Diagnose an incident from two of its three sources."""
    for sources in PAIRS:
        yield from _judge(f"{incident} {'+'.join(sources)}", incident, read_incident(incident, sources))


def together(first: str, second: str, sources: Sequence[str] = SOURCE_SETS[0]) -> Iterator[Judged]:
    """Diagnose two incidents in one directory of logs."""
    rows = [*read_incident(first, sources), *read_incident(second, sources)]
    for incident in (first, second):
        yield from _judge(f"{first} and {second} {'+'.join(sources)}", incident, rows)


def _judge(what: str, incident: str, rows: Sequence[Row]) -> Iterator[Judged]:
    cluster = ClusterHistory.of(row for row in rows if not row.group)
    for group, label in truth(incident)["groups"].items():
        own = [row for row in rows if row.group == group]
        if own:
            verdict = diagnose_group(GroupHistory(group, own, cluster), with_timeline=False)
            yield Judged(f"{what} {group}", (label["cause"],), verdict)
