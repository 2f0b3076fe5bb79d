"""delivery=exactly_once on a cluster with TLS and SASL, without the needed rights, and without transactions."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from slackwater import Admin
from slackwater.broker.server import Server
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.security.acls import Acl, AclOperation, AclPermissionType, AclResourceType, PatternType
from slackwater.spark.clients.connections import close_connections
from slackwater.spark.sink.driver import prepare_batch
from slackwater.spark.sink.options import SinkOptions
from slackwater.testing.kafka import Kafka
from slackwater.wire.apis import INIT_PRODUCER_ID, LIST_TRANSACTIONS
from tests.spark.sink.topics import DEADLINE_S, Topics
from tests.waiting import wait_until

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:admin",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Kafka]:
    """A broker with TLS and SASL; only one user may write with the transactional ids of `guarded`."""
    with Kafka(security="SASL_SSL", settings=SETTINGS) as broker:
        rule = Acl(
            AclResourceType.TRANSACTIONAL_ID,
            "guarded",
            PatternType.PREFIXED,
            "User:owner",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )

        def add_rule(server: Server) -> None:
            assert server.broker.authorizer is not None
            server.broker.authorizer.add([rule])

        broker.call(add_rule)
        yield broker
    close_connections()


def settings(config: dict[str, str], topic: str, prefix: str) -> dict[str, str]:
    kafka = {f"kafka.{name}": text for name, text in config.items()}
    return kafka | {"topic": topic, "delivery": "exactly_once", "transactionalIdPrefix": prefix}


def test_write_to_a_cluster_with_tls_and_sasl(spark: SparkSession, secured: Kafka) -> None:
    config = secured.client_config("alice")
    with Admin(config) as admin:
        admin.create_topic("out", 2)
    frame = spark.range(100, numPartitions=2).selectExpr("cast(id AS string) AS value")
    frame.write.format("slackwater").options(**settings(config, "out", "open")).mode("append").save()
    topics = Topics(secured.bootstrap_servers, config)
    wait_until(lambda: len(topics.read("out")) >= 100, lambda: topics.read("out"), DEADLINE_S)
    assert sorted(int(row[3] or b"") for row in topics.read("out")) == list(range(100))


def test_missing_right_to_the_transactional_id_is_one_sentence(secured: Kafka) -> None:
    prepare_batch(SinkOptions.parse(settings(secured.client_config("owner"), "out", "guarded")))
    with pytest.raises(SlackwaterError) as raised:
        prepare_batch(SinkOptions.parse(settings(secured.client_config("alice"), "out", "guarded")))
    assert str(raised.value) == (
        "The coordinator of transactional.id guarded-driver could not be found: TRANSACTIONAL_ID_AUTHORIZATION_FAILED; "
        "User:alice needs an ACL for Describe and Write on transactional id guarded-driver."
    )


def test_cluster_without_transactions_is_one_sentence(kafka: Kafka) -> None:
    missing = (INIT_PRODUCER_ID, LIST_TRANSACTIONS)

    def remove(server: Server) -> None:
        server.broker.apis = tuple(api for api in server.broker.apis if api not in missing)

    kafka.call(remove)
    options = settings({"bootstrap.servers": kafka.bootstrap_servers}, "out", "query")
    with pytest.raises(UsageError) as raised:
        prepare_batch(SinkOptions.parse(options))
    assert str(raised.value) == (
        f"delivery=exactly_once needs transactions, and {kafka.bootstrap_servers} does not support InitProducerId, "
        "ListTransactions. Use Kafka 3.0 or newer, or delivery=at_least_once."
    )
