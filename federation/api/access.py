"""What joining a worker cluster writes on the management cluster, as plain manifests."""

import base64
import re
from typing import Any, Final

from federation.api.fields import DNS_SUBDOMAIN_PATTERN
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY, KUEUE_API

Json = dict[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"
_LONGEST: Final = 240
"""Longest cluster name: `agent-` before it and `-kubeconfig` behind it must fit 253 characters."""


def agent_account(cluster: str) -> str:
    """Name of the agent's ServiceAccount on the management cluster."""
    return f"agent-{cluster}"


def kubeconfig_secret(cluster: str) -> str:
    """Name of the Secret with the kubeconfig by which the manager reaches the cluster."""
    return f"{cluster}-kubeconfig"


def agent_access(cluster: str) -> list[Json]:
    """ServiceAccount, Role and RoleBinding of a cluster's agent: its own Lease, nothing else.

    The Lease has the cluster's name and is created by the manager; the agent may only renew it.
    Raises ValueError if the cluster's name cannot be an object's name.
    """
    name = agent_account(_checked(cluster))
    metadata = {"name": name, "namespace": FEDQ_NAMESPACE}
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [cluster],
        "verbs": ["get", "update", "patch"],
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(metadata)},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": dict(metadata),
            "rules": [rule],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": dict(metadata),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [
                {"kind": "ServiceAccount", "name": name, "namespace": FEDQ_NAMESPACE},
            ],
        },
    ]


def cluster_registration(cluster: str, kubeconfig: str) -> list[Json]:
    """The Secret with the kubeconfig (YAML text) and the MultiKueueCluster that names it.

    Raises ValueError if the cluster's name cannot be an object's name.
    """
    secret = kubeconfig_secret(_checked(cluster))
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret, "namespace": FEDQ_NAMESPACE},
            "type": "Opaque",
            "data": {KUBECONFIG_KEY: base64.b64encode(kubeconfig.encode()).decode()},
        },
        {
            "apiVersion": KUEUE_API,
            "kind": "MultiKueueCluster",
            "metadata": {"name": cluster},
            "spec": {
                "clusterSource": {"kubeConfig": {"locationType": "Secret", "location": secret}}
            },
        },
    ]


def _checked(cluster: str) -> str:
    if len(cluster) > _LONGEST or not re.fullmatch(DNS_SUBDOMAIN_PATTERN, cluster):
        raise ValueError(
            f"cluster name {cluster!r}: use at most {_LONGEST} of a-z, 0-9, '-' and '.', "
            "starting and ending with a letter or digit"
        )
    return cluster
