"""Old spellings to v1beta2's, so that the rest of the code reads one.

Sources: the differences between Kueue's v1beta1 and v1beta2. The admission policies of
`federation.api.policies` do the same on the API server for spec fields; this covers objects that
were stored without them, files, and status fields. Where both spellings are present the old one
wins, as in the policies: it never survives a write, so it is what somebody has just written.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from federation.api.names import FEDQ_GROUP, KUEUE_API, KUEUE_GROUP, KUEUE_OLD_VERSION

Json = dict[str, Any]

PRIORITY_SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "kueue.x-k8s.io/workloadpriorityclass": (KUEUE_GROUP, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
"""v1beta1 priorityClassSource to group and kind of v1beta2's priorityClassRef."""


def normalize(obj: Json) -> Json:
    """The object in v1beta2's spelling; what nothing is known about is returned as it is.

    Pure: the input is not changed, and parts that need no rewriting are shared with it.
    """
    api_version = obj.get("apiVersion", "")
    if not isinstance(api_version, str) or api_version.startswith(f"{FEDQ_GROUP}/"):
        return obj
    group, _, version = api_version.partition("/")
    if group != KUEUE_GROUP:
        return obj
    new = obj
    for part, rewrite in _REWRITES.get(str(obj.get("kind", "")), {}).items():
        old = new.get(part)
        if isinstance(old, dict):
            new = new | {part: rewrite(dict(old))}
    return new | {"apiVersion": KUEUE_API} if version == KUEUE_OLD_VERSION else new


def without_nulls(value: Any) -> Any:
    """As the API server reads it: a field that is null is as if it were left out."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    return [*map(without_nulls, value)] if isinstance(value, list) else value


def _rename(part: Json, old: str, new: str) -> None:
    if old in part:
        part[new] = part.pop(old)


def _cluster_queue_spec(spec: Json) -> Json:
    _rename(spec, "cohort", "cohortName")
    if isinstance(checks := spec.get("admissionChecks") or [], list):
        spec.pop("admissionChecks", None)
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": c} for c in checks]}
    fungibility = spec.get("flavorFungibility")
    if isinstance(fungibility, dict):
        words = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}
        keys = ("whenCanBorrow", "whenCanPreempt")
        changed = {k: words[w] for k in keys if (w := str(fungibility.get(k))) in words}
        spec["flavorFungibility"] = fungibility | changed
    return spec


def _cluster_queue_status(status: Json) -> Json:
    status.pop("pendingWorkloadsStatus", None)
    return status


def _local_queue_status(status: Json) -> Json:
    _rename(status, "flavorUsage", "flavorsUsage")
    status.pop("flavors", None)
    return status


def _workload_spec(spec: Json) -> Json:
    name = spec.pop("priorityClassName", None)
    source = spec.pop("priorityClassSource", None)
    if name and str(source) in PRIORITY_SOURCES:
        group, kind = PRIORITY_SOURCES[str(source)]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    return spec


def _workload_status(status: Json) -> Json:
    _rename(
        status,
        "accumulatedPastExexcutionTimeSeconds",
        "accumulatedPastExecutionTimeSeconds",
    )
    admission = status.get("admission")
    if isinstance(admission, dict) and isinstance(admission.get("podSetAssignments"), list):
        assignments = [_assignment(a) for a in admission["podSetAssignments"]]
        status["admission"] = admission | {"podSetAssignments": assignments}
    return status


def _assignment(assignment: Json) -> Json:
    """v1beta1's list of topology domains as one slice of v1beta2's compressed form."""
    topology = assignment.get("topologyAssignment")
    if not isinstance(topology, dict) or "domains" not in topology:
        return assignment
    domains = topology["domains"]
    columns = zip(*(d["values"] for d in domains), strict=True)
    levels = [{"individual": {"roots": list(values)}} for values in columns]
    piece = {
        "domainCount": len(domains),
        "valuesPerLevel": levels,
        "podCounts": {"individual": [d["count"] for d in domains]},
    }
    rest = {k: v for k, v in topology.items() if k != "domains"}
    return assignment | {"topologyAssignment": rest | {"slices": [piece] if domains else []}}


def _admission_check_spec(spec: Json) -> Json:
    spec.pop("retryDelayMinutes", None)
    return spec


def _multikueue_cluster_spec(spec: Json) -> Json:
    if "kubeConfig" in spec:
        spec["clusterSource"] = {"kubeConfig": spec.pop("kubeConfig")}
    return spec


_REWRITES: Final[Mapping[str, Mapping[str, Callable[[Json], Json]]]] = {
    "ClusterQueue": {"spec": _cluster_queue_spec, "status": _cluster_queue_status},
    "LocalQueue": {"status": _local_queue_status},
    "Workload": {"spec": _workload_spec, "status": _workload_status},
    "AdmissionCheck": {"spec": _admission_check_spec},
    "MultiKueueCluster": {"spec": _multikueue_cluster_spec},
}
