"""Record the names under which the JMX exporter publishes a Java consumer's metrics.

    python scripts/record_jmx_names.py

Starts Apache Kafka, and for each release in RELEASES Kafka's console consumer with the exporter as its agent, without
rules. Writes tests/data/jmx_exporter_names.json, which the client's tests compare with Slackwater's names.
Needs Java, Maven and Kafka's jars (`make jars`).
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.apache_kafka import KafkaFailed, apache_kafka, free_ports, jars  # noqa: E402

RELEASES: Final = ("0.20.0", "1.0.1")
TARGET: Final = ROOT / "tests" / "data" / "jmx_exporter_names.json"
SECONDS: Final = 60
PREFIX: Final = "kafka_consumer_consumer_"
LAST: Final = "kafka_consumer_consumer_node_metrics_"  # published once the consumer is connected to a broker


def fetch(release: str, home: Path) -> Path:
    """The agent's jar."""
    artifact = f"io.prometheus.jmx:jmx_prometheus_javaagent:{release}"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={home}"]
    subprocess.run(command, check=True, cwd=home)
    return home / f"jmx_prometheus_javaagent-{release}.jar"


def names(bootstrap_servers: str, agent: Path, home: Path) -> list[str]:
    """The metric names of a consumer."""
    (port,) = free_ports(1)
    (home / "rules.yml").write_text("{}\n")
    command = ["java", "-Xmx256m", f"-javaagent:{agent}=127.0.0.1:{port}:{home / 'rules.yml'}", "-cp", f"{jars()}/*"]
    command += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap_servers]
    command += ["--topic", "t", "--group", "g"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SECONDS
        before: list[str] = []
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as response:
                    lines = response.read().decode().splitlines()
            except OSError:
                lines = []
            found = sorted({line.partition("{")[0] for line in lines if line.startswith(PREFIX)})
            if any(name.startswith(LAST) for name in found) and found == before:
                return found
            before = found
            time.sleep(0.5)
    finally:
        process.kill()
        process.wait()
    raise KafkaFailed(f"The exporter published no consumer metrics within {SECONDS} s.")


def main() -> int:
    """Record all releases."""
    try:
        with tempfile.TemporaryDirectory() as directory, apache_kafka() as cluster:
            home = Path(directory)
            found = {release: names(cluster.bootstrap_servers, fetch(release, home), home) for release in RELEASES}
    except (KafkaFailed, subprocess.SubprocessError, FileNotFoundError) as error:
        print(f"record_jmx_names: {error}", file=sys.stderr)
        return 2
    TARGET.write_text(json.dumps(found, indent=1) + "\n")
    print(
        f"{TARGET.relative_to(ROOT)}: "
        + ", ".join(f"{len(names)} names of {release}" for release, names in found.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
