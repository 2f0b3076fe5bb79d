"""A Spark application that reads a topic in each of several ways, in a batch and as a member of a group.

Arguments: the master, a directory, and a JSON file with the options of each way. For test_our_clients_secured.py.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import slackwater.spark

master, home, ways = sys.argv[1:]
os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.local.dir", f"{home}/local")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    .getOrCreate()
)
slackwater.spark.register(spark)
for name, options in json.loads(Path(ways).read_text()).items():
    batch = spark.read.format("slackwater").options(**options).option("startingOffsets", "earliest").load().count()
    table = "table_" + name.replace("-", "_")
    query = (
        spark.readStream.format("slackwater")
        .options(**options)
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", f"spark-{name}-{master.partition('[')[0]}")
        .load()
        .writeStream.format("memory")
        .queryName(table)
        .option("checkpointLocation", f"{home}/checkpoint-{name}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(240)
    print(f"{name}: batch {batch}, stream {spark.table(table).count()}", flush=True)
spark.stop()
