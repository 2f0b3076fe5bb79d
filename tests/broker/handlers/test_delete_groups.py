"""DeleteGroups in its versions."""

from pathlib import Path

import pytest

from slackwater.group.errors import Error
from tests.broker.quiet_broker import QuietBroker

from .members import commit, settle


@pytest.mark.parametrize("version", range(3))
def test_each_group_is_answered_for_itself_and_is_gone_after_a_restart(tmp_path: Path, version: int) -> None:
    with QuietBroker(tmp_path, t=1) as broker:
        client = broker.connect()
        commit(client, 1, group="old")
        settle(client, group="busy")
        asked = ["old", "busy", "never"]
        results = client.ask_fields("DeleteGroups", version, groups_names=asked)["results"]
    errors = {result["group_id"]: result["error_code"] for result in results}
    assert errors == {"old": Error.NONE, "busy": Error.NON_EMPTY_GROUP, "never": Error.GROUP_ID_NOT_FOUND}
    with QuietBroker(tmp_path) as broker:
        assert set(broker.broker.groups.coordinator.groups) == {"busy"}
