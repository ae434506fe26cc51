"""Queue objects as the core sees them: both served versions, both spellings."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from federation.api import convert
from federation.core.policies import QueueingStrategy, StopPolicy
from federation.core.quantity import QuantityError
from federation.core.types import (
    FlavorQuotas,
    LabelSelector,
    Quota,
    ResourceGroup,
    Taint,
    Toleration,
)

Json = dict[str, Any]
OLD, NEW = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"

GROUPS: list[Json] = [
    {
        "coveredResources": ["cpu", "memory"],
        "flavors": [
            {
                "name": "spot",
                "resources": [
                    {"name": "cpu", "nominalQuota": 4, "borrowingLimit": "500m"},
                    {"name": "memory", "nominalQuota": "8Gi", "lendingLimit": "1Gi"},
                ],
            },
            {
                "name": "od",
                "resources": [
                    {"name": "cpu", "nominalQuota": "1.5", "borrowingLimit": 0},
                    {"name": "memory", "nominalQuota": 0},
                ],
            },
        ],
    }
]
READ = ResourceGroup(
    ("cpu", "memory"),
    (
        FlavorQuotas("spot", {"cpu": Quota(4000, 500), "memory": Quota(8 * 2**30, None, 2**30)}),
        FlavorQuotas("od", {"cpu": Quota(1500, 0), "memory": Quota(0)}),
    ),
)


def obj(kind: str, spec: Json, version: str = NEW, namespace: str = "") -> Json:
    meta = {"name": "x"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        (NEW, {"cohortName": "c", "admissionChecksStrategy": {"admissionChecks": [{"name": "k"}]}}),
        (OLD, {"cohort": "c", "admissionChecks": ["k"]}),
        (NEW, {"cohort": "c", "admissionChecks": ["k"]}),
    ],
)
def test_cluster_queue(version: str, spec: Json) -> None:
    """Old and new spelling give the same, under either version; the object is not changed."""
    wire = obj(
        "ClusterQueue",
        {
            **spec,
            "resourceGroups": GROUPS,
            "queueingStrategy": "StrictFIFO",
            "stopPolicy": "Hold",
            "namespaceSelector": {
                "matchLabels": {"b": "1", "a": "2"},
                "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
            },
        },
        version,
    )
    before = copy.deepcopy(wire)
    found = convert.to_cluster_queue(wire)

    assert wire == before
    assert (found.name, found.cohort, found.check_names) == ("x", "c", ("k",))
    assert found.groups == (READ,)
    assert (found.strategy, found.stop) == (QueueingStrategy.STRICT_FIFO, StopPolicy.HOLD)
    assert found.namespace_selector == LabelSelector(
        (("a", "2"), ("b", "1")), (("k", "In", ("v",)),)
    )


def test_defaults() -> None:
    """§1.2: BestEffortFIFO, not stopped; without a selector no namespace, with `{}` all."""
    found = convert.to_cluster_queue(obj("ClusterQueue", {}))
    assert (found.strategy, found.stop) == (QueueingStrategy.BEST_EFFORT_FIFO, StopPolicy.NONE)
    assert (found.groups, found.cohort, found.check_names) == ((), "", ())
    assert found.namespace_selector is None
    every = convert.to_cluster_queue(obj("ClusterQueue", {"namespaceSelector": {}}))
    assert every.namespace_selector == LabelSelector()


def test_cohort() -> None:
    """With quota and a parent, or with nothing."""
    found = convert.to_cohort(obj("Cohort", {"parentName": "p", "resourceGroups": GROUPS}))
    assert (found.name, found.parent, found.groups) == ("x", "p", (READ,))
    assert convert.to_cohort(obj("Cohort", {})).groups == ()


def test_local_queue() -> None:
    """The door to a ClusterQueue."""
    found = convert.to_local_queue(
        obj("LocalQueue", {"clusterQueue": "q", "stopPolicy": "HoldAndDrain"}, namespace="n")
    )
    assert (found.namespace, found.name, found.cluster_queue) == ("n", "x", "q")
    assert found.stop is StopPolicy.HOLD_AND_DRAIN


def test_flavor() -> None:
    """Labels, taints and tolerations with the wire's defaults."""
    found = convert.to_flavor(
        obj(
            "ResourceFlavor",
            {
                "nodeLabels": {"b": "1", "a": "2"},
                "nodeTaints": [{"key": "t", "value": "v", "effect": "NoExecute"}],
                "tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v"}],
            },
        )
    )
    assert found.node_labels == (("a", "2"), ("b", "1"))
    assert found.taints == (Taint("t", "v", "NoExecute"),)
    assert found.tolerations == (Toleration(operator="Exists"), Toleration("k", "Equal", "v"))
    assert convert.to_flavor(obj("ResourceFlavor", {})).taints == ()
    assert convert.to_flavor({k: v for k, v in obj("ResourceFlavor", {}).items() if k != "spec"})


def quota_of(**quota: Any) -> Json:
    resources = [{"name": "cpu", **quota}]
    flavors = [{"name": "f", "resources": resources}]
    return obj(
        "ClusterQueue", {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    )


@pytest.mark.parametrize(
    "quota",
    [
        {"nominalQuota": "lots"},
        {"nominalQuota": "1", "borrowingLimit": "1Gib"},
        {"nominalQuota": "1", "lendingLimit": ""},
        {"nominalQuota": None},
        {"nominalQuota": [1]},
        {},
    ],
)
def test_quantities_that_cannot_be_read(quota: Json) -> None:
    """An error that the catalog catches, never another one."""
    with pytest.raises((ValidationError, QuantityError)):
        convert.to_cluster_queue(quota_of(**quota))


@pytest.mark.parametrize(
    "spec", [{"stopPolicy": "Sometimes"}, {"queueingStrategy": "LIFO"}, {"resourceGroups": "none"}]
)
def test_words_that_are_not_known(spec: Json) -> None:
    """Nor guessed."""
    with pytest.raises((ValidationError, ValueError)):
        convert.to_cluster_queue(obj("ClusterQueue", spec))
