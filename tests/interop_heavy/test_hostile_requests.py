"""Every array of every API in every version, while a bystander's heartbeats are timed."""

from itertools import chain
from pathlib import Path

from tests.broker.broker_process import BrokerProcess
from tests.broker.bystander import Bystander
from tests.broker.hostile_matrix import MAX_MEMORY_BYTES, SETTINGS, all_attacks, prepare, run, transactions

MAX_HEARTBEAT_S = 0.25
BUSY_MACHINE = 10  # other processes may take most of the time; then only a far longer heartbeat counts


def test_hostile_requests_in_all_versions(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        member, topic_id = prepare(broker)
        with Bystander(broker.port, broker.pid).running() as bystander:
            attacks = chain(all_attacks(topic_id, all_versions=True), transactions(broker))
            outcomes = list(run(attacks, broker, bystander))
        member.close()
        assert len(outcomes) > 500
        assert bystander.errors == []
        slow = [outcome for outcome in outcomes if outcome.heartbeat_s > MAX_HEARTBEAT_S]
        assert [outcome for outcome in slow if outcome.heartbeat_s > MAX_HEARTBEAT_S * BUSY_MACHINE] == []
        assert len(slow) < len(outcomes) / 10, slow
        assert [outcome for outcome in outcomes if outcome.peak_bytes > MAX_MEMORY_BYTES] == []
