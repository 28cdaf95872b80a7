"""Debezium's envelope as Avro, with a registry: bytes to events, events to bytes."""

from tidecast.protocols.debezium.avro._protocol import PROTOCOL

__all__ = ["PROTOCOL"]
