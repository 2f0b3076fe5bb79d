"""Finds out whether a port that closed the connection uses TLS.

A broker closes a connection that begins with the wrong protocol, without an answer. After such a failure, and only
then, the client connects once in the other protocol, sends only its first message, and closes the connection.
"""

import asyncio
import ssl
from typing import Final

from slackwater.version import __version__
from slackwater.wire.apis import API_VERSIONS
from slackwater.wire.messages.api_versions import ApiVersionsRequest
from slackwater.wire.request_response import encode_request

MAX_PROBE_S: Final = 2.0
_MAX_SIZE: Final = 1 << 20
# A TLS alert (type 21, version 3.x, length 2) reads as the size of a response.
ALERT_SIZES: Final = range(0x15030000, 0x15030500)


async def is_plaintext(host: str, port: int, timeout_s: float) -> bool:
    """Whether the port answers ApiVersions without TLS."""
    request = ApiVersionsRequest(client_software_name="slackwater", client_software_version=__version__)
    try:
        async with asyncio.timeout(min(timeout_s, MAX_PROBE_S)):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(encode_request(request, API_VERSIONS.latest_stable, 0, "slackwater"))
                size = int.from_bytes(await reader.readexactly(4))
                return 4 <= size <= _MAX_SIZE
            finally:
                writer.transport.abort()  # its loop may end next
    except (OSError, EOFError, TimeoutError):
        return False


async def expects_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether the port answers a TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: only the answer's protocol counts
    try:
        async with asyncio.timeout(min(timeout_s, MAX_PROBE_S)):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
            writer.transport.abort()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, EOFError, TimeoutError):
        return False
    return True
