"""The Python of docs/secured-clusters.md runs with a secured broker; the Spark example is in `tests/spark`."""

import json
import re
import sys
import time
from pathlib import Path
from types import ModuleType

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from slackwater import Admin, Broker
from slackwater.properties import read_properties

PAGE = (Path(__file__).parents[3] / "docs" / "secured-clusters.md").read_text()
MSK = PAGE.partition("## Amazon MSK")[2].partition("\n## ")[0]
LIFETIME_S = 600


def _block(language: str) -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", MSK, re.MULTILINE | re.DOTALL)
    return str(code)


def test_documented_token_function_authenticates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's signer is replaced by one whose tokens this broker can check."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": "1"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
    regions = []

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            regions.append(region)
            issued_s = int(time.time())
            expiry_s = issued_s + LIFETIME_S
            token = jwt.encode({"sub": "orders", "iat": issued_s, "exp": expiry_s}, key, "ES256", headers={"kid": "1"})
            return token, expiry_s * 1000

    signer = ModuleType("aws_msk_iam_sasl_signer")
    signer.__dict__["MSKAuthTokenProvider"] = MSKAuthTokenProvider
    monkeypatch.setitem(sys.modules, signer.__name__, signer)
    (tmp_path / "msk_token.py").write_text(_block("py"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "msk_token", raising=False)
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
    }
    with Broker(security="SASL_SSL", settings=settings) as broker:
        (tmp_path / "client.properties").write_text(_block("properties"))
        documented = read_properties(str(tmp_path / "client.properties"))
        authority = broker.client_config("orders", mechanism="PLAIN")["ssl.ca.location"]
        config = documented | {"bootstrap.servers": broker.bootstrap_servers, "ssl.ca.location": authority}
        with Admin(config) as admin:
            admin.create_topic("orders", 3)
            assert [topic.name for topic in admin.list_topics()] == ["orders"]
    assert regions == ["eu-west-1"]
