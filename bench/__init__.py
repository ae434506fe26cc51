"""Benchmarks; each runs as `python -m bench.NAME` and prints one JSON object with --json."""
