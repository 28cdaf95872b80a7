"""Schema Registry: Confluent's HTTP API, the same on a folder, and AWS Glue."""

from tidecast.registry._base import (
    CONFLUENT,
    FRAMINGS,
    Framing,
    RegisteredSchema,
    Registry,
    SchemaId,
    bounded_json,
    framing_of,
    header,
    subject_for,
)
from tidecast.registry._glue import check_glue_url, glue_url
from tidecast.registry._open import open_registry

__all__ = [
    "CONFLUENT",
    "FRAMINGS",
    "Framing",
    "RegisteredSchema",
    "Registry",
    "SchemaId",
    "bounded_json",
    "check_glue_url",
    "framing_of",
    "glue_url",
    "header",
    "open_registry",
    "subject_for",
]
