"""Scenarios as plain data, so that they can be printed, cut down and kept; and what they stand for.

A scenario is a dict:

    rules       {"fair": [strategy…], "undeclared": "BlockUndeclared", "partial": true}
    namespaces  {name: {label: value}}
    flavors     {name: {"labels": {}, "taints": [[key, value, effect]], "tolerations": […],
                "topology": false}}
    cohorts     {name: {"parent": "", "weight": 1, "groups": […]}}
    queues      {name: {"cohort": "", "weight": 1, "groups": […], "strategy", "stop", "selector",
                "within", "reclaim", "borrow", "threshold", "when_can_borrow", "when_can_preempt",
                "preference"}}
    jobs        {name: {"queue", "priority", "pods": […], …}}
    steps       [[what, …]…], see `drive`

A resource group is `[[resource…], [[flavor, {resource: [nominal, BL, LL]}]…]]`. Everything that is
absent has its default.
"""

from __future__ import annotations

from typing import Any

from federation.core.policies import (
    FairStrategy,
    FlavorFungibility,
    FlavorPreference,
    Fungibility,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
    Rules,
    StopPolicy,
    UndeclaredResources,
)
from federation.core.topology import FlavorTopology, Node
from federation.core.types import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LabelSelector,
    Pending,
    PodSet,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Taint,
    Toleration,
    TopologyMode,
    TopologyRequest,
)

Json = dict[str, Any]
LEVEL = "block"
AMPLE = 10**12
RESOURCES = ("cpu", "memory", "example.com/gpu", "example.com/undeclared", "pods")
START_S = 1_000_000.0
"""When scenarios begin; jobs are created `created` seconds later."""


def rules(data: Json) -> Rules:
    """The configuration."""
    return Rules(
        fair_strategies=tuple(FairStrategy(name) for name in data.get("fair", ())),
        undeclared=UndeclaredResources(data.get("undeclared", "BlockUndeclared")),
        partial_admission=data.get("partial", True),
    )


def groups(data: list[Any]) -> tuple[ResourceGroup, ...]:
    """Resource groups."""
    return tuple(
        ResourceGroup(
            tuple(covered),
            tuple(
                FlavorQuotas(name, {resource: Quota(*quota) for resource, quota in quotas.items()})
                for name, quotas in flavors
            ),
        )
        for covered, flavors in data
    )


def queue(name: str, data: Json) -> ClusterQueue:
    """A ClusterQueue."""
    selector = data.get("selector", {})
    return ClusterQueue(
        name=name,
        groups=groups(data.get("groups", [])),
        cohort=data.get("cohort", ""),
        strategy=QueueingStrategy(data.get("strategy", "BestEffortFIFO")),
        stop=StopPolicy(data.get("stop", "None")),
        namespace_selector=None if selector is None else LabelSelector(tuple(selector.items())),
        preemption=Preemption(
            PreemptionPolicy(data.get("within", "Never")),
            PreemptionPolicy(data.get("reclaim", "Never")),
            data.get("borrow", False),
            data.get("threshold"),
        ),
        fungibility=FlavorFungibility(
            Fungibility(data.get("when_can_borrow", "MayStopSearch")),
            Fungibility(data.get("when_can_preempt", "TryNextFlavor")),
            FlavorPreference(data.get("preference", "BorrowingOverPreemption")),
        ),
        fair_weight=float(data.get("weight", 1)),
    )


def cohort(name: str, data: Json) -> Cohort:
    """A cohort."""
    return Cohort(
        name, data.get("parent", ""), groups(data.get("groups", [])), float(data.get("weight", 1))
    )


def flavor(name: str, data: Json) -> ResourceFlavor:
    """A flavor."""
    return ResourceFlavor(
        name,
        tuple(data.get("labels", {}).items()),
        tuple(Taint(*taint) for taint in data.get("taints", ())),
        tuple(Toleration(*toleration) for toleration in data.get("tolerations", ())),
        "T" if data.get("topology") else "",
    )


def ample_topology(of: ResourceFlavor) -> FlavorTopology:
    """One in which there is always a place, so that nothing depends on places."""
    room = dict.fromkeys(RESOURCES, AMPLE)
    labels = dict(of.node_labels) | {LEVEL: "b"}
    return FlavorTopology("T", (LEVEL,), of, [Node("n", labels, allocatable=room)])


def pod_set(data: Json) -> PodSet:
    """A pod set; `group` is a podSetGroupName."""
    together = data.get("group")
    return PodSet(
        name=data["name"],
        count=data.get("count", 1),
        requests=data.get("requests", {}),
        node_selector=tuple(data.get("selector", {}).items()),
        affinity=tuple(
            tuple((key, operator, tuple(values)) for key, operator, values in term)
            for term in data.get("affinity", ())
        ),
        tolerations=tuple(Toleration(*toleration) for toleration in data.get("tolerations", ())),
        min_count=data.get("min"),
        topology=TopologyRequest(TopologyMode.REQUIRED, LEVEL, (), together) if together else None,
    )


def job(name: str, data: Json) -> Pending:
    """A waiting workload; its UID is its name."""
    return Pending(
        uid=name,
        namespace=data.get("namespace", "team"),
        name=name,
        local_queue="lq",
        cluster_queue=data["queue"],
        priority=data.get("priority", 0),
        created=START_S + data.get("created", 0),
        pod_sets=tuple(pod_set(pods) for pods in data["pods"]),
        preemption_gated=data.get("gated", False),
        preemptible=data.get("preemptible", True),
        problem=data.get("problem", ""),
    )
