"""`slackwater demo`: a broker, Spark applications in separate processes, and the rebalances of their group.

Invariants:
- However the demo ends, also by Ctrl-C or `kill -9`, no process and no directory remains. Only the report stays.
- Every number in the summary was measured in this run.
"""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from slackwater.group.errors import UsageError

_STOCK_CLIENTS: Final = {"confluent_kafka": "confluent-kafka", "aiokafka": "aiokafka"}
_SPARK_PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
REPORT: Final = "slackwater-demo-report.html"


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Two Spark applications, and no rolling deploy.")] = False,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Stock Kafka clients instead of Spark applications: half a minute.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Where to write the doctor's report [default: {REPORT} in the temporary directory]"
        ),
    ] = None,
) -> None:
    """Show Spark applications that share a topic: join, scale out, deploy, crash, and a rebalance storm and its fix.

    Takes about two minutes after Spark has started (--fast: 90 seconds in all, --no-spark: 30 seconds). Everything runs
    on this machine.
    """
    path = (report if report is not None else Path(tempfile.gettempdir()) / REPORT).resolve()
    if not path.parent.is_dir():
        raise UsageError(f"--report {path}: there is no directory {path.parent}. Create it, or use another path.")
    _require(["psutil"], "demo")
    if no_spark:
        _require(_STOCK_CLIENTS, "demo")
    else:
        _require(_SPARK_PACKAGES, "spark")
        _require_java()
    from slackwater.cli.demo.environment import run_spark, run_stock_clients

    if no_spark:
        run_stock_clients(path)
    else:
        run_spark(path, fast=fast)


def _require(modules: Iterable[str], extra: str) -> None:
    missing = next((module for module in modules if importlib.util.find_spec(module) is None), None)
    if missing is not None:
        package = _STOCK_CLIENTS.get(missing, missing)
        hint = " To see the demo without Spark, run: slackwater demo --no-spark" if extra == "spark" else ""
        raise UsageError(
            f"the demo needs {package}, which is not installed. Run: pip install 'slackwater[{extra}]'.{hint}"
        )


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
        raise UsageError(
            "Spark needs Java, and there is no java on the PATH and no JAVA_HOME. Install Java 17 (Debian and Ubuntu: "
            "apt-get install openjdk-17-jre-headless), or run the demo without Spark: slackwater demo --no-spark"
        )


__all__ = ["demo"]
