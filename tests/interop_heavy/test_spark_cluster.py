"""Spark applications of one group on a standalone cluster whose machines do not have Slackwater.

The driver and the executors reach the broker through TLS on an address of the machine that is not loopback.
Executors, workers and drivers are killed while records arrive, in one test with the sink checker, in another with the
oracle of delivery=exactly_once.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from slackwater import Admin, Producer
from tests.client.security.certificates import Authority
from tests.incidents import incidents_directory
from tests.interop_heavy.application_group import ApplicationGroup
from tests.interop_heavy.broker_process import BrokerProcess
from tests.interop_heavy.exactly_once_oracle import ExactlyOnceRun
from tests.interop_heavy.spark_cluster import (
    WORKERS,
    ClusterApplications,
    StandaloneCluster,
    build_wheel,
    make_python,
    own_address,
)
from tests.spark.applications import ROOT
from tests.waiting import wait_until

PARTITIONS: Final = 6
STATIC: Final = {"cyd": "cyd-id"}
USER, PASSWORD = "orders", "orders-secret"
INCIDENT: Final = "r101"
LOG_DIRECTORY: Final = "/logs/kafka"
PAGE: Final = ROOT / "docs" / "spark-on-a-cluster.md"
COMMAND_S: Final = 600.0
SEED: Final = int(os.environ.get("EXACTLY_ONCE_SEED", "19"))
RECORDS: Final = 12_000
FAULTS: Final = 12
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
Print = Callable[[str], None]


class SecuredBroker:
    """Our broker with two listeners: loopback for the tests, and TLS with a password for the cluster."""

    def __init__(self, directory: Path, address: str) -> None:
        directory.mkdir()
        authority = Authority(directory)
        self.files = directory / "ca.pem", directory / "kafka-password"
        shutil.copy(authority.path, self.files[0])
        self.files[1].write_text(f"{PASSWORD}\n")
        users = directory / "users.properties"
        users.write_text(f"{USER}={PASSWORD}\n")
        self._process = BrokerProcess(
            directory / "data",
            "PLAINTEXT://127.0.0.1:0",
            f"SASL_SSL://{address}:0",
            settings={
                "ssl.keystore.location": authority.issue("broker", "broker", address).combined(),
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.plain.users.file": users,
            },
        )
        self.bootstrap = self._process.wait_until_ready()
        self.secured = self._process.addresses[1]

    @property
    def options(self) -> dict[str, str]:
        """The options of a source, with the names of shipped files."""
        return {
            "kafka.bootstrap.servers": self.secured,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.location": "ca.pem",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": USER,
            "kafka.sasl.password": "${file:kafka-password}",
        }

    def restart(self, *, clean: bool = False) -> None:
        """Not needed here."""
        raise NotImplementedError

    def check(self) -> None:
        """Check its log."""
        self._process.check_log()

    def log_tail(self) -> str:
        """The end of its log."""
        return self._process.stderr_tail()

    def close(self) -> None:
        """Stop the process."""
        self._process.close()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of Slackwater."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """The cluster for all tests of this module."""
    directory = tmp_path_factory.mktemp("cluster")
    with StandaloneCluster(directory / "spark", make_python(directory / "python"), own_address()) as cluster:
        yield cluster


@pytest.fixture
def broker(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[SecuredBroker]:
    """A broker for one test."""
    broker = SecuredBroker(tmp_path / "broker", cluster.address)
    yield broker
    broker.close()


@pytest.fixture
def print_line(capsys: pytest.CaptureFixture[str]) -> Print:
    """Prints a line although pytest captures the output."""

    def print_uncaptured(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    return print_uncaptured


def test_cluster_does_not_have_slackwater(cluster: StandaloneCluster) -> None:
    done = subprocess.run(
        [str(cluster.python), "-c", "import pyspark, pyarrow, numba, slackwater"],
        env=cluster.environment,
        cwd=cluster.home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'slackwater'"


def test_no_record_is_lost_when_processes_are_killed(
    cluster: StandaloneCluster, broker: SecuredBroker, wheel: Path, tmp_path: Path, print_line: Print
) -> None:
    package = tmp_path / "slackwater.zip"
    shutil.copy(wheel, package)
    applications = ClusterApplications(cluster, package, broker.files)
    with ApplicationGroup(
        broker, tmp_path, PARTITIONS, STATIC, launch=applications.launch, options=broker.options
    ) as app_group:
        writer = app_group.write()
        for application in [app_group.prepare(name) for name in ("ada", *STATIC)]:
            app_group.start(application)
        app_group.wait_for_shares(3, 3)
        app_group.wait_for_progress()
        before = app_group.generation()

        def executors_of_both() -> list[int]:
            executors = cluster.executors(0)
            return executors if len(executors) == 2 else []

        executors = app_group.wait_for("an executor of each application", executors_of_both)
        cluster.kill_executor(executors[0])
        app_group.wait_for_progress()
        app_group.wait_for("another executor", lambda: set(executors_of_both()) - set(executors))
        print_line("  an executor was killed")

        orphans = cluster.kill_worker(1)
        app_group.wait_for_progress()
        app_group.wait_for("the end of its executors", lambda: not set(orphans) & set(cluster.executors(1)))
        cluster.start_worker(1)
        app_group.wait_for("executors on the new worker", lambda: cluster.executors(1))
        app_group.wait_for_progress()
        print_line("  a worker was killed and started again")
        assert app_group.generation() == before, "the loss of an executor or a worker caused a rebalance"

        for name in ("ada", *STATIC):
            application = app_group.running.pop(name)
            application.kill()
            app_group.start(app_group.prepare(name))
            app_group.wait_for_shares(3, 3)
            app_group.wait_for_progress()
            print_line(f"  the driver of {name} was killed and started again")

        writer.stop()
        ends = app_group.ends()
        app_group.wait_for("all records committed", lambda: app_group.committed() == ends)
        for name in list(app_group.running):
            app_group.stop(name)
        print_line(f"  {app_group.checker.finish(ends)}; {app_group.checker.checks} checks")
    broker.check()


def test_every_record_is_written_once(
    cluster: StandaloneCluster, broker: SecuredBroker, wheel: Path, tmp_path: Path, print_line: Print
) -> None:
    package = tmp_path / "slackwater.zip"
    shutil.copy(wheel, package)
    choose = random.Random(SEED)

    def kill_executor(_name: str) -> None:
        executors = [process for worker in range(WORKERS) for process in cluster.executors(worker)]
        if executors:
            cluster.kill_executor(choose.choice(executors))

    def kill_spark_worker(_name: str) -> None:
        worker = choose.randrange(WORKERS)
        orphans = set(cluster.kill_worker(worker))
        wait_until(lambda: not orphans & set(cluster.executors(worker)), lambda: "executors of a killed worker", 60)
        cluster.start_worker(worker)

    run = ExactlyOnceRun(
        broker.bootstrap,
        tmp_path,
        seed=SEED,
        applications=2,
        log=print_line,
        launch=ClusterApplications(cluster, package, broker.files).launch,
        options=broker.options,
        executor_faults={"kill executor": kill_executor, "kill spark worker": kill_spark_worker},
    )
    print_line(f"cluster: {run.run(RECORDS, FAULTS)}")
    broker.check()


# --- the commands of the documentation ------------------------------------------------------------------------------


class DocumentedCommands:
    """The commands of the page, in a directory that has what a user has: the wheel, the program, two files."""

    def __init__(self, cluster: StandaloneCluster, broker: SecuredBroker, wheel: Path, directory: Path) -> None:
        blocks = _BLOCK.findall(PAGE.read_text("utf-8"))
        self._directory = directory
        self._commands = [text for language, text in blocks if language == "sh"]
        self._names = {"spark://spark-master:7077": cluster.url, "'slackwater[": f"'{wheel}["}
        (program,) = (text for language, text in blocks if language == "py")
        (directory / "orders.py").write_text(program.replace("kafka.example.com:9093", broker.secured))
        for file in (wheel, *broker.files):
            shutil.copy(file, directory)
        settings = directory / "conf"
        settings.mkdir()
        lines = (f"{name} {value}" for name, value in cluster.settings().items())
        (settings / "spark-defaults.conf").write_text("\n".join(lines))
        self._environment = (
            {name: value for name, value in os.environ.items() if name.lower().startswith(("pip_", "http", "no_proxy"))}
            | cluster.environment
            | {
                "SPARK_CONF_DIR": str(settings),
                "SLACKWATER_BOOTSTRAP": broker.bootstrap,
                "PIP_CONSTRAINT": str(ROOT / "requirements.lock"),
                "PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip"),
            }
        )

    def run(self, words: str, names: Mapping[str, str] | None = None, *, exit_code: int = 0) -> str:
        """Run the command that contains these words, with other names where the page has examples."""
        (command,) = (command for command in self._commands if words in command)
        for name, used in {**self._names, **(names or {})}.items():
            command = command.replace(name, used)
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )
        assert done.returncode == exit_code, done.stdout + done.stderr[-5000:]
        assert "ERROR" not in done.stderr, done.stderr[-5000:]
        return done.stdout + done.stderr

    def check_all_were_run(self, count: int) -> None:
        """Every command of the page must be in a test."""
        assert len(self._commands) == count


def produce(bootstrap: str, count: int) -> None:
    """Write records to the topic of the documentation."""
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(count):
            producer.send("orders", str(number)).result(COMMAND_S)


def test_documented_commands(cluster: StandaloneCluster, broker: SecuredBroker, wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    commands = DocumentedCommands(cluster, broker, wheel, home)
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topic("orders", 2)
        produce(broker.bootstrap, 100)
        commands.run("python3 -m venv environment")
        output = commands.run("--archives environment.tar.gz#environment")
        assert "batch 0: 100 orders" in output
        assert "workers run" not in output, "a warning that the workers run another Python"
        produce(broker.bootstrap, 50)
        commands.run("cp slackwater-*.whl slackwater.zip")
        commands.run("remove-members", {"slackwater groups": f"{sys.executable} -m slackwater groups"})
        assert "batch 0: 50 orders" in commands.run("--py-files slackwater.zip")
        committed = admin.committed("pipeline")
        assert sum(commit.offset for commit in committed.values()) == 150
    logs = incidents_directory() / INCIDENT
    command = [sys.executable, "-m", "slackwater", "doctor", str(logs)]
    local = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert local.returncode == 1, local.stderr
    assert commands.run("slackwater doctor", {LOG_DIRECTORY: str(logs)}, exit_code=1) == local.stdout
    commands.check_all_were_run(6)
