"""Bytes and events, a folder per protocol."""
