"""Replays decisions recorded from real peers: `python -m bench.conformance KIND FILE…`."""
