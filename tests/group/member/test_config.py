"""A member's settings."""

from typing import Any

import pytest

from slackwater.group.assignors import RangeAssignor
from slackwater.group.errors import UsageError
from slackwater.group.member import MemberConfig, RebalanceDriver


def config(**settings: Any) -> MemberConfig:
    """Return a configuration with these settings."""
    return MemberConfig(**({"group_id": "g", "client_id": "c"} | settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_id": ""}, "group.id is empty"),
        ({"group_instance_id": ""}, "group.instance.id = '' is not a legal name"),
        ({"group_instance_id": "a b"}, "not a legal name"),
        ({"group_instance_id": ".."}, "not a legal name"),
        ({"group_instance_id": "x" * 250}, "not a legal name"),
        ({"session_timeout_ms": 0}, "session.timeout.ms = 0 is out of range"),
        ({"max_poll_interval_ms": -1}, "max.poll.interval.ms = -1 is out of range"),
        ({"rebalance_timeout_ms": 2**31}, "rebalance.timeout.ms = 2147483648 is out of range"),
        ({"heartbeat_interval_ms": 45_000}, "heartbeat.interval.ms = 45000 must be lower"),
        ({"retry_backoff_ms": 2_000}, "retry.backoff.ms = 2000 must lie between"),
        ({"assignors": (RangeAssignor(), RangeAssignor())}, "names an assignor twice: range, range"),
        ({"assignors": ()}, "nothing has no rebalance protocol in common"),
    ],
)
def test_invalid_settings_raise_usage_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        config(**settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_rebalance_timeout_default_depends_on_driver() -> None:
    assert config(max_poll_interval_ms=7_000).join_rebalance_timeout_ms == 7_000
    assert config(driver=RebalanceDriver.BACKGROUND).join_rebalance_timeout_ms == 60_000
    assert config(driver=RebalanceDriver.BACKGROUND, rebalance_timeout_ms=9_000).join_rebalance_timeout_ms == 9_000


def test_release_wait_is_below_rebalance_timeout() -> None:
    assert config(driver=RebalanceDriver.BACKGROUND).release_wait_ms == 54_000
    assert config(rebalance_timeout_ms=8_000).release_wait_ms == 4_000


def test_assignor_is_selected_by_protocol_name() -> None:
    settings = config()
    assert settings.assignor("range") is settings.assignors[0]
    assert settings.assignor("sticky") is None
    assert settings.assignor(None) is None
    assert config(group_instance_id="a.b_c-1").is_static
