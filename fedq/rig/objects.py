"""Objects that every worker cluster of a rig starts with: kwok's role and the GPU nodes."""

from __future__ import annotations

from typing import Any

from fedq.rig.api import Endpoint
from fedq.rig.gpus import cards, register

GPU_PRODUCT = "NVIDIA-A100-SXM4-40GB"
CAPACITY = {"cpu": "96", "memory": "1Ti", "pods": "500", "nvidia.com/gpu": "8"}
"""What one node offers; no kubelet takes a share of it, so all is allocatable."""

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_RULES: list[dict[str, list[str]]] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "list", "watch", "patch", "update", "delete"],
    },
    {
        "apiGroups": [""],
        "resources": ["nodes/status", "pods/status"],
        "verbs": ["patch", "update"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "patch", "update"],
    },
]


def grant_kwok(api: Endpoint) -> None:
    """Let the user of kwok play kubelet: pods, node status and node leases. Idempotent."""
    name = "fedq-rig-kwok"
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    api.apply(f"{_RBAC}/clusterroles/{name}", {**kind, "kind": "ClusterRole", "rules": _RULES})
    group = "rbac.authorization.k8s.io"
    api.apply(
        f"{_RBAC}/clusterrolebindings/{name}",
        {
            **kind,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "system:kwok"}],
        },
    )


def create_nodes(api: Endpoint, cluster: str, count: int, *, shared: bool = False) -> None:
    """Create the GPU nodes that are missing; those that exist stay as they are."""
    for index in range(count):
        api.create("/api/v1/nodes", gpu_node(cluster, index, shared=shared))


def gpu_node(cluster: str, index: int, *, shared: bool = False) -> dict[str, Any]:
    """One node with eight cards, as a device plugin and GPU feature discovery would show it;
    `shared`: as HAMi's plugin registers cards that several containers may have parts of.
    """
    name = f"{cluster}-gpu-{index}"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "nvidia.com/gpu.count": "8",
                "nvidia.com/gpu.memory": "40960",
                "nvidia.com/gpu.product": GPU_PRODUCT,
                "type": "kwok",
            },
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "allocatable": CAPACITY,
            "capacity": CAPACITY,
        },
    }
    return register(node, cards(name)) if shared else node
