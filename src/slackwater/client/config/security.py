"""The security settings of every client, and the security of its connections made from them.

Invariants:
- Java's names and librdkafka's names are equally good. Two different values for the same thing are an error.
- A wrong combination is an error when the client is made; a file that cannot be read as well.
- No error shows a secret.
"""

import importlib
import ssl
from collections.abc import Callable, Mapping
from typing import Final

from slackwater.client.network.authentication import (
    ClientSaslMechanism,
    OAuthBearerMechanism,
    PlainMechanism,
    ScramMechanism,
    TlsSaslSecurity,
    TokenProvider,
)
from slackwater.client.network.connection import ConnectionSecurity, Plaintext
from slackwater.client.network.kerberos import KEYTAB, PRINCIPAL, SERVICE_NAME, GssapiMechanism, KerberosLogin
from slackwater.client.network.oidc import URL, ClientCredentials
from slackwater.group.errors import UsageError
from slackwater.security.jaas import LoginModule, parse_jaas
from slackwater.security.protocols import CLIENT_SASL_MECHANISMS, SecurityProtocol
from slackwater.security.scram import ScramAlgorithm
from slackwater.security.tls import ClientTls, KeyMaterial, ReloadedContext, load_trust
from slackwater.settings import Setting, SettingType, Value, flag_setting

TOKEN_PROVIDER: Final = "sasl.oauthbearer.token.provider"
_PROTOCOLS: Final = tuple(SecurityProtocol.__members__)
_STORE_TYPES: Final = ("", "PEM", "PKCS12", "JKS")
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_OIDC_CALLBACK: Final = "OAuthBearerLoginCallbackHandler"


def _text(name: str, doc: str, *choices: str) -> Setting:
    return Setting(name=name, kind=SettingType.STRING, default="", doc=doc, choices=choices)


SECURITY_SETTINGS: Final = (
    Setting(
        name="security.protocol",
        kind=SettingType.STRING,
        default="PLAINTEXT",
        choices=(*_PROTOCOLS, *map(str.lower, _PROTOCOLS)),
        doc="How connections are secured: SSL is TLS, SASL is authentication.",
    ),
    _text("ssl.truststore.location", "The trusted certificates: a PEM or PKCS12 file. Default: those of the system."),
    _text("ssl.truststore.type", "The type of the trust store; it is recognized by its content.", *_STORE_TYPES),
    _text("ssl.truststore.password", "The password of a PKCS12 trust store."),
    _text("ssl.truststore.certificates", "The trusted certificates themselves, in PEM."),
    _text("ssl.keystore.location", "This client's private key and certificates: a PEM or PKCS12 file."),
    _text("ssl.keystore.type", "The type of the key store; it is recognized by its content.", *_STORE_TYPES),
    _text("ssl.keystore.password", "The password of a PKCS12 key store."),
    _text("ssl.keystore.key", "This client's private key itself, in PEM."),
    _text("ssl.keystore.certificate.chain", "This client's certificates themselves, in PEM."),
    _text("ssl.key.password", "The password of the private key."),
    _text(
        "ssl.ca.location",
        "librdkafka's name of ssl.truststore.location: a PEM file, or a directory with the names of `openssl rehash`.",
    ),
    _text("ssl.ca.pem", "librdkafka's name of ssl.truststore.certificates."),
    _text("ssl.certificate.location", "librdkafka's name for a PEM file with this client's certificates."),
    _text("ssl.certificate.pem", "librdkafka's name of ssl.keystore.certificate.chain."),
    _text("ssl.key.location", "librdkafka's name for a PEM file with this client's private key."),
    _text("ssl.key.pem", "librdkafka's name of ssl.keystore.key."),
    Setting(
        name="ssl.endpoint.identification.algorithm",
        kind=SettingType.STRING,
        default="https",
        choices=("https", "HTTPS", "", "none"),
        doc="Whether the host name must be one of the broker's certificate; an empty value, or librdkafka's none, "
        "accepts any name.",
    ),
    flag_setting(
        "enable.ssl.certificate.verification",
        True,
        "librdkafka's setting: with false any certificate of a broker is accepted, also that of an attacker.",
    ),
    Setting(
        name="ssl.enabled.protocols",
        kind=SettingType.LIST,
        default=("TLSv1.2", "TLSv1.3"),
        choices=("TLSv1.2", "TLSv1.3"),
        doc="The allowed versions of TLS.",
    ),
    _text(
        "sasl.mechanism",
        "The SASL mechanism. Without it: that of the login module in sasl.jaas.config.",
        "",
        *CLIENT_SASL_MECHANISMS,
    ),
    _text("sasl.mechanisms", "librdkafka's name of sasl.mechanism."),
    _text("sasl.username", "The user name for PLAIN and SCRAM."),
    _text("sasl.password", "The password for PLAIN and SCRAM."),
    _text("sasl.jaas.config", "Java's login module with its options, in place of sasl.username and others."),
    _text(
        TOKEN_PROVIDER,
        "A Python function without arguments, or module:function. It returns a token for OAUTHBEARER, or the token "
        "and its expiry in milliseconds since 1970.",
    ),
    _text(URL, "The token endpoint of an identity provider, for the client-credentials flow of OIDC."),
    _text(_CLIENT_ID, "The client id at the token endpoint."),
    _text(_CLIENT_SECRET, "The client secret at the token endpoint."),
    _text("sasl.oauthbearer.client.id", "librdkafka's name of sasl.oauthbearer.client.credentials.client.id."),
    _text("sasl.oauthbearer.client.secret", "librdkafka's name of sasl.oauthbearer.client.credentials.client.secret."),
    _text("sasl.oauthbearer.scope", "The scope of the requested tokens."),
    _text("sasl.oauthbearer.extensions", "SASL extensions: name=value,name=value."),
    _text(
        "sasl.oauthbearer.method", "librdkafka's setting; oidc is the client-credentials flow.", "", "oidc", "default"
    ),
    Setting(
        name=SERVICE_NAME,
        kind=SettingType.STRING,
        default="kafka",
        doc="The first part of the brokers' Kerberos principals.",
    ),
    _text(PRINCIPAL, "The Kerberos principal of this client. Default: that of the keytab or of the ticket cache."),
    _text(KEYTAB, "The keytab with the key of the principal. Without it, the tickets of kinit are used."),
    _text(
        "sasl.login.callback.handler.class",
        f"Java's setting; only its own {_OIDC_CALLBACK} is known, which is the client-credentials flow.",
    ),
)


class _Values:
    """Security settings by either of their names."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def text(self, *names: str) -> str:
        """Return the value that one of these names has."""
        given = {name: str(self._values[name]) for name in names if self._values[name]}
        if len(set(given.values())) > 1:
            raise UsageError(f"{' and '.join(given)} mean the same and have different values; remove one.")
        return next(iter(given.values()), "")

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return bool(self._values[name])

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list."""
        value = self._values[name]
        assert isinstance(value, tuple)
        return value


def connection_security(values: Mapping[str, Value], provider: object = None) -> ConnectionSecurity:
    """Return the security of a client's connections; `provider` is a Python function that gives tokens."""
    given = _Values(values)
    protocol = SecurityProtocol[given.text("security.protocol").upper()]
    tls = _tls(given)
    if protocol is SecurityProtocol.PLAINTEXT:
        _check_protocol(given, provider)
        return Plaintext()
    context = ReloadedContext(tls.context, tls.paths) if protocol.has_tls else None
    mechanism = _mechanism(given, provider, tls.trust) if protocol.has_sasl else None
    return TlsSaslSecurity(context, mechanism, tls if context is not None and tls.has_certificate else None)


_CREDENTIALS: Final = (
    "sasl.username",
    "sasl.jaas.config",
    URL,
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.certificate.location",
    "ssl.certificate.pem",
)


def _check_protocol(given: _Values, provider: object) -> None:
    """Refuse credentials without a security protocol: the user expects a secured connection."""
    for name in _CREDENTIALS:
        if given.text(name):
            wanted = "SASL_SSL" if name.startswith("sasl.") else "SSL or SASL_SSL"
            raise UsageError(f"{name} is set, but security.protocol is PLAINTEXT; set it to {wanted}.")
    if provider is not None:
        raise UsageError(f"{TOKEN_PROVIDER} is set, but security.protocol is PLAINTEXT; set it to SASL_SSL.")


def _tls(given: _Values) -> ClientTls:
    trust = KeyMaterial(
        "ssl.ca.location" if given.text("ssl.ca.location") else "ssl.truststore.location",
        given.text("ssl.truststore.location", "ssl.ca.location"),
        given.text("ssl.truststore.certificates", "ssl.ca.pem"),
        given.text("ssl.truststore.password"),
    )
    key_password = given.text("ssl.key.password")
    certificate = KeyMaterial(
        "ssl.certificate.location" if given.text("ssl.certificate.location") else "ssl.keystore.location",
        given.text("ssl.keystore.location", "ssl.certificate.location"),
        given.text("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        given.text("ssl.keystore.password") or key_password,
    )
    key = KeyMaterial(
        "ssl.key.location",
        given.text("ssl.key.location"),
        given.text("ssl.keystore.key", "ssl.key.pem"),
        key_password,
    )
    return ClientTls(
        trust=trust,
        certificate=certificate,
        key=key,
        verify=given.flag("enable.ssl.certificate.verification"),
        check_hostname=given.text("ssl.endpoint.identification.algorithm").lower() == "https",
        versions=given.words("ssl.enabled.protocols"),
    )


# --- SASL -------------------------------------------------------------------------------------------------------------

_MODULES: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": tuple(scram.value for scram in ScramAlgorithm),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "Krb5LoginModule": ("GSSAPI",),
}


def _mechanism(given: _Values, provider: object, trust: KeyMaterial) -> ClientSaslMechanism:
    jaas = given.text("sasl.jaas.config")
    module = parse_jaas(jaas) if jaas else None
    name = given.text("sasl.mechanism", "sasl.mechanisms").upper()
    if module is not None:
        if module.name not in _MODULES:
            raise UsageError(
                f"sasl.jaas.config has the login module {module.name}, which this client does not have; use one of "
                f"{', '.join(_MODULES)}."
            )
        known = _MODULES[module.name]
        name = name or (known[0] if len(known) == 1 else "")
        if name and name not in known:
            raise UsageError(f"sasl.mechanism = {name} does not match {module.name} in sasl.jaas.config.")
    match name:
        case "":
            raise UsageError(f"sasl.mechanism is not set; use one of {', '.join(CLIENT_SASL_MECHANISMS)}.")
        case "OAUTHBEARER":
            return _oauthbearer(given, module, provider, trust)
        case "PLAIN":
            return PlainMechanism(*_user(given, module, name))
        case ScramAlgorithm.SHA_256.value | ScramAlgorithm.SHA_512.value:
            is_token = module is not None and module.options.get("tokenauth", "").lower() == "true"
            return ScramMechanism(ScramAlgorithm(name), *_user(given, module, name), is_token)
        case "GSSAPI":
            return _gssapi(given, module)
        case "AWS_MSK_IAM":
            raise UsageError(
                f"sasl.mechanism = {name} is a Java plug-in; use OAUTHBEARER and {TOKEN_PROVIDER} with Amazon's token "
                "signer (docs/secured-clusters.md)."
            )
    raise UsageError(f"sasl.mechanism = {name} is unknown; use one of {', '.join(CLIENT_SASL_MECHANISMS)}.")


def _user(given: _Values, module: LoginModule | None, mechanism: str) -> tuple[str, str]:
    options = module.options if module is not None else {}
    username = options.get("username") or given.text("sasl.username")
    password = options.get("password") or given.text("sasl.password")
    if not username or not password:
        missing = "sasl.username" if not username else "sasl.password"
        raise UsageError(f"sasl.mechanism = {mechanism} needs {missing}; set it, or sasl.jaas.config.")
    return username, password


def _gssapi(given: _Values, module: LoginModule | None) -> GssapiMechanism:
    options = module.options if module is not None else {}

    def is_true(name: str) -> bool:
        return options.get(name, "").lower() == "true"

    principal = options.get("principal") or given.text(PRINCIPAL)
    keytab = (options.get("keyTab") if is_true("useKeyTab") else "") or given.text(KEYTAB)
    ticket_cache = options.get("ticketCache", "") if is_true("useTicketCache") else ""
    service = options.get("serviceName") or given.text(SERVICE_NAME)
    login = KerberosLogin.load(service, principal=principal, keytab=keytab, ticket_cache=ticket_cache)
    return GssapiMechanism(login, principal)


def _oauthbearer(
    given: _Values, module: LoginModule | None, provider: object, trust: KeyMaterial
) -> OAuthBearerMechanism:
    options = module.options if module is not None else {}
    handler = given.text("sasl.login.callback.handler.class")
    if handler and not handler.endswith(_OIDC_CALLBACK):
        raise UsageError(
            f"sasl.login.callback.handler.class = {handler} is a Java class; set {TOKEN_PROVIDER} to a Python function."
        )
    extensions = {
        name.removeprefix("extension_"): value for name, value in options.items() if name.startswith("extension_")
    }
    for pair in filter(None, given.text("sasl.oauthbearer.extensions").split(",")):
        name, equals, value = pair.strip().partition("=")
        if not equals:
            raise UsageError("sasl.oauthbearer.extensions has a part without `=`; write name=value,name=value.")
        extensions[name] = value
    named = given.text(TOKEN_PROVIDER)
    url = given.text(URL)
    if provider is not None or named:
        return OAuthBearerMechanism(_provider(provider or named), extensions)
    if not url:
        raise UsageError(f"sasl.mechanism = OAUTHBEARER needs {TOKEN_PROVIDER} or {URL}; set one of them.")
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{URL} = {url} is not an address of a web server; write https://...")
    client_id = given.text(_CLIENT_ID, "sasl.oauthbearer.client.id") or options.get("clientId", "")
    secret = given.text(_CLIENT_SECRET, "sasl.oauthbearer.client.secret") or options.get("clientSecret", "")
    if not client_id or not secret:
        raise UsageError(f"{URL} needs a client id and a client secret; set {_CLIENT_ID} and {_CLIENT_SECRET}.")
    scope = given.text("sasl.oauthbearer.scope") or options.get("scope", "")
    return OAuthBearerMechanism(ClientCredentials(url, client_id, secret, scope, _endpoint_context(trust)), extensions)


def _endpoint_context(trust: KeyMaterial) -> Callable[[], ssl.SSLContext]:
    """Return the TLS context of the token endpoint: public authorities, and those of the cluster."""

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context()
        if trust.given:
            load_trust(context, trust)
        return context

    return make


def _provider(given: object) -> TokenProvider:
    function = given
    if isinstance(given, str):
        module, colon, name = given.partition(":")
        if not colon:
            raise UsageError(f"{TOKEN_PROVIDER} = {given} is not a function; write module:function.")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            is_missing = isinstance(error, ModuleNotFoundError) and error.name == module
            hint = f" Add the directory of {module}.py to PYTHONPATH." if is_missing else ""
            raise UsageError(f"{TOKEN_PROVIDER} = {given} cannot be imported: {error}.{hint}") from error
        except Exception as error:
            raise UsageError(f"{TOKEN_PROVIDER} = {given} cannot be imported: {type(error).__name__}.") from error
    if not callable(function):
        raise UsageError(f"{TOKEN_PROVIDER} is {type(function).__name__}; pass a Python function without arguments.")
    return function
