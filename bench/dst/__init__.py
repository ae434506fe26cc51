"""Deterministic simulation of the whole system: real manager, real agents, fake API servers.

`python -m bench.dst --seeds A..B` runs one federation for each seed, in one process and on virtual
time, with faults drawn from the seed; prints a line for each violated invariant and exits with 1
if there is any. `--trace SEED` prints what happened.

What is real: everything in federation, manager and worker_agent except the transport of the kube
client, Redis and Ray. What is played: API servers (tests.fakes, held to real ones by
tests/contract; that is why a benchmark imports tests), the network, Job controllers with kubelets,
people, clocks.
"""
