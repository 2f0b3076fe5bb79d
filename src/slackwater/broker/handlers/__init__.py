"""One file per API: what its versions differ in, settled on the way in and on the way out.

`handler` says what such a file holds. A file is imported when its API is first asked for, which keeps the start short.
"""

import re
from importlib import import_module
from typing import Final

from slackwater.broker.handlers.handler import Handler
from slackwater.wire import apis
from slackwater.wire.apis import Api

ANSWERED: Final[tuple[Api, ...]] = (
    apis.HEARTBEAT,
    apis.API_VERSIONS,
)
"""What the broker answers, and advertises."""


def load(api: Api) -> Handler:
    """The handler of an API."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api.name).lower()
    module = import_module(f"{__name__}.{name}")
    return Handler(api, module.handle, module.refuse)


__all__ = ["ANSWERED", "Handler", "load"]
