"""Clients without the ACLs that they need: each error has Kafka's class, and names the principal and the operation."""

from collections.abc import Callable
from contextlib import closing

import pytest

from slackwater import (
    AbortableTransactionError,
    Admin,
    AuthorizationError,
    BrokerError,
    ClusterAuthorizationError,
    Consumer,
    ConsumerGroupMetadata,
    Error,
    FatalTransactionError,
    GroupAuthorizationError,
    OffsetAndMetadata,
    Producer,
    TopicAuthorizationError,
    TopicPartition,
)
from tests.client.security.secured_kafka import SecuredKafka, grant

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("secured_kafka")]
SECONDS = 30.0
TOPIC = "private"


@pytest.fixture(scope="module", autouse=True)
def topic(secured: SecuredKafka) -> None:
    """A topic that only alice may use, and rights of bob."""
    with Admin(secured.servers("OPEN")) as admin:
        admin.create_topic(TOPIC, 1)
        admin.create_topic("public", 1)
    grant(secured, "User:bob", ["Read", "Describe"], topic="public")


def bob(secured: SecuredKafka) -> dict[str, object]:
    return secured.sasl("PLAIN", "bob")


def test_consumer_without_right_to_the_group(secured: SecuredKafka) -> None:
    with closing(Consumer(bob(secured), group_id="private-group")) as consumer:
        consumer.subscribe(["public"])
        with pytest.raises(GroupAuthorizationError, match=r"User:bob needs an ACL for Read on group private-group"):
            consumer.poll(SECONDS)
        with pytest.raises(GroupAuthorizationError, match=r"User:bob needs an ACL for Read on group private-group"):
            consumer.committed([TopicPartition("public", 0)])


def test_consumer_without_right_to_the_topic(secured: SecuredKafka) -> None:
    with closing(Consumer(bob(secured), group_id="private-group")) as consumer:
        consumer.subscribe([TOPIC])
        with pytest.raises(TopicAuthorizationError, match=r"User:bob needs an ACL for Describe on topic private"):
            consumer.poll(SECONDS)
    with closing(Consumer(bob(secured))) as consumer, pytest.raises(TopicAuthorizationError, match="User:bob needs"):
        consumer.partitions_for(TOPIC)


def test_producer_without_right_to_the_topic(secured: SecuredKafka) -> None:
    with (
        closing(Producer(bob(secured))) as producer,
        pytest.raises(TopicAuthorizationError, match=r"User:bob needs an ACL for Write on topic private"),
    ):
        producer.send(TOPIC, b"value").result(SECONDS)
    settings = bob(secured) | {"enable.idempotence": False}
    with (
        closing(Producer(settings)) as producer,
        pytest.raises(TopicAuthorizationError, match=r"User:bob needs an ACL for Write on topic public"),
    ):
        producer.send("public", b"value").result(SECONDS)


def test_idempotent_producer_without_any_right_to_write(secured: SecuredKafka) -> None:
    with (
        closing(Producer(bob(secured))) as producer,
        pytest.raises(ClusterAuthorizationError, match=r"User:bob needs an ACL for Write on a topic, or Idempotent"),
    ):
        producer.send("public", b"value").result(SECONDS)


def test_transactions_without_right(secured: SecuredKafka) -> None:
    settings = bob(secured) | {"transactional.id": "private-transfer"}
    with (
        closing(Producer(settings)) as producer,
        pytest.raises(FatalTransactionError, match="User:bob needs an ACL for Describe and Write on transactional"),
    ):
        producer.init_transactions()
    grant(secured, "User:bob", ["Write"], transactional_id="bobs-transfer")
    with closing(Producer(settings | {"transactional.id": "bobs-transfer"})) as producer:
        producer.init_transactions()
        for group, needs in {"private-group": "Read on the group", "bobs-group": "Read on each topic"}.items():
            if group == "bobs-group":
                grant(secured, "User:bob", ["Read"], group=group)
            producer.begin_transaction()
            with pytest.raises(AbortableTransactionError, match=f"User:bob needs an ACL for {needs}"):
                producer.send_offsets_to_transaction(
                    {TopicPartition(TOPIC, 0): OffsetAndMetadata(1)}, ConsumerGroupMetadata(group)
                )
            producer.abort_transaction()


OPERATIONS: dict[str, tuple[Callable[[Admin], object], type[AuthorizationError], str]] = {
    "describe-topic": (
        lambda admin: admin.describe_topics([TOPIC]),
        TopicAuthorizationError,
        "Describe on topic private",
    ),
    "create-topic": (lambda admin: admin.create_topic("new", 1), TopicAuthorizationError, "Create on topic new"),
    "delete-topic": (lambda admin: admin.delete_topic("public"), TopicAuthorizationError, "Delete on topic public"),
    "alter-topic": (
        lambda admin: admin.alter_configs("topic", "public", {"retention.ms": "1"}),
        TopicAuthorizationError,
        "AlterConfigs on topic public",
    ),
    "describe-broker": (
        lambda admin: admin.describe_configs("broker", "1"),
        ClusterAuthorizationError,
        "DescribeConfigs on the cluster",
    ),
    "describe-group": (lambda admin: admin.describe_groups(["g"]), GroupAuthorizationError, "Describe on group g"),
    "delete-group": (lambda admin: admin.delete_group("g"), GroupAuthorizationError, "on group g"),
    "offsets": (
        lambda admin: admin.alter_offsets("g", {TopicPartition("public", 0): 0}),
        GroupAuthorizationError,
        "on group g",
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_admin_without_right(secured: SecuredKafka, operation: str) -> None:
    call, error, needs = OPERATIONS[operation]
    with Admin(bob(secured)) as admin, pytest.raises(error, match=f"User:bob needs an ACL for .*{needs}"):
        call(admin)


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        (lambda secured: secured.mtls(), "the principal of the certificate CN=client"),
        (
            lambda secured: (
                secured.mtls()
                | {"ssl.keystore.location": str(secured.client.pkcs12("pw")), "ssl.keystore.password": "pw"}
            ),
            "the principal of the certificate CN=client",
        ),
        (lambda secured: secured.sasl("OAUTHBEARER", "bob"), "the principal of the token with sub = bob"),
    ],
    ids=["certificate", "pkcs12", "token"],
)
def test_error_names_what_the_broker_takes_the_principal_from(
    secured: SecuredKafka, settings: Callable[[SecuredKafka], dict[str, object]], principal: str
) -> None:
    with (
        Admin(settings(secured)) as admin,
        pytest.raises(TopicAuthorizationError, match=f"{principal} needs an ACL for Create on topic new"),
    ):
        admin.create_topic("new", 1)


def test_error_of_a_broker_has_the_class_of_its_code() -> None:
    assert type(BrokerError(Error.TOPIC_AUTHORIZATION_FAILED)) is TopicAuthorizationError
    assert type(BrokerError(Error.UNKNOWN_MEMBER_ID)) is BrokerError
    assert BrokerError(Error.GROUP_AUTHORIZATION_FAILED, "text").error is Error.GROUP_AUTHORIZATION_FAILED
