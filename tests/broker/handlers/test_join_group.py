"""JoinGroup: the fields that the broker adds. `tests/conformance` covers the versions."""

import re
from pathlib import Path

from slackwater.group.errors import Error
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.broker.quiet_broker import QuietBroker

from .members import GROUP, join, join_stable_group

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def test_member_id_is_client_id_and_uuid(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        ids = [join(broker.connect("loader"), group=group) for group in ("g", "h")]
    assert all(re.fullmatch(f"loader-{UUID}", member_id) for member_id in ids)
    assert ids[0] != ids[1]


def test_static_member_id_starts_with_the_instance_id(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        assert re.fullmatch(f"node-7-{UUID}", join(broker.connect("loader"), instance="node-7"))


def test_member_has_client_id_and_host(tmp_path: Path) -> None:
    with QuietBroker(tmp_path) as broker:
        client = broker.connect("loader")
        join_stable_group(client)
        (group,) = client.request_fields("DescribeGroups", 6, groups=[GROUP])["groups"]
        (member,) = group["members"]
    assert (member["client_id"], member["client_host"]) == ("loader", "/127.0.0.1")


def test_join_waits_for_the_generation(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"group.initial.rebalance.delay.ms": 3000}) as broker:
        client = broker.connect()
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(GROUP, 10_000, 60_000, "", "i", "consumer", protocols)
        next_response = client.send(request, JoinGroupResponse)
        broker.pass_ms(2_900)
        assert next_response() is None
        broker.pass_ms(100)
        response = next_response()
        assert response is not None
        assert (response.error_code, response.generation_id) == (Error.NONE, 1)
        assert [member.group_instance_id for member in response.members] == ["i"]


def test_subscriptions_larger_than_a_record_are_rejected(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, {"message.max.bytes": 1_000}) as broker:
        client = broker.connect()

        def join_with(size: int) -> int:
            protocols = [JoinGroupRequestProtocol("range", bytes(size)), JoinGroupRequestProtocol("sticky", bytes(500))]
            request = JoinGroupRequest(GROUP, 10_000, 60_000, "", None, "consumer", protocols)
            return client.request(request, JoinGroupResponse, 5).error_code

        assert join_with(501) == Error.INVALID_REQUEST
        assert join_with(500) == Error.MEMBER_ID_REQUIRED
