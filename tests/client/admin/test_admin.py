"""The admin client, on the embedded broker and on Apache Kafka."""

import uuid
from collections.abc import Callable

import pytest

from slackwater import Admin, Broker, Producer
from slackwater.client.admin import GroupDescription, ResetTo
from slackwater.client.admin.descriptions import GenerationSource
from slackwater.client.errors import ClientClosedError, NetworkError
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.consumer_pool import ConsumerPool, wait_until

Name = Callable[[str], str]
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}


@pytest.fixture
def bootstrap(cluster: ClusterUnderTest) -> str:
    """The bootstrap servers of the cluster."""
    return cluster.bootstrap_servers


@pytest.fixture
def admin(cluster: ClusterUnderTest) -> Admin:
    return cluster.admin


@pytest.fixture
def name() -> Name:
    """Returns names that no other test uses."""
    suffix = uuid.uuid4().hex[:8]
    return lambda prefix: f"{prefix}-{suffix}"


@pytest.fixture
def topic(admin: Admin, bootstrap: str, name: Name) -> str:
    """A topic of three partitions with ten records each, with the timestamps 1000, 2000, …, 10000."""
    created = name("topic")
    admin.create_topic(created, 3)
    wait_until(lambda: created in {listed.name for listed in admin.list_topics()}, lambda: created)
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number in range(10):
            for partition in range(3):
                producer.send(created, "v", partition=partition, timestamp_ms=(number + 1) * 1000)
    return created


def partitions(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def describe(admin: Admin, group: str) -> GroupDescription:
    (description,) = admin.describe_groups([group])
    return description


# --- topics -----------------------------------------------------------------------------------------------------------


@pytest.mark.old_kafka
def test_a_topic_is_created_described_grown_and_deleted(admin: Admin, name: Name) -> None:
    topic = name("grown")
    admin.create_topic(topic, 2, configs={"retention.ms": "7200000"})
    with pytest.raises(BrokerError, match="already exists"):
        admin.create_topic(topic, 2)
    wait_until(lambda: topic in {listed.name for listed in admin.list_topics()}, lambda: topic)
    (description,) = admin.describe_topics([topic])
    assert [partition.index for partition in description.partitions] == [0, 1]
    assert all(
        partition.leader in {broker.node_id for broker in admin.brokers()} for partition in description.partitions
    )

    admin.add_partitions(topic, 4, validate_only=True)
    admin.add_partitions(topic, 3)
    wait_until(lambda: len(admin.describe_topics([topic])[0].partitions) == 3, lambda: topic)
    with pytest.raises(BrokerError, match="were not added"):
        admin.add_partitions(topic, 2)

    admin.delete_topic(topic)
    wait_until(lambda: topic not in {listed.name for listed in admin.list_topics()}, lambda: topic)
    with pytest.raises(BrokerError, match="There is no topic"):
        admin.delete_topic(topic)


def test_metadata_request_creates_no_topic(admin: Admin, name: Name) -> None:
    admin.create_topic(name("validated"), 2, validate_only=True)
    with pytest.raises(BrokerError, match="was not created"):
        admin.create_topic(name("validated"), 2, configs={"no.such.setting": "1"}, validate_only=True)
    assert name("validated") not in {listed.name for listed in admin.list_topics(internal=True)}


def test_misspelt_topic_suggests_closest_name(admin: Admin, topic: str) -> None:
    with pytest.raises(BrokerError, match=f"There is no topic {topic}x; did you mean {topic}"):
        admin.describe_topics([topic + "x"])


def test_settings_of_topics_and_brokers(admin: Admin, topic: str) -> None:
    assert admin.describe_configs("topic", topic)["delete.retention.ms"].is_default
    admin.alter_configs("topic", topic, {"delete.retention.ms": "60000"}, validate_only=True)
    admin.alter_configs("topic", topic, {"delete.retention.ms": "60000", "cleanup.policy": "compact"})
    wait_until(lambda: not admin.describe_configs("topic", topic)["delete.retention.ms"].is_default, lambda: topic)
    configs = admin.describe_configs("topic", topic)
    assert (configs["delete.retention.ms"].value, configs["cleanup.policy"].value) == ("60000", "compact")
    admin.alter_configs("topic", topic, {"delete.retention.ms": None})
    wait_until(lambda: admin.describe_configs("topic", topic)["delete.retention.ms"].is_default, lambda: topic)
    with pytest.raises(BrokerError, match="were not changed"):
        admin.alter_configs("topic", topic, {"no.such.setting": "1"})
    broker = str(admin.brokers()[0].node_id)
    assert "log.retention.ms" in admin.describe_configs("broker", broker)
    with pytest.raises(UsageError, match="use one of topic, broker, group"):
        admin.describe_configs("user", "x")


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.old_kafka
def test_active_group_is_listed_and_described(
    cluster: ClusterUnderTest, admin: Admin, bootstrap: str, topic: str, name: Name
) -> None:
    group = name("living")
    with ConsumerPool(bootstrap, group, [topic]) as pool:
        pool.join(5)
        pool.settle(3)
        listed = {listing.group_id: listing for listing in admin.list_groups()}[group]
        assert (listed.state, listed.type.lower(), listed.protocol_type) == ("Stable", "classic", "consumer")
        assert group in {listing.group_id for listing in admin.list_groups(["stable"])}
        assert group not in {listing.group_id for listing in admin.list_groups(["Empty"])}

        description = describe(admin, group)
        assert (description.state, description.assignor, description.protocol_type) == ("Stable", "range", "consumer")
        assert description.coordinator in admin.brokers()
        assert sorted(
            partition for member in description.members for partition in member.partitions or ()
        ) == partitions(topic, 0, 1, 2)
        assert {member.topics for member in description.members} == {(topic,)}
        assert (len(description.members), len(description.idle)) == (5, 2)
        assert description.generation == pool.generation(pool.consumers[0])
        assert description.waiting_for is None
        source = GenerationSource.GROUP_EVENTS if cluster.broker is not None else GenerationSource.OFFSETS_TOPIC
        wait_until(lambda: describe(admin, group).generation_source is source, lambda: describe(admin, group))
    assert describe(admin, group).state == "Empty"


@pytest.mark.old_kafka
def test_offsets_and_lag_of_committed_and_owned(admin: Admin, bootstrap: str, topic: str, name: Name) -> None:
    group = name("lag")
    with ConsumerPool(bootstrap, group, [topic]) as pool:
        pool.join(2)
        pool.settle(3)
        pool.commit({TopicPartition(topic, 0): 4, TopicPartition(topic, 2): 10})
        description = describe(admin, group)
        rows = admin.group_offsets([description])[group]
        assert [(*row.partition, row.committed, row.log_start, row.log_end, row.lag) for row in rows] == [
            (topic, 0, 4, 0, 10, 6),
            (topic, 1, None, 0, 10, None),
            (topic, 2, 10, 0, 10, 0),
        ]
        owners = {partition: member for member in description.members for partition in member.partitions or ()}
        assert {row.partition: row.member for row in rows} == owners
    after = admin.group_offsets([describe(admin, group)])[group]
    assert [(row.partition.partition, row.lag, row.member) for row in after] == [(0, 6, None), (2, 0, None)]


@pytest.mark.old_kafka
def test_rebalance_waiting_members_are_found(
    cluster: ClusterUnderTest, admin: Admin, bootstrap: str, topic: str, name: Name
) -> None:
    group = name("stuck")
    with ConsumerPool(bootstrap, group, [topic]) as other, ConsumerPool(bootstrap, group, [topic]) as pool:
        pool.join(2)
        pool.settle(3)
        slow = frozenset(member.member_id for member in describe(admin, group).members)
        pool.stall()
        other.join()

        def waiting_members() -> tuple[frozenset[str], bool]:
            description = describe(admin, group)
            return frozenset(description.waiting_for or ()), description.waiting_exact

        wait_until(lambda: waiting_members() == (slow, cluster.broker is not None), waiting_members)
        description = describe(admin, group)
        assert description.state == "PreparingRebalance"
        assert description.idle == ()


def test_generation_is_inferred_without_group_events(name: Name) -> None:
    with Broker(settings=SETTINGS | {"group.events.enable": False}) as broker:
        broker.create_topic("orders", 3)
        with (
            Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin,
            ConsumerPool(broker.bootstrap_servers, "stuck", ["orders"]) as other,
            ConsumerPool(broker.bootstrap_servers, "stuck", ["orders"]) as pool,
        ):
            pool.join(2)
            pool.settle(3)
            description = describe(admin, "stuck")
            assert description.generation == pool.generation(pool.consumers[0])
            assert description.generation_source is GenerationSource.OFFSETS_TOPIC
            slow = {member.member_id for member in description.members}
            pool.stall()
            other.join()
            wait_until(lambda: len(describe(admin, "stuck").members) == 3, lambda: describe(admin, "stuck"))
            description = describe(admin, "stuck")
            assert set(description.waiting_for or ()) == slow
            assert not description.waiting_exact


@pytest.mark.old_kafka
def test_missing_group_suggests_closest_name(admin: Admin, topic: str, name: Name) -> None:
    admin.alter_offsets(name("known"), {TopicPartition(topic, 0): 1})
    with pytest.raises(BrokerError, match=f"There is no group {name('knwon')}; did you mean {name('known')}"):
        admin.describe_groups([name("knwon")])
    with pytest.raises(BrokerError, match="There is no group"):
        admin.delete_group(name("absent"))


@pytest.mark.old_kafka
def test_only_empty_group_can_be_deleted(admin: Admin, bootstrap: str, topic: str, name: Name) -> None:
    group = name("deleted")
    with ConsumerPool(bootstrap, group, [topic]) as pool:
        pool.join()
        pool.settle(3)
        with pytest.raises(BrokerError, match="Stop its consumers first") as rejected:
            admin.delete_group(group)
        assert rejected.value.error is Error.NON_EMPTY_GROUP
    admin.delete_group(group)
    assert group not in {listing.group_id for listing in admin.list_groups()}


@pytest.mark.old_kafka
def test_removed_members_rejoin_if_alive(admin: Admin, bootstrap: str, topic: str, name: Name) -> None:
    group = name("removed")
    with ConsumerPool(bootstrap, group, [topic]) as pool:
        pool.join(1)
        pool.join(1, {"group.instance.id": "pod-1"})
        pool.settle(3)

        def ids() -> dict[str | None, str]:
            description = describe(admin, group)
            if description.state != "Stable":
                return {}
            return {member.group_instance_id: member.member_id for member in description.members}

        first = ids()
        (removed,) = admin.remove_members(group, members=[first[None]])
        assert (removed.member_id, removed.error) == (first[None], Error.NONE)
        wait_until(lambda: ids().get(None) not in (None, first[None]), ids)

        second = ids()
        (removed,) = admin.remove_members(group, instances=["pod-1"])
        assert (removed.group_instance_id, removed.error) == ("pod-1", Error.NONE)
        wait_until(lambda: ids().get("pod-1") not in (None, second["pod-1"]), ids)

        third = ids()
        assert {removal.error for removal in admin.remove_members(group, all_members=True)} == {Error.NONE}
        wait_until(lambda: len(ids()) == 2 and not set(ids().values()) & set(third.values()), ids)

        (unknown,) = admin.remove_members(group, members=["unknown"])
        assert unknown.error is Error.UNKNOWN_MEMBER_ID
    (stayed,) = admin.remove_members(group, all_members=True)
    assert stayed.group_instance_id == "pod-1"  # a static member does not leave when it is closed
    assert admin.remove_members(group, all_members=True) == []
    with pytest.raises(UsageError, match="Name the members to remove"):
        admin.remove_members(group)


# --- offsets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (ResetTo.earliest(), (0, 0, 0)),
        (ResetTo.latest(), (10, 10, 10)),
        (ResetTo.offset(7), (7, 7, 7)),
        (ResetTo.offset(99), (10, 10, 10)),
        (ResetTo.shift(-2), (3, 3, 3)),
        (ResetTo.shift(-20), (0, 0, 0)),
        (ResetTo.current(), (5, 5, 5)),
        (ResetTo.time(3500), (3, 3, 3)),
        (ResetTo.time(99_000), (10, 10, 10)),
    ],
    ids=lambda value: f"{value.target.name}{value.amount}" if isinstance(value, ResetTo) else "",
)
def test_offsets_are_reset(admin: Admin, topic: str, name: Name, to: ResetTo, expected: tuple[int, ...]) -> None:
    group = name("reset")
    admin.alter_offsets(group, dict.fromkeys(partitions(topic, 0, 1, 2), 5))
    planned = admin.reset_offsets(group, to, dry_run=True)
    assert [(change.old, change.new) for change in planned] == [(5, offset) for offset in expected]
    assert {commit.offset for commit in admin.committed(group).values()} == {5}
    admin.reset_offsets(group, to)
    assert {partition: commit.offset for partition, commit in admin.committed(group).items()} == dict(
        zip(partitions(topic, 0, 1, 2), expected, strict=True)
    )


def test_only_named_partitions_are_reset(admin: Admin, topic: str, name: Name) -> None:
    group = name("scope")
    admin.alter_offsets(group, dict.fromkeys(partitions(topic, 0, 1), 5))
    admin.reset_offsets(group, ResetTo.latest(), partitions=partitions(topic, 1))
    assert {partition.partition: commit.offset for partition, commit in admin.committed(group).items()} == {0: 5, 1: 10}
    admin.reset_offsets(group, ResetTo.earliest(), topics=[topic])
    offsets = {partition.partition: commit.offset for partition, commit in admin.committed(group).items()}
    assert offsets == {0: 0, 1: 0, 2: 0}


@pytest.mark.old_kafka
def test_invalid_reset_explains_the_reason(admin: Admin, bootstrap: str, topic: str, name: Name) -> None:
    group = name("rejected")
    with pytest.raises(UsageError, match="has no committed offsets"):
        admin.reset_offsets(group, ResetTo.latest())
    with pytest.raises(UsageError, match="no committed offset to shift"):
        admin.reset_offsets(group, ResetTo.shift(1), topics=[topic])
    with pytest.raises(UsageError, match="has no partition 9; it has 3"):
        admin.reset_offsets(group, ResetTo.latest(), partitions=partitions(topic, 9))
    with pytest.raises(BrokerError, match="There is no topic"):
        admin.reset_offsets(group, ResetTo.latest(), topics=[topic + "x"])
    with ConsumerPool(bootstrap, group, [topic]) as pool:
        pool.join()
        pool.settle(3)
        with pytest.raises(BrokerError, match=r"is Stable with 1 member, .*Stop its consumers first") as rejected:
            admin.reset_offsets(group, ResetTo.latest(), topics=[topic])
        assert rejected.value.error is Error.NON_EMPTY_GROUP
        with pytest.raises(BrokerError, match="has members"):
            admin.alter_offsets(group, {TopicPartition(topic, 0): 1})
    assert admin.committed(group) == {}


@pytest.mark.old_kafka
def test_delete_offsets_except_subscribed_topics(admin: Admin, bootstrap: str, topic: str, name: Name) -> None:
    group = name("forgotten")
    admin.alter_offsets(group, dict.fromkeys(partitions(topic, 0, 1), 5))
    assert admin.delete_offsets(group, partitions(topic, 0)) == {TopicPartition(topic, 0): Error.NONE}
    assert set(admin.committed(group)) == set(partitions(topic, 1))
    with ConsumerPool(bootstrap, group, [topic]) as pool:
        pool.join()
        pool.settle(3)
        rejected = {TopicPartition(topic, 1): Error.GROUP_SUBSCRIBED_TO_TOPIC}
        assert admin.delete_offsets(group, partitions(topic, 1)) == rejected


# --- errors -----------------------------------------------------------------------------------------------------------


def test_unreachable_cluster_fails_at_once() -> None:
    with (
        Admin({"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": 3_600_000}) as admin,
        pytest.raises(NetworkError, match=r"127\.0\.0\.1:1 could not be reached"),
    ):
        admin.list_groups()


def test_closed_admin_and_wrong_settings_raise() -> None:
    admin = Admin({"bootstrap.servers": "127.0.0.1:1", "group.id": "of another client", "acks": "all"})
    admin.close()
    admin.close()
    with pytest.raises(ClientClosedError):
        admin.list_groups()
    with pytest.raises(UsageError, match=r"did you mean request\.timeout\.ms"):
        Admin({"bootstrap.servers": "127.0.0.1:1", "request.timeout": 1})


def test_retriable_errors_and_failing_broker(name: Name) -> None:
    with Kafka() as kafka, Admin({"bootstrap.servers": kafka.bootstrap_servers, "retry.backoff.ms": 1}) as admin:
        kafka.create_topic("orders", 1)
        admin.alter_offsets("billing", {TopicPartition("orders", 0): 0})
        kafka.fail("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
        kafka.fail("DescribeGroups", "NOT_COORDINATOR", times=2)
        kafka.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
        assert [listing.group_id for listing in admin.list_groups()] == ["billing"]
        (row,) = admin.group_offsets([describe(admin, "billing")])["billing"]
        assert row.lag == 0

        kafka.fail("ListGroups", "CLUSTER_AUTHORIZATION_FAILED", times=2)
        failed: list[SlackwaterError] = []
        assert admin.list_groups(on_failure=lambda broker, error: failed.append(error)) == []
        assert [str(error) for error in failed] == ["CLUSTER_AUTHORIZATION_FAILED"]
        with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
            admin.list_groups()
