"""The table of APIs, and the headers that follow from it."""

import json
import re
import zipfile
from importlib import import_module

import pytest

from slackwater.wire import apis
from slackwater.wire.apis import APIS
from slackwater.wire.codec import request_type, response_type
from tests.java import jars, needs_jars


def test_every_api_has_request_and_response() -> None:
    for key, api in APIS.items():
        assert api.key == key
        assert request_type(api).API is response_type(api).API is api
        assert api.min_version <= api.latest_stable <= api.max_version


def test_no_class_belongs_to_two_apis() -> None:
    assert len({request_type(api) for api in APIS.values()}) == len(APIS)


def test_flexible_headers_have_tagged_fields() -> None:
    assert not apis.JOIN_GROUP.is_flexible(5)
    assert apis.JOIN_GROUP.is_flexible(6)
    assert apis.JOIN_GROUP.response_header_version(5) == 0
    assert apis.JOIN_GROUP.response_header_version(6) == 1


def test_api_versions_response_header_is_never_flexible() -> None:
    assert apis.API_VERSIONS.is_flexible(4)
    assert apis.API_VERSIONS.response_header_version(4) == 0


def test_api_without_flexible_versions() -> None:
    assert not apis.SASL_HANDSHAKE.is_flexible(1)


def test_unstable_version_is_not_advertised() -> None:
    assert apis.INIT_PRODUCER_ID.max_version == 6
    assert apis.INIT_PRODUCER_ID.latest_stable == 5


def test_every_module_docstring_has_key_and_versions() -> None:
    for api in APIS.values():
        module = import_module(request_type(api).__module__)
        span = f"v{api.min_version} to v{api.max_version}" if api.max_version else "v0"
        assert (module.__doc__ or "").startswith(f"{api.name} (key {api.key}), {span}."), api


@pytest.mark.java
@needs_jars
def test_table_equals_kafkas() -> None:
    (path,) = jars().glob("kafka-clients-*.jar")
    with zipfile.ZipFile(path) as jar:
        for api in APIS.values():
            text = jar.read(f"common/message/{api.name}Request.json").decode()
            schema = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
            first, _, last = schema["validVersions"].partition("-")
            flexible = schema["flexibleVersions"]
            assert schema["apiKey"] == api.key
            assert (int(first), int(last or first)) == (api.min_version, api.max_version)
            assert api.flexible_from == (None if flexible == "none" else int(flexible.rstrip("+")))
            assert api.latest_stable == api.max_version - schema.get("latestVersionUnstable", False)
