"""Schema Registry: Confluent's HTTP API, and the same on a folder."""

from tidecast.registry._base import Registry, subject_for
from tidecast.registry._open import open_registry

__all__ = ["Registry", "open_registry", "subject_for"]
