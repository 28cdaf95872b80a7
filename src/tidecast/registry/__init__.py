"""Schema Registry: Confluent's HTTP API, and the same on a folder."""

from tidecast.registry._base import Registry, bounded_json, subject_for
from tidecast.registry._open import open_registry

__all__ = ["Registry", "bounded_json", "open_registry", "subject_for"]
