"""Hostile requests delay no other heartbeat and take bounded memory (`make interop` sends them in all versions).

The target is 250 ms on an idle machine. Tests run on busy ones, so the bounds here are ten times that.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.wire import apis

from .broker_process import BrokerProcess
from .bystander import Bystander
from .hostile_matrix import (
    MAX_MEMORY_BYTES,
    SETTINGS,
    Attack,
    arrays,
    beyond_the_limit,
    bombs,
    prepare,
    run,
    strings,
    tagged_fields,
    transactions,
)

MAX_HEARTBEAT_S = 2.5
# The APIs that took longest before, and one of each kind of handling: in parts, in slices, at once.
CHOSEN = (
    apis.FIND_COORDINATOR,
    apis.DESCRIBE_GROUPS,
    apis.OFFSET_FETCH,
    apis.LIST_OFFSETS,
    apis.DESCRIBE_CONFIGS,
    apis.FETCH,
    apis.PRODUCE,
)


def _attacks(kind: str, topic_id: bytes, broker: BrokerProcess) -> Iterator[Attack]:
    match kind:
        case "arrays":
            yield from arrays(topic_id, only=CHOSEN)
        case "limit":
            yield from beyond_the_limit(CHOSEN)
        case "strings":
            yield from strings(CHOSEN)
        case "tags":
            yield from tagged_fields()
        case "bombs":
            yield from bombs()
        case "transactions":
            yield from transactions(broker)


@pytest.mark.parametrize("kind", ["arrays", "limit", "strings", "tags", "bombs", "transactions"])
def test_hostile_requests_delay_no_heartbeat(tmp_path: Path, kind: str) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        member, topic_id = prepare(broker)
        with Bystander(broker.port, broker.pid, session_ms=30_000).running() as bystander:
            outcomes = list(run(_attacks(kind, topic_id, broker), broker, bystander))
        member.close()
        assert outcomes
        assert bystander.errors == []
        assert [outcome for outcome in outcomes if outcome.heartbeat_s > MAX_HEARTBEAT_S] == []
        assert [outcome for outcome in outcomes if outcome.peak_bytes > MAX_MEMORY_BYTES] == []
