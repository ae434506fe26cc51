"""What one pod requests, by Kubernetes' rules, and where it may run."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.quantity import QuantityError
from federation.core.types import Taint, Toleration
from federation.jobs.pods import pod_requests, pod_set, taints, tolerations

Json = dict[str, Any]


def box(requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    """A container."""
    given = {"requests": requests, "limits": limits}
    return {"name": "c", "resources": {k: v for k, v in given.items() if v is not None}, **more}


def sidecar(**requests: str) -> Json:
    """An init container that keeps running."""
    return box(requests, restartPolicy="Always")


CPU, MEM = "cpu", "memory"
CASES: dict[str, tuple[Json, Json]] = {
    "nothing": ({"containers": [{"name": "c"}]}, {}),
    "containers add up": (
        {"containers": [box({CPU: "1", MEM: "1Gi"}), box({CPU: "500m"})]},
        {CPU: 1500, MEM: 2**30},
    ),
    "the largest init container counts, not their sum": (
        {
            "containers": [box({CPU: "1"})],
            "initContainers": [box({CPU: "3"}), box({CPU: "2", MEM: "5"})],
        },
        {CPU: 3000, MEM: 5},
    ),
    "init containers below the sum change nothing": (
        {"containers": [box({CPU: "2"})], "initContainers": [box({CPU: "1"})]},
        {CPU: 2000},
    ),
    "sidecars run beside the containers": (
        {"containers": [box({CPU: "2"})], "initContainers": [sidecar(cpu="1")]},
        {CPU: 3000},
    ),
    "an init container runs beside the sidecars before it": (
        {
            "containers": [box({CPU: "1"})],
            "initContainers": [sidecar(cpu="1"), box({CPU: "4"}), sidecar(cpu="2")],
        },
        {CPU: 5000},
    ),
    "and not beside those after it": (
        {
            "containers": [box({CPU: "1"})],
            "initContainers": [box({CPU: "4"}), sidecar(cpu="2")],
        },
        {CPU: 4000},
    ),
    "overhead is added": (
        {"containers": [box({CPU: "1"})], "overhead": {CPU: "250m", MEM: "10"}},
        {CPU: 1250, MEM: 10},
    ),
    "overhead is added to what init containers need": (
        {
            "containers": [box({CPU: "1"})],
            "initContainers": [box({CPU: "2"})],
            "overhead": {CPU: "1"},
        },
        {CPU: 3000},
    ),
    "limits stand in for requests": (
        {"containers": [box({CPU: "1"}, {CPU: "4", MEM: "7"}), box(limits={CPU: "2"})]},
        {CPU: 3000, MEM: 7},
    ),
    "pod-level resources take precedence": (
        {
            "containers": [box({CPU: "1", "gpu": "2"}), box({CPU: "1"})],
            "resources": {"requests": {CPU: "5"}},
            "overhead": {CPU: "1"},
        },
        {CPU: 6000, "gpu": 2},
    ),
    "pod-level limits stand in too": (
        {"containers": [box()], "resources": {"limits": {MEM: "9"}}},
        {MEM: 9},
    ),
    "null lists": ({"containers": None, "initContainers": None, "overhead": None}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_requests(name: str) -> None:
    """kueue-admission.md §2.4: max(init containers, containers) + overhead."""
    spec, expected = CASES[name]
    assert pod_requests(spec) == expected


def test_a_request_that_is_no_quantity() -> None:
    """The resource is named."""
    with pytest.raises(QuantityError, match="gpu: 'many'"):
        pod_requests({"containers": [box({"gpu": "many"})]})


def test_pod_set() -> None:
    """Selector, required affinity and tolerations are taken; preferred affinity is not."""
    terms = [
        {"matchExpressions": [{"key": "card", "operator": "In", "values": ["a", "b"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
        }
    }
    spec = {
        "containers": [box({CPU: "1"})],
        "nodeSelector": {"z": "1", "a": "2"},
        "affinity": affinity,
        "tolerations": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    }
    found = pod_set("main", 3, {"spec": spec})

    assert (found.name, found.count, found.requests) == ("main", 3, {CPU: 1000})
    assert found.node_selector == (("a", "2"), ("z", "1"))
    assert found.affinity == ((("card", "In", ("a", "b")),), ())
    assert found.tolerations == (Toleration("k", "Equal", "v", "NoSchedule"),)


def test_tolerations_and_taints() -> None:
    """Defaults of the wire; a null operator is Equal."""
    assert tolerations([{"operator": None, "key": "k"}, {"operator": "Exists"}]) == (
        Toleration("k", "Equal"),
        Toleration(operator="Exists"),
    )
    assert taints([{"key": "k"}]) == (Taint("k", "", "NoSchedule"),)
    assert tolerations(None) == taints(None) == ()
