"""Where messages live: Kafka, or files of Kafka-shaped records. Knows nothing of what is in them."""

from tidecast.topics._base import Mark, Records, TopicInfo, Topics
from tidecast.topics._dead_letters import append_lines, refuse_dead_letters, write_dead_letters
from tidecast.topics._kafka import kafka_errors
from tidecast.topics._kafka_options import KafkaOptions
from tidecast.topics._open import open_topics

__all__ = [
    "KafkaOptions",
    "Mark",
    "Records",
    "TopicInfo",
    "Topics",
    "append_lines",
    "kafka_errors",
    "open_topics",
    "refuse_dead_letters",
    "write_dead_letters",
]
