"""The authorizer in the broker: storage of the rules, and what an attacker without rights may try."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.broker.authorization import FILE, Authorizer
from slackwater.broker.config import Settings
from slackwater.group.errors import Error, UsageError
from slackwater.security.acls import Acl, AclFilter, AclOperation, AclPermissionType, AclResourceType, PatternType
from slackwater.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from slackwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from slackwater.wire.schema import NO_UUID
from tests.broker.handlers.members import GROUP, join_stable_group
from tests.broker.quiet_broker import QuietBroker, QuietClient

ADMIN = "User:admin"
MALLORY = "User:mallory"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f" {ADMIN} ; User:CN=other,O=x",
}
READ_T = AclCreation(
    AclResourceType.TOPIC, "t", PatternType.LITERAL, MALLORY, "*", AclOperation.READ, AclPermissionType.ALLOW
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[QuietBroker]:
    with QuietBroker(tmp_path, SETTINGS, t=1) as broker:
        yield broker


def create(client: QuietClient, *creations: AclCreation) -> list[int]:
    response = client.request(CreateAclsRequest(list(creations)), CreateAclsResponse)
    return [result.error_code for result in response.results]


def fetch(client: QuietClient, topic: str = "t", session_id: int = 0, session_epoch: int = -1) -> FetchResponse:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchTopic(topic, NO_UUID, [partition])]
    request = FetchRequest(
        max_bytes=1_000, session_id=session_id, session_epoch=session_epoch, topics=topics if session_epoch <= 0 else []
    )
    return client.request(request, FetchResponse, 12)


def errors(response: FetchResponse) -> list[int]:
    return [partition.error_code for topic in response.responses for partition in topic.partitions]


# --- storage ----------------------------------------------------------------------------------------------------------


def test_rules_survive_a_restart(tmp_path: Path) -> None:
    with QuietBroker(tmp_path, SETTINGS, t=1) as broker:
        assert errors(fetch(broker.connect(principal=MALLORY))) == [Error.TOPIC_AUTHORIZATION_FAILED]
        assert create(broker.connect(principal=ADMIN), READ_T) == [Error.NONE]
    with QuietBroker(tmp_path, SETTINGS) as broker:
        assert errors(fetch(broker.connect(principal=MALLORY))) == [Error.NONE]
        everything = DeleteAclsFilter(1, None, PatternType.ANY, None, None, 1, 1)
        admin = broker.connect(principal=ADMIN)
        deleted = admin.request(DeleteAclsRequest([everything]), DeleteAclsResponse).filter_results[0].matching_acls
        assert [acl.resource_name for acl in deleted] == ["t"]
    with QuietBroker(tmp_path, SETTINGS) as broker:
        assert errors(fetch(broker.connect(principal=MALLORY))) == [Error.TOPIC_AUTHORIZATION_FAILED]


def test_rule_that_cannot_be_stored_does_not_apply(tmp_path: Path, broker: QuietBroker) -> None:
    (tmp_path / FILE).mkdir()  # a file cannot replace it
    assert create(broker.connect(principal=ADMIN), READ_T) == [Error.KAFKA_STORAGE_ERROR]
    assert errors(fetch(broker.connect(principal=MALLORY))) == [Error.TOPIC_AUTHORIZATION_FAILED]
    (tmp_path / FILE).rmdir()


@pytest.mark.parametrize("content", ["", "[", "{}x", '[{"resource": "TOPIC"}]', "[7]", '[{"resource": "MOON"}]'])
def test_unreadable_rules_stop_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(UsageError, match=r"Cannot read the ACLs in .*acls: "):
        Authorizer(tmp_path, Settings(SETTINGS))


def test_flipped_bit_in_the_rules_stops_the_start(tmp_path: Path) -> None:
    acl = Acl(AclResourceType.TOPIC, "t", PatternType.LITERAL, MALLORY, "*", AclOperation.READ, AclPermissionType.DENY)
    Authorizer(tmp_path, Settings(SETTINGS)).add([acl])
    text = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(text.replace("mallory", "mallorx"))
    with pytest.raises(UsageError, match="the checksum is wrong"):
        Authorizer(tmp_path, Settings(SETTINGS))
    (tmp_path / FILE).write_text(text[: text.rindex("crc32c")])  # repaired by hand
    assert Authorizer(tmp_path, Settings(SETTINGS)).select(AclFilter()) == [acl]


def test_super_user_without_type_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'admin' without its type; write User:admin"):
        Authorizer(tmp_path, Settings(SETTINGS | {"super.users": "User:root;admin"}))


def test_everybody_may_access_resources_without_rules(tmp_path: Path) -> None:
    settings = SETTINGS | {"allow.everyone.if.no.acl.found": "true"}
    with QuietBroker(tmp_path, settings, t=1, u=1) as broker:
        client = broker.connect(principal="User:alice")
        assert errors(fetch(client)) == [Error.NONE]
        create(broker.connect(principal=ADMIN), READ_T)
        assert errors(fetch(client)) == [Error.TOPIC_AUTHORIZATION_FAILED]
        assert errors(fetch(client, "u")) == [Error.NONE]


# --- principals and hosts ---------------------------------------------------------------------------------------------


def test_names_of_principals_are_compared_exactly(tmp_path: Path) -> None:
    authorizer = Authorizer(tmp_path, Settings(SETTINGS))
    odd = "User:CN=a b;*,O=\u00e9\n\U0001f512"
    authorizer.add(
        [Acl(AclResourceType.TOPIC, "t", PatternType.LITERAL, odd, "*", AclOperation.READ, AclPermissionType.ALLOW)],
    )

    def allowed(principal: str) -> bool:
        return Authorizer(tmp_path, Settings(SETTINGS)).allows(
            principal, "/127.0.0.1", AclOperation.READ, AclResourceType.TOPIC, "t"
        )

    assert allowed(odd)
    others = (odd + " ", odd.upper(), odd[:-1], "User:", "User:*", "User:CN=a b", "Group:" + odd[5:])
    assert not any(map(allowed, others))
    assert allowed("User:CN=other,O=x")
    assert not allowed("user:admin")


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        ("/127.0.0.1", "127.0.0.1"),
        ("/::1", "0:0:0:0:0:0:0:1"),
        ("/fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("/::ffff:10.0.0.7", "10.0.0.7"),
    ],
)
def test_hosts_are_written_as_java_writes_them(tmp_path: Path, host: str, rule: str) -> None:
    authorizer = Authorizer(tmp_path, Settings(SETTINGS))
    acl = Acl(
        AclResourceType.GROUP, "g", PatternType.LITERAL, "User:a", rule, AclOperation.READ, AclPermissionType.ALLOW
    )
    authorizer.add([acl])
    assert authorizer.allows("User:a", host, AclOperation.READ, AclResourceType.GROUP, "g")
    assert not authorizer.allows("User:a", "/10.0.0.8", AclOperation.READ, AclResourceType.GROUP, "g")
    assert authorizer.select(AclFilter(host=rule)) == [acl]


# --- attacks ----------------------------------------------------------------------------------------------------------


def test_offsets_topic_cannot_be_read_without_the_right(broker: QuietBroker) -> None:
    join_stable_group(broker.connect(principal=ADMIN))
    mallory = broker.connect(principal=MALLORY)
    assert errors(fetch(mallory, "__consumer_offsets")) == [Error.TOPIC_AUTHORIZATION_FAILED]
    create(broker.connect(principal=ADMIN), READ_T)
    assert errors(fetch(mallory, "__consumer_offsets")) == [Error.TOPIC_AUTHORIZATION_FAILED]
    described = mallory.request(
        MetadataRequest([MetadataRequestTopic(NO_UUID, "__consumer_offsets")]), MetadataResponse, 12
    )
    assert [(topic.error_code, topic.partitions) for topic in described.topics] == [
        (Error.TOPIC_AUTHORIZATION_FAILED, [])
    ]


def test_member_id_of_another_group_is_worthless(broker: QuietBroker) -> None:
    owner = broker.connect(principal=ADMIN)
    member_id = join_stable_group(owner)
    create(owner, READ_T)
    mallory = broker.connect(principal=MALLORY)
    denied = Error.GROUP_AUTHORIZATION_FAILED
    assert mallory.request(HeartbeatRequest(GROUP, 1, member_id), HeartbeatResponse).error_code == denied
    assert mallory.request(SyncGroupRequest(GROUP, 1, member_id), SyncGroupResponse).error_code == denied
    leave = LeaveGroupRequest(GROUP, "", [MemberIdentity(member_id)])
    assert mallory.request(leave, LeaveGroupResponse).error_code == denied
    topics = [OffsetCommitRequestTopic("t", NO_UUID, [OffsetCommitRequestPartition(0, 9)])]
    committed = mallory.request(OffsetCommitRequest(GROUP, 1, member_id, topics=topics), OffsetCommitResponse, 9)
    assert committed.topics[0].partitions[0].error_code == denied
    assert owner.request(HeartbeatRequest(GROUP, 1, member_id), HeartbeatResponse).error_code == Error.NONE


def test_topic_is_not_created_without_the_right(broker: QuietBroker) -> None:
    mallory = broker.connect(principal=MALLORY)

    def metadata(name: str) -> int:
        request = MetadataRequest([MetadataRequestTopic(NO_UUID, name)], allow_auto_topic_creation=True)
        return mallory.request(request, MetadataResponse, 12).topics[0].error_code

    assert metadata("new") == Error.TOPIC_AUTHORIZATION_FAILED
    describe = AclCreation(
        AclResourceType.TOPIC, "new", 3, MALLORY, "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW
    )
    admin = broker.connect(principal=ADMIN)
    create(admin, describe)
    assert metadata("new") == Error.TOPIC_AUTHORIZATION_FAILED
    assert broker.broker.topics.get("new") is None
    create(
        admin, AclCreation(AclResourceType.TOPIC, "ne", 4, MALLORY, "*", AclOperation.CREATE, AclPermissionType.ALLOW)
    )
    assert metadata("new") == Error.NONE
    assert broker.broker.topics.get("new") is not None


def test_fetch_session_ends_with_the_right(broker: QuietBroker) -> None:
    admin, mallory = broker.connect(principal=ADMIN), broker.connect(principal=MALLORY)
    create(admin, READ_T)
    session = fetch(mallory, session_epoch=0)
    assert errors(session) == [Error.NONE]
    everything = DeleteAclsFilter(1, None, PatternType.ANY, None, None, 1, 1)
    admin.request(DeleteAclsRequest([everything]), DeleteAclsResponse)
    assert errors(fetch(mallory, session_id=session.session_id, session_epoch=1)) == [Error.TOPIC_AUTHORIZATION_FAILED]


def test_rules_cannot_be_changed_without_the_right(broker: QuietBroker) -> None:
    mallory = broker.connect(principal=MALLORY)
    assert create(mallory, READ_T) == [Error.CLUSTER_AUTHORIZATION_FAILED]
    assert errors(fetch(mallory)) == [Error.TOPIC_AUTHORIZATION_FAILED]
