"""Real processes for pods: what a kubelet and its containers are, as far as drills need them.

A worker cluster of the rig has no kubelets: kwok writes the statuses of pods, and nothing runs. A
pod with the label `fedq.io/process: "true"` is left alone by kwok; the runner of its cluster
(`python -m fedq.rig.podrunner`) starts a small process for it that keeps a history of itself, and
does with pod and process what a kubelet would: it goes on when the API server is down.
"""
