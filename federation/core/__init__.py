"""Pure decisions: quotas, queueing, the admission cycle, dispatch and the life of one Workload.

Contract: standard library only, frozen dataclasses, no I/O, no clock, no randomness. Time and
seeds are arguments, so every decision can be replayed.
"""
