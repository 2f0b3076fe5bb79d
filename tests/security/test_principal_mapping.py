"""Names of certificates, and the principals that rules make of them."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from slackwater.group.errors import UsageError
from slackwater.security.distinguished_names import subject_name
from slackwater.security.errors import SslAuthenticationError
from slackwater.security.principal_mapping import PrincipalMapping

SUBJECT = "CN=Orders,OU=Payments Team,O=Example\\, Inc.,C=DE"


def certificate(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(start + datetime.timedelta(1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (
            [
                (NameOID.COUNTRY_NAME, "DE"),
                (NameOID.ORGANIZATION_NAME, "Example, Inc."),
                (NameOID.ORGANIZATIONAL_UNIT_NAME, "Payments Team"),
                (NameOID.COMMON_NAME, "Orders"),
            ],
            SUBJECT,
        ),
        ([(NameOID.COMMON_NAME, 'a+b"c\\d<e>;f')], 'CN=a\\+b\\"c\\\\d\\<e\\>\\;f'),
        ([(NameOID.COMMON_NAME, "#x ")], "CN=\\#x\\ "),
        ([(NameOID.COMMON_NAME, "a,OU=admin#")], "CN=a\\,OU\\=admin\\#"),
        ([(NameOID.COMMON_NAME, "  a b\r ")], "CN=\\ \\ a b\\\r\\ "),
        ([(NameOID.COMMON_NAME, " ")], "CN=\\ "),
        ([(NameOID.COMMON_NAME, "a\0b")], "CN=a\\00b"),
        ([(NameOID.COMMON_NAME, "ünï")], "CN=ünï"),
        ([(NameOID.EMAIL_ADDRESS, "a@b.c")], "1.2.840.113549.1.9.1=#1605614062" + b".c".hex()),
        ([(NameOID.DOMAIN_COMPONENT, "example"), (NameOID.USER_ID, "u1")], "UID=u1,DC=example"),
        ([], ""),
    ],
)
def test_subject_is_written_as_java_does(attributes: list[tuple[x509.ObjectIdentifier, str]], name: str) -> None:
    assert subject_name(certificate(*attributes)) == name


@pytest.mark.parametrize(
    ("tag", "value"),
    [(0x14, "aé"), (0x16, "aé"), (0x1B, "aé"), (0x1E, "aé"), (0x12, "#120361c3a9"), (0x1C, "#1c0361c3a9")],
)
def test_text_of_other_types_is_decoded_as_java_does(tag: int, value: str) -> None:
    text = b"\x03" + "aé".encode()
    der = certificate((NameOID.COMMON_NAME, "aé")).replace(b"\x0c" + text, bytes([tag]) + text)
    assert subject_name(der) == f"CN={value}"


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x05abc", b"\x30\x03\x30\x01\x02"])
def test_unreadable_certificate_is_an_authentication_error(data: bytes) -> None:
    with pytest.raises(SslAuthenticationError):
        subject_name(data)


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", SUBJECT),
        ("RULE:^CN=([^,]+).*$/$1/,DEFAULT", "Orders"),
        ("RULE:^CN=([^,]+).*$/$1/L", "orders"),
        ("RULE:^CN=([^,]+),OU=([^,]+).*$/$2-$1/U", "PAYMENTS TEAM-ORDERS"),
        ("RULE:^OU=.*$/no/, RULE:^CN=.*$/yes\\/no/", "yes/no"),
        ("RULE:^CN=(.*?),OU=.*$/$1@example/L,DEFAULT", "orders@example"),
    ],
)
def test_first_matching_rule_names_the_principal(rules: str, principal: str) -> None:
    assert PrincipalMapping(rules).name(SUBJECT) == principal


def test_name_without_a_matching_rule_is_refused() -> None:
    with pytest.raises(SslAuthenticationError, match="no rule"):
        PrincipalMapping("RULE:^OU=.*$/x/").name(SUBJECT)


@pytest.mark.parametrize("rules", ["RULE:a", "default", "RULE:(/x/", "RULE:a/b/X", "DEFAULT;DEFAULT"])
def test_invalid_rules_are_one_sentence(rules: str) -> None:
    with pytest.raises(UsageError, match=r"ssl.principal.mapping.rules = .* is not valid"):
        PrincipalMapping(rules)
