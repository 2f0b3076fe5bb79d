"""Option names of source and sink: in any case, client settings with the prefix `kafka.`, and the nearest known name.

Invariants:
- An error has one sentence: the option, and what to use instead.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from slackwater.client.network.cluster import parse_bootstrap
from slackwater.group.errors import UsageError
from slackwater.settings import Setting, Value
from slackwater.spark.clients.settings import parse_kafka

PREFIX: Final = "kafka."
SERVERS: Final = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class OptionNames:
    """The options that the source or the sink knows."""

    program: str
    """`source` or `sink`."""
    page: str
    """The page of the docs with all options."""
    options: Mapping[str, Setting]
    """Options by lower-case name."""
    client_settings: Mapping[str, Setting]
    rejected: Mapping[str, str]
    """Client settings that are controlled by the program, with the alternative."""
    ignored: Collection[str] = ()
    """Lower-case names that Spark adds."""

    def separate(self, options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the client settings without the prefix, and the options by lower-case name."""
        kafka: dict[str, str] = {}
        texts: dict[str, str] = {}
        for name, text in options.items():
            lowered = name.lower()
            if lowered.startswith(PREFIX):
                kafka[lowered.removeprefix(PREFIX)] = text
            elif lowered in self.options:
                texts[lowered] = text
            elif lowered not in self.ignored:
                raise UsageError(f"{name} is not an option of this {self.program}; {self._suggestion(lowered)}")
        return kafka, texts

    def parse_client(self, kafka: Mapping[str, str]) -> dict[str, Value]:
        """Parse the client settings; rejected ones and missing servers are errors."""
        for name, instead in self.rejected.items():
            if name in kafka:
                raise UsageError(f"{PREFIX}{name} cannot be set for this {self.program}: {instead}")
        if not kafka.get(SERVERS, "").strip():
            raise UsageError(f"{PREFIX}{SERVERS} is missing; use host:port,host:port.")
        try:
            values = parse_kafka(kafka, self.client_settings)
            servers = values[SERVERS]
            assert isinstance(servers, tuple)
            parse_bootstrap(servers)
        except UsageError as error:
            raise UsageError(PREFIX + str(error).replace("did you mean ", f"did you mean {PREFIX}")) from None
        return values

    def _suggestion(self, lowered: str) -> str:
        candidates = {known: setting.name for known, setting in self.options.items()}
        candidates |= {PREFIX + name: PREFIX + name for name in self.client_settings}
        candidates |= {name: PREFIX + name for name in self.client_settings}
        matches = get_close_matches(lowered, candidates, n=1)
        return f"did you mean {candidates[matches[0]]}?" if matches else f"see {self.page}."
