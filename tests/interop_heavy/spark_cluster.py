"""A Spark standalone cluster from pyspark's own distribution: a master and workers, each a process of its own.

Invariants:
- The processes listen on an address of this machine that is not loopback, if there is one.
- The Python of the cluster has all packages of this environment except Slackwater. Its processes start with an
  environment of their own, without PYTHONPATH and in a directory of their own: Slackwater reaches executors only with
  the application.
- Every process has a session of its own, which also contains the processes that it starts.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from tests.spark.applications import JVM_OPTIONS, ROOT, Application, is_jvm, kill, processes_of_session
from tests.waiting import wait_until

WORKERS: Final = 2
CORES: Final = 2
TIMEOUT_S: Final = 180.0
LOG_LINES: Final = 40
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"


def own_address() -> str:
    """An address of this machine; loopback if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing; the kernel chooses the address of the route
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def make_python(directory: Path) -> Path:
    """Make an environment with the packages of this one, but without Slackwater. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "slackwater" not in package.name and package.suffix != ".pth":
            (packages / package.name).symlink_to(package)
    return directory / "bin" / "python"


def build_wheel(directory: Path) -> Path:
    """Build the wheel of this version of Slackwater."""
    source = directory / "source"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = directory.glob("*.whl")
    return wheel


class Daemon:
    """A master or a worker."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, env=environment, cwd=log.parent, stdout=output, stderr=output, start_new_session=True
            )

    def wait_for_log(self, pattern: "re.Pattern[str]") -> str:
        """Wait for a line of its log; returns the first group."""

        def first() -> str:
            found = pattern.search(self._log.read_text())
            return found[1] if found is not None else ""

        return wait_until(first, self.tail, TIMEOUT_S)

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_LINES:])

    def kill(self) -> None:
        """Send SIGKILL to the daemon, but not to the processes that it started."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def close(self) -> None:
        """Kill it and all processes that it started."""

        def are_gone() -> bool:
            running = processes_of_session(self.process.pid)
            for process in running:
                kill(process)
            return not running

        wait_until(are_gone, self.tail, TIMEOUT_S)
        self.process.wait(TIMEOUT_S)


class StandaloneCluster:
    """The running cluster."""

    def __init__(self, directory: Path, python: Path, address: str) -> None:
        self.directory = directory
        self.python = python
        self.address = address
        self.spark_home = Path(sysconfig.get_path("purelib", vars={"base": str(python.parents[1])})) / "pyspark"
        self.home = directory / "home"
        self.home.mkdir(parents=True)
        self._master: Daemon | None = None
        self._workers: dict[int, Daemon] = {}
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._master = self._start("master", MASTER)
            self.url = self._master.wait_for_log(_URL)
            for number in range(WORKERS):
                self.start_worker(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every process of the cluster."""
        return {
            "PATH": os.pathsep.join((str(self.python.parent), str(self.spark_home / "bin"), os.environ["PATH"])),
            "HOME": str(self.home),
            "SPARK_HOME": str(self.spark_home),
            "SPARK_LOCAL_IP": self.address,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JVM_OPTIONS,
        } | {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}

    def settings(self) -> dict[str, str]:
        """Settings of a small application: an executor on each worker."""
        return {
            "spark.driver.host": self.address,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(WORKERS),
            "spark.executor.extraJavaOptions": JVM_OPTIONS,
        }

    def start_worker(self, number: int) -> None:
        """Start a worker and wait until the master knows it."""
        name = f"worker-{number}"
        work = self.directory / name
        arguments = ("--cores", str(CORES), "--memory", "1g", "--work-dir", str(work), self.url)
        (self.directory / f"{name}.log").unlink(missing_ok=True)
        self._workers[number] = self._start(name, WORKER, *arguments)
        self._workers[number].wait_for_log(re.compile(f"({_REGISTERED})"))

    def kill_executor(self, process: int) -> None:
        """Send SIGKILL to an executor; its worker starts another one."""
        kill(process)

    def kill_worker(self, number: int) -> list[int]:
        """Send SIGKILL to a worker. Returns its executors, which end when they notice it."""
        executors = self.executors(number)
        self._workers[number].kill()
        return executors

    def executors(self, number: int) -> list[int]:
        """The executors of a worker: the JVMs that it started."""
        daemon = self._workers[number].process.pid
        return [process for process in processes_of_session(daemon) if process != daemon and is_jvm(process)]

    def close(self) -> None:
        """Kill everything."""
        for daemon in (*self._workers.values(), *filter(None, [self._master])):
            daemon.close()

    def _start(self, name: str, class_name: str, *arguments: str) -> Daemon:
        options = ("--host", self.address, "--port", "0", "--webui-port", "0")
        command = [str(self.spark_home / "bin" / "spark-class"), class_name, *options, *arguments]
        return Daemon(command, self.environment, self.directory / f"{name}.log")


class ClusterApplications:
    """Applications on a cluster: their drivers run the cluster's Python, and Slackwater is in the archive they ship."""

    def __init__(self, cluster: StandaloneCluster, package: Path, files: Sequence[Path] = ()) -> None:
        self._cluster = cluster
        self._package = package
        self._files = files

    def launch(self, name: str, directory: Path, options: Mapping[str, str], **settings: object) -> Application:
        """Start an application's driver; its query waits for `start`."""
        program = shutil.copy(ROOT / "tests" / "spark" / "application.py", directory)
        files = ",".join(map(str, self._files))
        return Application(
            name,
            directory,
            options,
            command=(str(self._cluster.python), str(program)),
            environment=self._cluster.environment
            | {
                "PYSPARK_PYTHON": str(self._cluster.python),
                "PYSPARK_SUBMIT_ARGS": f"--py-files {self._package} --files {files} pyspark-shell",
                "PYTHONPATH": str(self._package),
            },
            master=self._cluster.url,
            conf=self._cluster.settings(),
            **settings,
        )
