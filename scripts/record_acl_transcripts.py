"""Runs the ACL matrix of `tests/conformance/acl_matrix.py` against Apache Kafka and records its responses.

    python scripts/record_acl_transcripts.py             record all probes
    python scripts/record_acl_transcripts.py NAME …      record these probes

Needs Java and Kafka's jars (`make jars`). Kafka runs on loopback with StandardAuthorizer; the users of the matrix
authenticate with SASL PLAIN.
"""

import argparse
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.apache_kafka import KafkaFailed, apache_kafka  # noqa: E402
from tests.conformance.acl_matrix import (  # noqa: E402
    ADMIN,
    CASES,
    DIRECTORY,
    PROBES,
    SETTINGS,
    path_of,
    prepare,
    run_case,
    to_json,
)

from slackwater.wire.codec import response_type  # noqa: E402
from slackwater.wire.messages.describe_transactions import DescribeTransactionsRequest  # noqa: E402
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest  # noqa: E402
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest  # noqa: E402
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest  # noqa: E402
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest  # noqa: E402
from slackwater.wire.request_response import decode_response, encode_request  # noqa: E402
from slackwater.wire.schema import Request  # noqa: E402

TIMEOUT_S: Final = 60


def kafka_settings() -> dict[str, object]:
    """Return the settings of a Kafka with the users of the matrix; every password is the user's name."""
    users = " ".join(f'user_{name}="{name}"' for name in (ADMIN, *(case.name for case in CASES)))
    login = f'username="{ADMIN}" password="{ADMIN}"'
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        **SETTINGS,
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{module} required {login} {users};",
    }


class KafkaPeer:
    """A running Kafka."""

    def __init__(self, port: int) -> None:
        self._port = port

    def request(self, user: str, request: Request, version: int) -> Any:
        """Send a request on a new connection of this user and return the response."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S) as connection:
            _exchange(connection, SaslHandshakeRequest("PLAIN"), 1)
            done = _exchange(connection, SaslAuthenticateRequest(f"\0{user}\0{user}".encode()), 2)
            assert done.error_code == 0, (user, done)
            return _exchange(connection, request, version)

    def pause(self) -> None:
        """Wait a moment before a request is repeated."""
        time.sleep(0.2)


def _exchange(connection: socket.socket, request: Request, version: int) -> Any:
    connection.sendall(encode_request(request, version, 1, "recorder"))
    with connection.makefile("rb") as stream:
        head = stream.read(4)
        if len(head) < 4:
            return None
        frame = stream.read(struct.unpack(">i", head)[0])
    return decode_response(response_type(request.API), version, frame)[1]


def warm_up(peer: KafkaPeer) -> None:
    """Wait until the coordinator of transactions and the producer ids are ready."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["t-a", "t-b", "t-x"])
    while any(found.error_code for found in peer.request(ADMIN, request, 4).coordinators):
        peer.pause()
    while peer.request(ADMIN, InitProducerIdRequest(None, 60_000), 5).error_code:
        peer.pause()
    unready = (14, 15, 16)  # loading, not available, not this broker
    describe = DescribeTransactionsRequest(["t-a", "t-b", "t-x"])
    while any(state.error_code in unready for state in peer.request(ADMIN, describe, 0).transaction_states):
        peer.pause()


def main() -> int:
    """Record the requested probes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="probes to record (default: all)")
    names = parser.parse_args().names or [probe.name for probe in PROBES]
    DIRECTORY.mkdir(exist_ok=True)
    failed = 0
    try:
        with apache_kafka(settings=kafka_settings()) as cluster:
            (node,) = cluster.brokers.values()
            assert node.port is not None
            peer = KafkaPeer(node.port)
            warm_up(peer)
            resources = prepare(peer)
            for probe in PROBES:
                if probe.name not in names:
                    continue
                try:
                    responses = {case.variant: run_case(peer, case, resources) for case in CASES if case.probe is probe}
                except (AssertionError, OSError, ValueError, TypeError) as error:
                    print(f"! {probe.name}: {error!r}", flush=True)
                    failed += 1
                    continue
                path_of(probe).write_text(to_json(responses))
                print(f"* {probe.name}", flush=True)
    except KafkaFailed as error:
        print(f"record_acl_transcripts: {error}", file=sys.stderr)
        return 2
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
