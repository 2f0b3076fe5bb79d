"""SASL GSSAPI of a client: Kerberos through the package `gssapi`.

Invariants:
- Requests to the KDC block, so they run in another thread.
- Every authentication acquires credentials again. With a keytab, the Kerberos library requests a new ticket when the
  present one has expired; with a ticket cache, it reads the ticket that kinit has renewed.
- The tickets of a keytab are kept in memory and do not change the ticket cache of the user.
"""

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from slackwater.group.errors import UsageError
from slackwater.security.errors import SaslAuthenticationError
from slackwater.security.gssapi import choose_no_layer

if TYPE_CHECKING:
    from slackwater.client.network.authentication import Exchange

A = TypeVar("A")
T = TypeVar("T")
GSSAPI: Final = "GSSAPI"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
PRINCIPAL: Final = "sasl.kerberos.principal"
KEYTAB: Final = "sasl.kerberos.keytab"
KDC_TIMEOUT_S: Final = 8.0  # below socket.connection.setup.timeout.ms, whose error would name the broker


class SecurityContext(Protocol):
    """The client's half of a security context; a `gssapi.SecurityContext`."""

    @property
    def complete(self) -> bool:
        """Whether both sides have authenticated each other."""
        ...

    @property
    def initiator_name(self) -> object:
        """The principal of the client, with its realm."""
        ...

    def step(self, token: bytes | None) -> bytes | None:
        """Process a token of the broker; return the next token for it."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Sign a message."""
        ...

    def unwrap(self, message: bytes) -> bytes:
        """Check the signature of a message and return its content."""
        ...


class GssapiMechanism:
    """GSSAPI."""

    name = GSSAPI

    def __init__(
        self, open_context: Callable[[str], SecurityContext], principal: str, timeout_s: float = KDC_TIMEOUT_S
    ) -> None:
        """`open_context` begins a context with the broker of this host name."""
        self._open_context = open_context
        self._timeout_s = timeout_s
        self.principal = principal

    @property
    def acl_principal(self) -> str:
        """The Kerberos principal; the broker's `sasl.kerberos.principal.to.local.rules` make the user name of it."""
        return f"the Kerberos principal {self.principal}" if self.principal else ""

    async def run(self, exchange: "Exchange", host: str) -> None:
        """Establish a security context, and decline security layers."""
        context = await self._ask_kdc(self._open_context, host)
        token = await self._ask_kdc(context.step, None)
        answer = await exchange(token or b"")
        while not context.complete:
            token = await self._ask_kdc(context.step, answer)
            answer = await exchange(token or b"")
        self.principal = str(context.initiator_name)
        await exchange(context.wrap(choose_no_layer(context.unwrap(answer))))

    async def _ask_kdc(self, call: Callable[[A], T], argument: A) -> T:
        """Call a function that may send requests to the KDC."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.to_thread(call, argument)
        except TimeoutError:
            raise SaslAuthenticationError(
                f"sasl.mechanism = GSSAPI: no KDC answered within {self._timeout_s:g} s. "
                f"{_HINTS['Cannot contact any KDC']}."
            ) from None


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Opens contexts with the tickets of a principal: those of a keytab, of a ticket cache, or of the default cache."""

    service: str
    principal: str = ""
    keytab: str = ""
    ticket_cache: str = ""
    _library: Any = field(default=None, repr=False)

    @classmethod
    def load(cls, service: str, *, principal: str = "", keytab: str = "", ticket_cache: str = "") -> "KerberosLogin":
        """Load the Kerberos library."""
        if keytab:
            try:
                Path(keytab).open("rb").close()
            except OSError as error:
                raise UsageError(f"{KEYTAB} = {keytab} cannot be read: {error.strerror}.") from error
        try:
            library = importlib.import_module("gssapi")
        except ImportError:
            raise UsageError(
                "sasl.mechanism = GSSAPI needs the package `gssapi`, which is missing; install slackwater[kerberos]."
            ) from None
        return cls(service, principal, keytab, ticket_cache, library)

    def __call__(self, host: str) -> SecurityContext:
        """Begin a context with the broker of this host name."""
        gssapi = self._library
        broker = f"{self.service}@{host}"
        try:
            principal = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal) if self.principal else None
            credentials = gssapi.Credentials(
                name=principal, usage="initiate", mechs=[gssapi.MechType.kerberos], store=self._store()
            )
            context = gssapi.SecurityContext(
                name=gssapi.Name(broker, gssapi.NameType.hostbased_service),
                creds=credentials,
                mech=gssapi.MechType.kerberos,
                flags=[gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity],
                usage="initiate",
            )
        except gssapi.exceptions.GSSError as error:
            raise self._failure(error, host) from error
        return _Context(context, gssapi.exceptions.GSSError, lambda error: self._failure(error, host))

    def _store(self) -> dict[str, str] | None:
        if self.keytab:
            cache = f"MEMORY:slackwater {self.keytab} {self.principal}"
            return {"client_keytab": f"FILE:{self.keytab}", "ccache": cache}
        return {"ccache": self.ticket_cache} if self.ticket_cache else None

    def _failure(self, error: Exception, host: str) -> SaslAuthenticationError:
        """Return one sentence about an error of the Kerberos library: what is wrong, and what to change."""
        reason = _reason(error)
        hints = _KEYTAB_HINTS if self.keytab else _CACHE_HINTS
        hint = next((hint for text, hint in (_HINTS | hints).items() if text in reason), "Check the Kerberos settings")
        values = {"service": self.service, "host": host, "keytab": self.keytab, "principal": self.principal or "unset"}
        return SaslAuthenticationError(f"sasl.mechanism = GSSAPI: {reason.rstrip('.')}. {hint.format(**values)}.")


_HINTS: Final = {
    "Clock skew": "Correct the clock of this machine, or that of the KDC",
    "Server ": f"{SERVICE_NAME} = {{service}} and the host name {{host}} must be those of the broker's principal",
    "Cannot find KDC": "Check the realm in krb5.conf",
    "Cannot contact any KDC": "Check the address of the KDC in krb5.conf, and the network",
}
_KEYTAB_HINTS: Final = {
    "No credentials cache": f"The keytab {{keytab}} has no key of {PRINCIPAL} = {{principal}}",
    "Client ": f"The KDC does not know {PRINCIPAL} = {{principal}}",
    "Decrypt integrity check failed": "The keytab {keytab} has an old key; export it again",
    "Preauthentication failed": "The keytab {keytab} has an old key; export it again",
}
_GET_TICKET: Final = f"Run kinit, or set {KEYTAB} and {PRINCIPAL}"
_CACHE_HINTS: Final = dict.fromkeys(
    ("No Kerberos credentials", "No credentials cache", "xpired", "Can't find"), _GET_TICKET
)


class _Context:
    """A context of the library, with errors as sentences."""

    def __init__(
        self, context: SecurityContext, library_error: type[Exception], failure: Callable[[Exception], Exception]
    ) -> None:
        self._context: Any = context
        self._library_error = library_error
        self._failure = failure

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator_name(self) -> object:
        return self._call(lambda: self._context.initiator_name)

    def step(self, token: bytes | None) -> bytes | None:
        def step() -> bytes | None:
            answer: bytes | None = self._context.step(token)
            return answer

        return self._call(step)

    def wrap(self, message: bytes) -> bytes:
        return self._call(lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return self._call(lambda: bytes(self._context.unwrap(message).message))

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except self._library_error as error:
            raise self._failure(error) from error


def _reason(error: Any) -> str:
    """Return the messages of Kerberos, or those of GSSAPI if there are none."""
    minor = error.get_all_statuses(error.min_code, False) if error.min_code else []
    texts = [text for text in minor if text] or error.get_all_statuses(error.maj_code, True)
    return ": ".join(texts)
