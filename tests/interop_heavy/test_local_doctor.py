"""Spark's job and the job in this process give equal verdicts on all incidents."""

from typing import TYPE_CHECKING

from slackwater.doctor.diagnosis import DiagnosisRequest
from slackwater.doctor.history.files import list_local_files
from tests.doctor.corpus import CORPUS, incidents
from tests.spark.conftest import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]


def test_all_incidents_have_equal_verdicts(spark: "SparkSession") -> None:
    from slackwater.doctor.local.job import diagnose as diagnose_locally
    from slackwater.spark.doctor.job import diagnose

    request = DiagnosisRequest(paths=[str(CORPUS)], clusters_dir=str(CORPUS))
    local = diagnose_locally(request, list_local_files(request.paths))
    assert len(local.verdicts) >= len(incidents())
    assert local == diagnose(spark, request)
