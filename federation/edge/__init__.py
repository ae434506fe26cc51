"""One module per outside system: the Kubernetes API, Redis, settings, logs and metrics.

Contract: everything that waits, connects or reads a clock is here or in the programs above.
"""
