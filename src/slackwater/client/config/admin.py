"""The settings of the admin client: those of every client."""

from typing import Final

from slackwater.client.config.common import COMMON
from slackwater.settings import Setting

ADMIN_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in COMMON}
