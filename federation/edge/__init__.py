"""One module per outside system: the Kubernetes API, Redis, logs, the web.

Contract: everything that waits, connects or reads a clock is here or in the programs above.
"""
