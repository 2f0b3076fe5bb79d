"""The broker authorizes every API as Apache Kafka 4.3.1 did with the same rules (`acl_matrix`)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from slackwater.wire.codec import response_type
from slackwater.wire.schema import Request
from tests.broker.quiet_broker import QuietBroker

from .acl_matrix import (
    CASES,
    DIFFERENCES,
    DIRECTORY,
    PROBES,
    SETTINGS,
    SHARED,
    Probe,
    Resources,
    normalized,
    prepare,
    run_case,
    stored,
)

FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "AC-03": (
        "metadata_v9",
        "metadata",
    ),
    "AC-04": (
        "metadata",
        "metadata_v9",
        "metadata_every",
        "describe_topic_partitions",
    ),
    "AC-05": (
        "metadata_ids",
        "fetch_ids",
        "produce_ids",
        "delete_topics_ids",
        "offset_commit_ids",
        "offset_fetch_ids",
    ),
    "AC-06": (
        "metadata_create",
        "metadata_create_cluster",
    ),
    "AC-07": (
        "produce",
        "fetch",
        "fetch_replica",
        "fetch_replica_ids",
        "list_offsets",
        "offset_for_leader_epoch",
        "offset_for_leader_epoch_replica",
        "describe_producers",
        "txn_describe_producers",
    ),
    "AC-08": (
        "init_producer_id",
        "init_producer_id_cluster",
    ),
    "AC-09": (
        "join_group",
        "sync_group",
        "heartbeat",
        "leave_group",
        "leave_group_v2",
    ),
    "AC-10": ("offset_commit",),
    "AC-11": (
        "offset_fetch",
        "offset_fetch_groups",
        "offset_fetch_every",
    ),
    "AC-12": (
        "offset_delete",
        "delete_groups",
    ),
    "AC-13": (
        "find_coordinator",
        "find_coordinator_v3",
        "find_coordinator_txn",
        "find_coordinator_txn_v3",
        "find_coordinator_txn_write",
    ),
    "AC-14": (
        "list_groups",
        "list_groups_cluster",
        "describe_groups",
    ),
    "AC-15": (
        "metadata",
        "metadata_cluster",
        "describe_cluster",
        "describe_groups",
    ),
    "AC-16": (
        "create_topics",
        "create_topics_cluster",
        "create_topics_existing",
    ),
    "AC-17": (
        "delete_topics",
        "delete_topics_ids",
        "delete_topics_cluster",
        "delete_records",
        "create_partitions",
    ),
    "AC-18": (
        "describe_configs",
        "describe_configs_broker",
        "describe_configs_group",
        "alter_configs",
        "incremental_alter_configs",
        "incremental_alter_configs_broker",
    ),
    "AC-19": (
        "describe_log_dirs",
        "describe_user_scram_credentials",
        "list_partition_reassignments",
        "describe_acls",
        "alter_replica_log_dirs",
        "alter_user_scram_credentials",
        "elect_leaders",
        "elect_leaders_v0",
        "alter_partition_reassignments",
        "create_acls",
        "delete_acls",
        "list_config_resources",
        "describe_client_quotas",
        "alter_client_quotas",
    ),
    "AC-20": (
        "create_acls",
        "create_acls_operation_any",
        "create_acls_operation_unknown",
        "create_acls_operation_unsupported",
        "create_acls_resource_any",
        "create_acls_resource_unknown",
        "create_acls_pattern_match",
        "create_acls_pattern_unknown",
        "create_acls_principal",
        "create_acls_permission_any",
        "create_acls_permission_unknown",
        "create_acls_operation_zero",
        "create_acls_resource_zero",
    ),
    "AC-21": (
        "describe_acls",
        "describe_acls_unknown",
        "delete_acls",
        "delete_acls_unknown",
        "delete_acls_repeated",
    ),
    "AC-22": (
        "init_producer_id_txn",
        "init_producer_id_txn_open",
        "txn_produce",
        "txn_produce_v12",
        "txn_add_partitions",
        "txn_add_partitions_id",
        "txn_verify_partitions",
        "txn_add_offsets",
        "txn_commit_offsets",
        "txn_commit_offsets_group",
        "txn_end",
        "txn_describe",
        "txn_describe_other_order",
        "txn_list",
        "list_transactions",
        "write_txn_markers",
        "write_txn_markers_alter",
        "describe_transactions",
        "add_partitions_to_txn",
        "add_offsets_to_txn",
        "end_txn",
        "txn_offset_commit",
    ),
}
"""The probes that prove each fact of the catalogue."""


def _param(probe: Probe) -> Any:
    numbers = [number for number, names in FACTS.items() if probe.name in names]
    return pytest.param(probe, id=probe.name, marks=pytest.mark.proves(*numbers))


class BrokerPeer:
    """Our broker; connections are authenticated from the start."""

    def __init__(self, broker: QuietBroker) -> None:
        self._broker = broker

    def request(self, user: str, request: Request, version: int) -> Any:
        """Send a request as this user and return the response; None if the connection is closed."""
        client = self._broker.connect("recorder", f"User:{user}")
        response = client.send(request, response_type(request.API), version)
        for _ in range(200):
            if (received := response()) is not None or client.is_closed:
                break
            self.pause()
        client.close()
        return received

    def pause(self) -> None:
        """Let the broker continue."""
        self._broker.pass_ms(10)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerPeer, Resources]]:
    with QuietBroker(tmp_path_factory.mktemp("acls"), SETTINGS) as broker:
        broker.broker.create_transactions_topic()
        peer = BrokerPeer(broker)
        yield peer, prepare(peer)


@pytest.mark.parametrize("probe", [_param(probe) for probe in PROBES])
def test_authorization_equals_kafka_transcript(prepared: tuple[BrokerPeer, Resources], probe: Probe) -> None:
    peer, resources = prepared
    cases = [case for case in CASES if case.probe is probe]
    ours = {case.variant: run_case(peer, case, resources) for case in cases}
    recorded = stored(probe)
    assert ours.keys() == recorded.keys(), "record this probe again"
    for case in cases:
        if case.name in DIFFERENCES:
            assert ours[case.variant] != recorded[case.variant], f"no longer differs: {DIFFERENCES[case.name]}"
        else:
            assert ours[case.variant] == recorded[case.variant], case.name


def test_probes_and_transcript_files_match() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.json")} == {probe.name for probe in PROBES}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_forbidden_and_missing_resources_are_equal(prepared: tuple[BrokerPeer, Resources], probe: Probe) -> None:
    """Without rights, a response does not tell whether a named topic, group or transaction exists."""
    if "_ids" in probe.name:
        return  # ids are no secrets, in Kafka neither
    peer, resources = prepared

    def response(base: str) -> str:
        received = peer.request("nobody", probe.build(resources.names(base)), probe.version)
        return json.dumps(normalized(received, resources.ids, base)).replace(f"{base}-", "").replace(f"{SHARED}-", "")

    assert response(probe.shared_base) == response("missing")
