"""One queue with all that it needs, as demonstrations, drills and benchmarks submit to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from federation.api.names import KUEUE_API

Json = dict[str, Any]
FLAVOR = "default"


def priority_class_manifests(values: Mapping[str, int]) -> list[Json]:
    """WorkloadPriorityClasses by name; needed on the management cluster only."""
    return [
        {
            "apiVersion": KUEUE_API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in values.items()
    ]


def queue_manifests(
    queue: str, namespace: str, quotas: Mapping[str, str], **more: object
) -> list[Json]:
    """Namespace, flavor, ClusterQueue and LocalQueue, the last two of one name. `quotas` are
    amounts by resource, `more` further fields of the ClusterQueue's spec.
    """
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    group = {
        "coveredResources": list(quotas),
        "flavors": [{"name": FLAVOR, "resources": resources}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": KUEUE_API, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}},
        {
            "apiVersion": KUEUE_API,
            "kind": "ClusterQueue",
            "metadata": {"name": queue},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group], **more},
        },
        {
            "apiVersion": KUEUE_API,
            "kind": "LocalQueue",
            "metadata": {"name": queue, "namespace": namespace},
            "spec": {"clusterQueue": queue},
        },
    ]
