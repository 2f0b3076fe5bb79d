"""All line templates, in the order in which they are tried.

Invariants:
- The first family with a marker in the line is used, so the families of the most frequent lines come first.
"""

from typing import Final

from slackwater.doctor.templates.application import APPLICATIONS
from slackwater.doctor.templates.brod import BROD
from slackwater.doctor.templates.broker import BROKER_AND_TOPICS, COORDINATOR, GROUP_METADATA
from slackwater.doctor.templates.connect import CONNECT, STREAMS
from slackwater.doctor.templates.franz_go import FRANZ_GO, KAFKA_GO
from slackwater.doctor.templates.java import BROKER_PRINTED, JAVA_CONSUMER, JAVA_PROCESS, JAVA_SETTINGS, JAVA_TEXT
from slackwater.doctor.templates.java_legacy import JAVA_LEGACY, SPRING
from slackwater.doctor.templates.kafkajs import KAFKAJS, KAFKAJS_TEXT
from slackwater.doctor.templates.librdkafka import LIBRDKAFKA, LIBRDKAFKA_TEXT
from slackwater.doctor.templates.protocol_errors import PROTOCOL_ERRORS
from slackwater.doctor.templates.python import ANY_CLIENT, PYTHON, PYTHON_ERRORS
from slackwater.doctor.templates.redpanda import REDPANDA
from slackwater.doctor.templates.ruby_kafka import RUBY_KAFKA
from slackwater.doctor.templates.sarama import SARAMA
from slackwater.doctor.templates.wording import Family

FAMILIES: Final[tuple[Family, ...]] = (
    COORDINATOR,
    JAVA_CONSUMER,
    LIBRDKAFKA,
    GROUP_METADATA,
    BROKER_AND_TOPICS,
    REDPANDA,
    PYTHON,
    KAFKAJS,
    SARAMA,
    RUBY_KAFKA,
    JAVA_PROCESS,
    JAVA_SETTINGS,
    BROKER_PRINTED,
    JAVA_LEGACY,
    STREAMS,
    CONNECT,
    PYTHON_ERRORS,
    APPLICATIONS,
    KAFKAJS_TEXT,
    LIBRDKAFKA_TEXT,
    KAFKA_GO,
    BROD,
    SPRING,
    JAVA_TEXT,
    ANY_CLIENT,
    FRANZ_GO,
    PROTOCOL_ERRORS,
)
