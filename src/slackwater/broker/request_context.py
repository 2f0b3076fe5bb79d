"""One request between a connection and the handler of its API."""

from typing import TYPE_CHECKING

from slackwater.wire.encoder_generator import Piece
from slackwater.wire.request_response import RequestHeader, encode_response, response_pieces
from slackwater.wire.schema import Response

if TYPE_CHECKING:
    from slackwater.broker.connection import Connection


class RequestContext:
    """One request in progress; a handler sends the response through it."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "received_at", "response", "version")

    def __init__(self, connection: "Connection", header: RequestHeader, received_at: float) -> None:
        self.connection = connection
        self.api_key, self.version, self.correlation_id, self.client_id = header
        self.received_at = received_at  # arrival of the last byte, on the monotonic clock
        self.response: bytes | list[Piece] | None = None  # the encoded frame; None until there is a response

    @property
    def host(self) -> str:
        """The client's address as Kafka shows it."""
        return self.connection.host

    @property
    def principal(self) -> str:
        """Who sends the request, for example "User:alice"."""
        return self.connection.principal

    @property
    def listener_name(self) -> str:
        """The name of the listener that the client connected to."""
        return self.connection.listener_name

    def respond(self, response: Response) -> None:
        """Encode and send the response."""
        self.response = frame = encode_response(response, self.version, self.correlation_id)
        self.connection.response_ready(len(frame))

    def respond_encoded(self, frame: bytes) -> None:
        """Send a response that is already encoded."""
        self.response = frame
        self.connection.response_ready(len(frame))

    def respond_with_records(self, response: Response) -> None:
        """Send a response that contains records, without copying the records into one buffer."""
        self.response = pieces = response_pieces(response, self.version, self.correlation_id)
        self.connection.response_ready(sum(map(len, pieces)))

    def skip_response(self) -> None:
        """Complete a request that has no response (Produce with acks=0)."""
        self.respond_encoded(b"")
