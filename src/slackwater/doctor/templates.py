"""Every line template, in the order in which a line is tried.

Rules kept here
- The first family with a marker in the line has it; so the families that most lines of a log belong to come first.
"""

from typing import Final

from slackwater.doctor.application_lines import APPLICATIONS
from slackwater.doctor.broker_lines import COORDINATOR, GROUP_METADATA, SURROUNDINGS
from slackwater.doctor.java_lines import BROKER_PRINTED, JAVA_CONSUMER, JAVA_PROCESS, JAVA_SETTINGS
from slackwater.doctor.kafkajs_lines import KAFKAJS
from slackwater.doctor.librdkafka_lines import LIBRDKAFKA
from slackwater.doctor.python_lines import ANY_CLIENT, PYTHON, PYTHON_ERRORS
from slackwater.doctor.sarama_lines import SARAMA
from slackwater.doctor.wording import Family

FAMILIES: Final[tuple[Family, ...]] = (
    COORDINATOR,
    JAVA_CONSUMER,
    LIBRDKAFKA,
    GROUP_METADATA,
    SURROUNDINGS,
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
