"""All line templates, in the order in which they are tried.

Invariants:
- The first family with a marker in the line is used, so the families of the most frequent lines come first.
"""

from typing import Final

from slackwater.doctor.templates.application import APPLICATIONS
from slackwater.doctor.templates.broker import BROKER_AND_TOPICS, COORDINATOR, GROUP_METADATA
from slackwater.doctor.templates.java import BROKER_PRINTED, JAVA_CONSUMER, JAVA_PROCESS, JAVA_SETTINGS
from slackwater.doctor.templates.kafkajs import KAFKAJS
from slackwater.doctor.templates.librdkafka import LIBRDKAFKA
from slackwater.doctor.templates.python import ANY_CLIENT, PYTHON, PYTHON_ERRORS
from slackwater.doctor.templates.sarama import SARAMA
from slackwater.doctor.templates.wording import Family

FAMILIES: Final[tuple[Family, ...]] = (
    COORDINATOR,
    JAVA_CONSUMER,
    LIBRDKAFKA,
    GROUP_METADATA,
    BROKER_AND_TOPICS,
    PYTHON,
    KAFKAJS,
    SARAMA,
    JAVA_PROCESS,
    JAVA_SETTINGS,
    BROKER_PRINTED,
    PYTHON_ERRORS,
    APPLICATIONS,
    ANY_CLIENT,
)
