"""A Spark application that reads and writes topics of a secured cluster, in a batch and in a stream.

For test_secured_spark.py. Arguments: a directory, the address, the topic to read, the topic to write, the password. It
prints the plans, and saves pages of the Spark UI.
"""

import os
import sys
import urllib.request
from pathlib import Path

from pyspark.sql import SparkSession

import slackwater.spark

home, servers, topic, copies, password = sys.argv[1:]
os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.files", f"{home}/ca.pem")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", f"{home}/events")
    .config("spark.eventLog.compress", "false")
    .config("spark.ui.enabled", "true")
    .config("spark.ui.port", "0")
    .config("spark.local.dir", f"{home}/local")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    .getOrCreate()
)
slackwater.spark.register(spark)
module = "org.apache.kafka.common.security.plain.PlainLoginModule"
security = {
    "kafka.bootstrap.servers": servers,
    "kafka.security.protocol": "SASL_SSL",
    "kafka.ssl.truststore.location": "ca.pem",  # found among the shipped files
    "kafka.sasl.jaas.config": f'{module} required username="alice" password="{password}";',
    "kafka.ssl.keystore.key": Path(home, "secret", "client.key").read_text(),
    "kafka.ssl.keystore.certificate.chain": Path(home, "secret", "client.crt").read_text(),
}
options = security | {"subscribe": topic, "startingOffsets": "earliest"}
sink = security | {"topic": copies, "delivery": "at_least_once"}
table = spark.read.format("slackwater").options(**options).load()
table.explain(True)
print("batch:", table.count())
query = (
    spark.readStream.format("slackwater")
    .options(**options)
    .option("kafka.group.id", "secured")
    .load()
    .writeStream.format("memory")
    .queryName("copied")
    .option("checkpointLocation", f"{home}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination(240)
query.explain(True)
print("stream:", spark.table("copied").count())
print(query.lastProgress)
table.select("key", "value").write.format("slackwater").options(**sink).mode("append").save()
writing = (
    spark.readStream.format("slackwater")
    .options(**options)
    .load()
    .select("key", "value")
    .writeStream.format("slackwater")
    .options(**sink)
    .option("checkpointLocation", f"{home}/checkpoint-of-the-sink")
    .trigger(availableNow=True)
    .start()
)
writing.awaitTermination(240)
writing.explain(True)
print(writing.lastProgress)
print("copies:", spark.read.format("slackwater").options(**options | {"subscribe": copies}).load().count())
print("application:", spark.sparkContext.applicationId)
rest = f"/api/v1/applications/{spark.sparkContext.applicationId}"
pages = ("/SQL/", "/SQL/execution/?id=0", "/StreamingQuery/", "/environment/", f"{rest}/environment")
for number, page in enumerate((*pages, f"{rest}/sql?details=true&planDescription=true")):
    with urllib.request.urlopen(str(spark.sparkContext.uiWebUrl) + page) as response:
        Path(home, f"page-{number}.html").write_bytes(response.read())
wrong = options | {"kafka.sasl.jaas.config": options["kafka.sasl.jaas.config"].replace('"alice"', '"nobody"')}
try:
    spark.read.format("slackwater").options(**wrong).load().count()
except Exception as error:
    print(error)
rejected = sink | {"kafka.sasl.jaas.config": wrong["kafka.sasl.jaas.config"]}
try:
    table.select("value").write.format("slackwater").options(**rejected).mode("append").save()
except Exception as error:
    print("failed write:", error)
spark.stop()
