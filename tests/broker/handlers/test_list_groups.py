"""ListGroups in its versions."""

import pytest

from slackwater.broker.handlers.list_groups import VERSIONS, answer, request
from slackwater.group.errors import Error
from slackwater.group.messages import ListedGroup, ListGroups, ListGroupsResponse

from .wire_fields import assert_fields, assert_takes


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_exactly_its_versions_fields(version: int) -> None:
    response = ListGroupsResponse(Error.NONE, (ListedGroup("g", "consumer", "Stable"),))
    assert_fields("ListGroupsResponse", version, answer(version, response))


def test_a_request_takes_every_versions_fields() -> None:
    assert_takes("ListGroupsRequest", VERSIONS, request)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filter_counts_from_its_version_on(version: int) -> None:
    asked = request(version, states_filter=["Stable"], types_filter=["classic"])
    assert asked == ListGroups(("Stable",) if version >= 4 else (), ("classic",) if version >= 5 else ())
