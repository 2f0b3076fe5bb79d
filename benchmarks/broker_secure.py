"""TLS and SASL_SSL: Kafka's perf tools, heartbeats and new connections, Apache Kafka and Slackwater in the same run.

    python benchmarks/broker_secure.py [--rounds N] [--records N] [--seconds N] [--only kafka|slackwater]

Method:
- Both brokers have a listener with TLS and one with SASL_SSL, with the same certificate (ECDSA, P-256). SASL is PLAIN.
  Clients negotiate TLS 1.3.
- The perf tools run as in `broker_perf`, with the producer's defaults.
- Heartbeats are one request in flight on each of 200 connections, as in `broker_requests`.
- A new connection is a complete handshake without a session ticket, SASL if the listener has it, one ApiVersions
  request, and the end of the connection. Connections are opened one after another; their time includes the client's.
- The brokers alternate, round by round, after a warm-up of each.
"""

import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.broker_members import TOPIC
from benchmarks.broker_perf import Throughput, consume, produce
from benchmarks.broker_requests import HEARTBEATS, members_of, run_load, streams_of
from benchmarks.brokers import PeerFailed, Server, arguments, both, call, heading, report, run

from slackwater.broker.embedded.certificates import LOCAL_HOSTS, TestAuthority
from slackwater.security.plain import plain_message
from slackwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

USER, PASSWORD = "bench", "bench-secret"
LOGIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}"'
PROTOCOLS: Final = {"TLS": "SSL", "SASL": "SASL_SSL"}
CONNECTIONS: Final = 200
GROUP_SIZE: Final = 20
PARTITIONS: Final = 50
NEW_CONNECTIONS: Final = 400
WARM_UP_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class SecuredServer(Server):
    """One secured listener of a broker."""

    listener: str = "TLS"
    context: ssl.SSLContext | None = None
    client_config: Path = Path()

    def connect(self) -> socket.socket:
        """Return an authenticated connection."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert self.context is not None
        connection = self.context.wrap_socket(plain, server_hostname="127.0.0.1")
        if PROTOCOLS[self.listener] == "SASL_SSL":
            handshake = call(connection, SaslHandshakeRequest("PLAIN"), 1, SaslHandshakeResponse)
            message = SaslAuthenticateRequest(plain_message(USER, PASSWORD))
            answer = call(connection, message, 2, SaslAuthenticateResponse)
            if handshake.error_code or answer.error_code:
                raise PeerFailed(f"{self.name} refused the authentication: {answer.error_message}")
        return connection


def secured(server: Server, listener: str, context: ssl.SSLContext, directory: Path, authority: Path) -> SecuredServer:
    """Return the listener of a broker, with the settings of a Java client for it."""
    config = directory / f"{server.name}-{listener}.properties"
    config.write_text(
        f"security.protocol={PROTOCOLS[listener]}\nssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
        f'sasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN} password="{PASSWORD}";\n'
    )
    values = {field.name: getattr(server, field.name) for field in fields(server)}
    return SecuredServer(
        **values | {"port": server.ports[listener]}, listener=listener, context=context, client_config=config
    )


def broker_settings(directory: Path, authority: TestAuthority) -> dict[str, object]:
    """The settings of both brokers."""
    return {
        "listener.security.protocol.map": ",".join(
            ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{name}:{value}" for name, value in PROTOCOLS.items()))
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.issue("broker", hosts=LOCAL_HOSTS),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{LOGIN} password="{PASSWORD}" user_{USER}="{PASSWORD}";',
    }


# --- what is measured -------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """The cost of a new connection."""

    broker_us: float  # CPU time of the broker
    milliseconds: float  # until the first response


def new_connections(server: SecuredServer, count: int) -> Cost:
    """Open connections one after another."""
    cpu, began = server.cpu_seconds(), time.perf_counter()
    for _ in range(count):
        with server.connect() as connection:
            if PROTOCOLS[server.listener] == "SSL":  # SASL has its own requests
                call(connection, ApiVersionsRequest("bench", "1"), 3, ApiVersionsResponse)
    elapsed = time.perf_counter() - began
    return Cost((server.cpu_seconds() - cpu) / count * 1e6, elapsed / count * 1e3)


def perf_round(server: SecuredServer, plain: Server, name: str, records: int) -> dict[str, Throughput]:
    """Produce and consume with the perf tools."""
    config = ("--command-config", str(server.client_config))
    plain.create_topic(name, 1)
    results = {
        "produce": produce(server, name, records, config),
        "fetch": consume(server, name, records, config),
    }
    plain.delete_topic(name)
    return results


def columns(rounds: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """Return the values of each broker from the values of each round."""
    return list(zip(*rounds, strict=True))


def measure(plain: Sequence[Server], servers: Sequence[SecuredServer], options: "Options") -> None:
    """Measure one kind of listener."""
    title = PROTOCOLS[servers[0].listener]
    perf = [
        [
            perf_round(server, of, f"secure-{server.listener}-{number}", options.records)
            for of, server in zip(plain, servers, strict=True)
        ]
        for number in range(1 + options.rounds)
    ][1:]
    for what in ("produce", "fetch"):
        report(f"{title}: {what}, records/s", columns([[r[what].rate for r in each] for each in perf]), ",.0f", "≥ 1")
        report(
            "  CPU of the broker, µs per record", columns([[r[what].server_us for r in each] for each in perf]), ".2f"
        )
    with ExitStack() as stack:
        sides = []
        for server in servers:
            sockets = [stack.enter_context(server.connect()) for _ in range(CONNECTIONS)]
            streams = streams_of(HEARTBEATS, members_of(server, sockets, GROUP_SIZE, server.listener), 1)
            run_load(server, streams, WARM_UP_SECONDS)
            sides.append((server, streams))
        beats = [
            [run_load(server, streams, options.seconds) for server, streams in sides] for _ in range(options.rounds)
        ]
    report(
        f"{title}: heartbeats, broker CPU, µs", columns([[r.broker_us for r in each] for each in beats]), ".1f", "≤ 0.5"
    )
    report("  requests/s", columns([[r.rate for r in each] for each in beats]), ",.0f")
    for server in servers:
        new_connections(server, NEW_CONNECTIONS)
    costs = [[new_connections(server, NEW_CONNECTIONS) for server in servers] for _ in range(options.rounds)]
    report(f"{title}: new connection, broker CPU, µs", columns([[c.broker_us for c in each] for each in costs]), ",.0f")
    report("  milliseconds", columns([[c.milliseconds for c in each] for each in costs]), ".2f")


@dataclass(frozen=True, slots=True)
class Options:
    """The size of the measurements."""

    rounds: int
    records: int
    seconds: float


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parsed = parser.parse_args()
    options = Options(parsed.rounds, parsed.records, parsed.seconds)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        authority = TestAuthority(directory)
        context = ssl.create_default_context(cafile=str(authority.path))
        with both(parsed.only, broker_settings(directory, authority), list(PROTOCOLS)) as plain:
            heading("TLS and SASL_SSL", [server.name for server in plain])
            for server in plain:
                server.create_topic(TOPIC, PARTITIONS)
            for listener in PROTOCOLS:
                servers = [secured(server, listener, context, directory, authority.path) for server in plain]
                measure(plain, servers, options)


if __name__ == "__main__":
    run(main)
