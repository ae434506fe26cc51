"""The agent on a worker cluster: admits what was mirrored and what was submitted locally.

Contract: no Ray, no Redis; it needs only its own API server and a Lease on the management one.
"""
