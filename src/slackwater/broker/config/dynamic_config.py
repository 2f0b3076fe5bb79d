"""What AlterConfigs set for the broker, remembered across restarts.

Rules kept here
- One small file, replaced as a whole: after a crash the old settings hold or the new ones.
- A setting in it that cannot be any more is one sentence at the start, as if it stood on the command line.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from slackwater.broker.config.broker import BROKER_SETTINGS
from slackwater.broker.config.store import Settings, find_setting
from slackwater.broker.storage.log.files import replace_file
from slackwater.group.errors import UsageError
from slackwater.settings import Value, format_value

FILE: Final = "settings.json"


def load(directory: Path, settings: Settings) -> None:
    """Put what was remembered into force."""
    path = directory / FILE
    if not path.exists():
        return
    try:
        found = json.loads(path.read_bytes())
        cluster, broker = (_parse(found[layer]) for layer in ("cluster", "broker"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} cannot be read as settings. Mend it, or remove it to go back to the settings of the start."
        ) from error
    settings.set_dynamic(cluster, broker)
    settings.check()


def save(directory: Path, cluster: Mapping[str, Value], broker: Mapping[str, Value]) -> None:
    """Remember these."""
    rows = {"cluster": _texts(cluster), "broker": _texts(broker)}
    replace_file(directory / FILE, json.dumps(rows, indent=1).encode(), sync=True)


def _parse(texts: Mapping[str, str]) -> dict[str, Value]:
    return {name: find_setting(BROKER_SETTINGS, name).parse(text) for name, text in texts.items()}


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: format_value(value) for name, value in values.items()}
