"""The labelled incidents: all files give cause, culprits and generations; no single source gives a sure wrong cause."""

from functools import cache

import pytest

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.events.rows import Row, SingleRowDetail
from slackwater.doctor.events.table import DETAIL
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, diagnose_group
from tests.doctor.corpus import incidents, read_incident, truth

INCIDENTS = incidents()


@cache
def rows_of(incident: str, sources: tuple[str, ...]) -> list[Row]:
    return read_incident(incident, sources)


def verdicts(incident: str, sources: tuple[str, ...]) -> dict[str, Verdict]:
    rows = rows_of(incident, sources)
    cluster = ClusterHistory.of(row for row in rows if not row.group)
    judged = {}
    for group in truth(incident)["groups"]:
        group_rows = [row for row in rows if row.group == group]
        if group_rows:
            judged[group] = diagnose_group(GroupHistory(group, group_rows, cluster))
    return judged


@pytest.mark.parametrize("incident", INCIDENTS)
def test_all_files_give_cause_culprits_and_generations(incident: str) -> None:
    judged = verdicts(incident, ("broker", "clients", "offsets"))
    for group, label in truth(incident)["groups"].items():
        verdict = judged[group]
        assert verdict.cause == label["cause"]
        assert set(verdict.culprits) == set(label["culprits"])
        assert verdict.rebalances == label["rebalances"]
        assert verdict.is_storm == label["storm"]


@pytest.mark.parametrize("sources", [("broker",), ("clients",), ("offsets",)], ids="+".join)
@pytest.mark.parametrize("incident", INCIDENTS)
def test_single_source_is_never_surely_wrong(incident: str, sources: tuple[str, ...]) -> None:
    for group, verdict in verdicts(incident, sources).items():
        label = truth(incident)["groups"][group]
        if verdict.cause != label["cause"]:
            assert verdict.confidence < SURE
        if verdict.confidence < SURE:
            assert verdict.missing_input


@pytest.mark.parametrize("incident", INCIDENTS)
def test_verdict_does_not_depend_on_names(incident: str) -> None:
    """Rename groups, clients and topics so that nothing of the original names is left."""
    rows = rows_of(incident, ("broker", "clients", "offsets"))
    label = truth(incident)
    names = sorted(
        {name for row in rows for name in (row.group, row.client, row.instance) if name}, key=len, reverse=True
    )
    for group in label["groups"]:
        renamed = [_renamed(row, names) for row in rows if row.group == group]
        cluster = ClusterHistory.of(row for row in rows if not row.group)
        if label["groups"][group]["cause"] in ("partitions_added", "new_topic_matched", "topic_deleted"):
            continue  # the topic's name links the group to the change
        assert diagnose_group(GroupHistory("other", renamed, cluster)).cause == label["groups"][group]["cause"]


def _renamed(row: Row, names: list[str]) -> Row:
    def rename(text: str | None) -> str | None:
        if text is None:
            return None
        for number, name in enumerate(names):
            if text == name or (text.startswith(f"{name}-") and len(text) == len(name) + 37):
                return f"n{number}" + text[len(name) :]
        return text

    detail = {
        name: [rename(member) for member in value] if name == "member_ids" else rename(value) if name in _IDS else value
        for name in DETAIL
        if (value := row.detail_value(name)) is not None
    }
    return Row(
        time_ms=row.time_ms,
        kind=row.kind,
        source=row.source,
        group="other",
        trigger=row.trigger,
        generation=row.generation,
        member=rename(row.member),
        instance=rename(row.instance),
        client=rename(row.client),
        assignor=row.assignor,
        members=row.members,
        state_before=row.state_before,
        detail=SingleRowDetail(detail),
        evidence=row.evidence,
        file=rename(row.label or "") if row.file else None,
    )


_IDS = frozenset({"culprit", "old_member", "holder", "leader"})
