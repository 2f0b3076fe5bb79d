"""The broker settings that AlterConfigs changed, stored across restarts.

Invariants:
- One small file, replaced atomically: after a crash the old or the new settings apply.
- A stored setting that is no longer valid is a `UsageError` at the start.
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
    """Read the stored settings and apply them."""
    path = directory / FILE
    if not path.exists():
        return
    try:
        stored = json.loads(path.read_bytes())
        cluster, broker = (_parse(stored[layer]) for layer in ("cluster", "broker"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"Cannot parse the settings in {path}. Repair the file, or remove it to use the settings of the start."
        ) from error
    settings.set_dynamic(cluster, broker)
    settings.check()


def save(directory: Path, cluster: Mapping[str, Value], broker: Mapping[str, Value]) -> None:
    """Store the settings."""
    rows = {"cluster": _texts(cluster), "broker": _texts(broker)}
    replace_file(directory / FILE, json.dumps(rows, indent=1).encode(), sync=True, mode=0o600)  # it may have passwords


def _parse(texts: Mapping[str, str]) -> dict[str, Value]:
    return {name: find_setting(BROKER_SETTINGS, name).parse(text) for name, text in texts.items()}


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: format_value(value) for name, value in values.items()}
