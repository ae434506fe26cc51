"""Configuration of the kube-scheduler of a worker cluster.

Memory and compute of a card are no resource that a node counts: HAMi's installation has the
scheduler ignore them, and so does this one, which binds pods whose cards the agent has chosen.
"""

from __future__ import annotations

from pathlib import Path

from federation.api import yaml_text
from federation.edge.files import write_atomic

IGNORED = (
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/gpu-memory",
    "nvidia.com/gpu-core-percent",
    "nvidia.com/priority",
)
"""Of nvidia.com/gpu the device plugin shows cards times slots, which the scheduler counts."""

CLIENT_QPS, CLIENT_BURST = 500, 1000
"""Above what one API server of a small machine serves: the rig must not be the limit."""


def write_scheduler_config(path: Path, kubeconfig: Path) -> Path:
    """Write it; an equal file is left as it is."""
    fit = {"ignoredResources": list(IGNORED)}
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(kubeconfig),
            "qps": CLIENT_QPS,
            "burst": CLIENT_BURST,
        },
        # One replica: an election would only add seconds to the start and writes afterwards.
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}],
            }
        ],
    }
    text = yaml_text.dump(content)
    if not path.exists() or path.read_text() != text:
        write_atomic(path, text)
    return path
