"""DeleteGroups in all versions."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from tests.broker.quiet_broker import QuietBroker

from .members import commit, join_stable_group


@pytest.mark.parametrize("version", range(3))
def test_each_group_has_a_result_and_stays_deleted(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, t=1) as broker:
        client = broker.connect()
        commit(client, 1, group="old")
        join_stable_group(client, group="busy")
        names = ["old", "busy", "never"]
        results = client.request_fields("DeleteGroups", version, groups_names=names)["results"]
    errors = {result["group_id"]: result["error_code"] for result in results}
    assert errors == {"old": Error.NONE, "busy": Error.NON_EMPTY_GROUP, "never": Error.GROUP_ID_NOT_FOUND}
    with QuietBroker(tmp_path) as broker:
        assert set(broker.broker.group_coordinator.coordinator.groups) == {"busy"}
