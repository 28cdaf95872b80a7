"""Benchmarks. Each is a program: `python -m bench.avro_checksum`."""
