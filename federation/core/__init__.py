"""Pure decisions: quotas, queueing, the admission cycle, dispatch and the life of one Workload.

Contract: standard library only, no I/O, no clock, no randomness. Time and seeds are arguments, so
every decision can be replayed. Values are frozen dataclasses; two things change in place, the
quota tree and the index in memory.
"""
