"""The manager: watches the management cluster, runs the core, owns dispatch and status.

Contract: the only writer of Workloads on the management cluster; `ray` only in `ray_runtime`.
"""
