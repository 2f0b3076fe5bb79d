"""SCRAM: RFC 7677's example, both halves against each other, and tampered messages."""

from base64 import b64decode

import pytest

from slackwater.security.scram import (
    ClientFirst,
    ScramAlgorithm,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramServerExchange,
    make_credential,
)

# The example of RFC 7677, section 3.
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s={SALT},i=4096".encode()
CLIENT_FINAL = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_client() -> ScramClient:
    return ScramClient(ScramAlgorithm.SHA_256, "user", "pencil", nonce=CLIENT_NONCE)


def test_client_matches_the_example_of_the_rfc() -> None:
    client = rfc_client()
    assert client.first() == f"n,,n=user,r={CLIENT_NONCE}".encode()
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    client.verify(SERVER_FINAL)


def test_server_matches_the_example_of_the_rfc() -> None:
    first = ClientFirst.parse(rfc_client().first())
    server = ScramServerExchange(
        ScramAlgorithm.SHA_256,
        first,
        make_credential(ScramAlgorithm.SHA_256, "pencil", salt=b64decode(SALT)),
        nonce=SERVER_NONCE,
    )
    assert server.first() == SERVER_FIRST
    assert server.final(CLIENT_FINAL) == SERVER_FINAL


@pytest.mark.parametrize("mechanism", ScramAlgorithm)
@pytest.mark.parametrize("name", ["user", "a=b,c", "=2C", "Zoë"])
def test_both_halves_agree(mechanism: ScramAlgorithm, name: str) -> None:
    client = ScramClient(mechanism, name, "pä,ss=word", extensions=(("tokenauth", "true"),))
    first = ClientFirst.parse(client.first())
    assert (first.username, first.extensions) == (name, {"tokenauth": "true"})
    server = ScramServerExchange(mechanism, first, make_credential(mechanism, "pä,ss=word"))
    client.verify(server.final(client.final(server.first())))


def test_wrong_password_is_rejected() -> None:
    client = ScramClient(ScramAlgorithm.SHA_512, "user", "wrong")
    server = ScramServerExchange(
        ScramAlgorithm.SHA_512, ClientFirst.parse(client.first()), make_credential(ScramAlgorithm.SHA_512, "right")
    )
    final = client.final(server.first())
    with pytest.raises(ScramError, match="proof is wrong"):
        server.final(final)


def test_client_rejects_a_server_without_the_credential() -> None:
    client = rfc_client()
    client.final(SERVER_FIRST)
    with pytest.raises(ScramError, match="could not prove"):
        client.verify(b"v=" + b"A" * 43 + b"=")


@pytest.mark.parametrize("message", [SERVER_FINAL, b"v="])
def test_client_rejects_a_signature_before_its_proof(message: bytes) -> None:
    with pytest.raises(ScramError, match="could not prove"):
        rfc_client().verify(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"), "does not extend"),
        (f"r={CLIENT_NONCE},s={SALT},i=4096".encode(), "does not extend"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 SCRAM iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=2000000000"), "2000000000 SCRAM iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=x"), "no number of iterations"),
        (SERVER_FIRST.replace(SALT.encode(), b"*"), "invalid base64"),
        (b"m=x," + SERVER_FIRST, "mandatory extension"),
        (SERVER_FIRST + b",r=again", "invalid attribute"),
        (b"e=unknown-user", "unknown-user"),
        (b"\xff", "not UTF-8"),
        (b"", "invalid attribute"),
    ],
)
def test_client_rejects_invalid_first_messages(message: bytes, reason: str) -> None:
    with pytest.raises(ScramError, match=reason):
        rfc_client().final(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"p=tls-unique,,n=user,r=x", "channel binding"),
        (b"n,,r=x,n=user", "in this order"),
        (b"n,,n=user,r=", "in this order"),
        (b"n,,n=us=er,r=x", "invalid escape"),
        (b"n,user,n=user,r=x", "authorization id"),
        (b"n,,n=user,r=x,m=y", "mandatory extension"),
        (b"n", "header"),
    ],
)
def test_server_rejects_invalid_first_messages(message: bytes, reason: str) -> None:
    with pytest.raises(ScramError, match=reason):
        ClientFirst.parse(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (CLIENT_FINAL.replace(b"biws", b"eSws"), "another header"),
        (CLIENT_FINAL.replace(SERVER_NONCE.encode(), b"replayed"), "another nonce"),
        (CLIENT_FINAL.replace(b"p=dHzb", b"p=eHzb"), "proof is wrong"),
        (CLIENT_FINAL[:-4], "wrong length|invalid base64"),
        (CLIENT_FINAL.partition(b",p=")[0], "no proof"),
    ],
)
def test_server_rejects_tampered_last_messages(message: bytes, reason: str) -> None:
    first = ClientFirst.parse(rfc_client().first())
    credential = make_credential(ScramAlgorithm.SHA_256, "pencil", salt=b64decode(SALT))
    server = ScramServerExchange(ScramAlgorithm.SHA_256, first, credential, nonce=SERVER_NONCE)
    with pytest.raises(ScramError, match=reason):
        server.final(message)


def test_proof_is_not_accepted_in_another_exchange() -> None:
    first = ClientFirst.parse(rfc_client().first())
    credential = make_credential(ScramAlgorithm.SHA_256, "pencil", salt=b64decode(SALT))
    with pytest.raises(ScramError, match="another nonce"):
        ScramServerExchange(ScramAlgorithm.SHA_256, first, credential).final(CLIENT_FINAL)


def test_credential_does_not_show_its_keys() -> None:
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    assert repr(credential) == "ScramCredential(iterations=4096)"
