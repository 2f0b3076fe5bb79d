"""Events of `__group_events` to rows of the event table.

Invariants:
- The JSON is that of `GroupEvent.to_json`.
- Partitions are printed `topic-0`, as everywhere in the table.
- The cluster is the reader's. Members do not know the cluster id, and all events of a group must have the same one.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.doctor.events.table import COLUMNS, DETAIL, EVIDENCE

_RENAMED: Final = ("members", "partitions", "assignment", "count")
_DETAIL: Final = ", ".join(f"`{name}` {kind}" for name, kind in DETAIL.items() if name not in _RENAMED)
_SCHEMA: Final = (
    ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    + f", source STRING, evidence STRING, detail STRUCT<{_DETAIL.replace('` ', '`: ')}, "
    "`partitions`: STRING, `count`: BIGINT, `members`: STRING>"
)
_DERIVED: Final[dict[str, str]] = {
    "partitions": "transform(from_json(e.detail.partitions, 'array<array<string>>'), x -> concat_ws('-', x))",
    "assignment": f"CAST(NULL AS {DETAIL['assignment']})",
}


def read_group_events(lines: DataFrame) -> DataFrame:
    """Return the events in lines of JSON (cluster, file, position, text)."""
    rows = lines.withColumn("e", F.from_json("text", _SCHEMA)).filter("e.kind IS NOT NULL")
    columns = {"cluster": "cluster"}
    evidence = {
        "evidence": "coalesce(e.evidence, concat(file, ':', position))",
        "file": "file",
        "position": "position",
        "template": "CAST(NULL AS string)",
        "text": "text",
    }
    detail = ", ".join(f"'{name}', {_DERIVED.get(name, f'e.detail.`{name}`')}" for name in DETAIL)
    return rows.select(
        *(F.expr(columns.get(name, f"e.`{name}`")).alias(name) for name in COLUMNS),
        F.expr(f"named_struct({detail})").alias("detail"),
        *(F.expr(evidence.get(name, f"e.`{name}`")).alias(name) for name in EVIDENCE),
    )
