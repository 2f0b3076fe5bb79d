"""The files of all labelled incidents: every rebalance is found, every line read, every event has its names."""

import json

import pyarrow.compute as pc  # type: ignore[import-untyped]
import pytest

from slackwater.doctor.diagnosis import DiagnosisRequest
from slackwater.doctor.history.files import list_local_files
from slackwater.doctor.local.history import LocalHistory
from tests.incidents import incidents_directory

INCIDENTS = incidents_directory()


@pytest.fixture(scope="module")
def history() -> LocalHistory:
    """The history of every incident, each as its own cluster."""
    request = DiagnosisRequest(paths=[str(INCIDENTS)], clusters_dir=str(INCIDENTS))
    return LocalHistory(request, list_local_files(request.paths))


def test_every_rebalance_is_found(history: LocalHistory) -> None:
    table = history.table()
    is_formed = pc.and_(pc.equal(table["kind"], "generation_formed"), pc.equal(table["source"], "broker_log"))
    counts = table.filter(is_formed).group_by(["cluster", "group"]).aggregate([([], "count_all")]).to_pylist()
    labels = (json.loads(path.read_text()) for path in INCIDENTS.glob("*/truth.json"))
    expected = {(label["id"], name): group["rebalances"] for label in labels for name, group in label["groups"].items()}
    found = {(count["cluster"], count["group"]): count["count_all"] for count in counts}
    assert {key: found.get(key, 0) for key in expected} == expected


def test_every_line_about_groups_is_read(history: LocalHistory) -> None:
    assert history.unrecognized() == []


def test_every_event_has_its_time_and_client(history: LocalHistory) -> None:
    table = history.table()
    assert table["time_ms"].null_count == 0
    is_client_log = pc.equal(table["source"], "client_log")
    unnamed = table.filter(pc.and_(is_client_log, pc.and_(pc.is_null(table["client"]), pc.is_null(table["instance"]))))
    # Sarama prints no name except its member id, so a client that never joined stays unknown.
    assert set(unnamed["kind"].to_pylist()) <= {"client_started", "coordinator_found"}
