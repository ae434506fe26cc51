"""The guard of a node: kills what may not outlive the lease of its cluster (tier B).

It needs neither the agent nor the kubelet nor any API server to be up: when the deadline that it
was told has passed, it looks through /proc for the runs that have to stop, and ends them.
`decision` is pure; `processes`, `cgroups` and `notices` are one outside thing each; `killing` and
`watch` put them together. `python -m worker_agent.guard` runs it.
"""
