"""ProvisioningRequests: what is asked of an autoscaler for a workload, and what its answer means.

Source: the admission specification, sections 2.3 (retries) and 8 (ProvisioningRequest check); the
object is autoscaling.x-k8s.io/v1 of cluster-autoscaler, its marks on pods are those that it reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from federation.api.provisioning import ProvisioningRequestConfigSpec
from federation.core.backoff import delay
from federation.core.checks import CheckState
from federation.core.types import PodSet

Json = dict[str, Any]

API_VERSION, KIND = "autoscaling.x-k8s.io/v1", "ProvisioningRequest"
PARAMETER_PREFIX = "provreq.kueue.x-k8s.io/"
"""Annotations of a job that begin so are parameters of its requests."""
_CONSUMES = ("autoscaling.x-k8s.io", "cluster-autoscaler.kubernetes.io")
_LONGEST = 200
"""Characters of a request's name; those of its pod templates are longer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check is to say. `retry_after_s` of a Retry; `updates` of what is Ready (podSetUpdates
    as on the wire).
    """

    state: CheckState
    message: str
    retry_after_s: int | None = None
    updates: Sequence[Json] = field(default_factory=tuple)


def managed(
    pod_sets: Iterable[PodSet], counts: Mapping[str, int], config: ProvisioningRequestConfigSpec
) -> list[str]:
    """The pod sets to ask for: those with pods that request one of the managed resources."""
    wanted = set(config.managed_resources)
    return [
        pods.name
        for pods in pod_sets
        if counts.get(pods.name)
        and (not wanted or any(n and name in wanted for name, n in pods.requests.items()))
    ]


def request_name(workload: str, check: str, attempt: int) -> str:
    """One for each attempt."""
    name = f"{workload}-{check}-{attempt}"
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    return f"{name[: _LONGEST - 13].rstrip('-.')}-{digest}"


def template_name(request: str, pod_set: str, workload_uid: str) -> str:
    """The PodTemplate of a pod set of a request; one for each Workload, as that of one that is gone
    may be about to go.
    """
    digest = hashlib.blake2b(f"{workload_uid}/{pod_set}".encode(), digest_size=6).hexdigest()
    return f"{f'ppt-{request}-{pod_set}'[:240].rstrip('-.')}-{digest}"


def pod_template(name: str, namespace: str, owner: Json, template: Json) -> Json:
    """The pods of a pod set as they will be, for the autoscaler to simulate."""
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "template": template,
    }


def request(
    name: str,
    namespace: str,
    owner: Json,
    config: ProvisioningRequestConfigSpec,
    pods: Iterable[tuple[str, int]],
    annotations: Mapping[str, str],
) -> Json:
    """The request for `pods` (PodTemplate, count); `annotations` are those of the job."""
    own = {
        key.removeprefix(PARAMETER_PREFIX): value
        for key, value in annotations.items()
        if key.startswith(PARAMETER_PREFIX)
    }
    sets = [{"podTemplateRef": {"name": template}, "count": count} for template, count in pods]
    parameters = {**config.parameters, **own}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {
            "provisioningClassName": config.provisioning_class_name,
            "podSets": sets,
            **({"parameters": parameters} if parameters else {}),
        },
    }


def judged(
    found: Json,
    config: ProvisioningRequestConfigSpec,
    attempt: int,
    pod_sets: Collection[str],
    *,
    started: bool = False,
) -> Verdict:
    """What the answer to a request means; `started` once the job was: nodes that were booked for
    it need not be booked any more.
    """
    status = found.get("status") or {}
    if said := _said(status, "CapacityRevoked"):
        return Verdict(CheckState.REJECTED, said)
    failed = _said(status, "Failed") or ("" if started else _said(status, "BookingExpired"))
    if failed:
        return _again(config, attempt, failed)
    if said := _said(status, "Provisioned"):
        updates = [_update(name, found, config) for name in pod_sets]
        return Verdict(CheckState.READY, said, updates=updates)
    return Verdict(CheckState.PENDING, _progress(status))


def _again(config: ProvisioningRequestConfigSpec, attempt: int, why: str) -> Verdict:
    rules = config.retry_strategy
    if attempt > rules.backoff_limit_count:
        return Verdict(CheckState.REJECTED, f"{why}; that was attempt {attempt}, the last one")
    seconds = delay(attempt, rules.backoff_base_seconds, rules.backoff_max_seconds)
    return Verdict(CheckState.RETRY, f"{why}; that was attempt {attempt}", int(seconds))


def _said(status: Mapping[str, Any], kind: str) -> str:
    """What a condition that is True says; '' if it is not."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            return str(condition.get("message") or f"the request is {kind}")
    return ""


def _progress(status: Mapping[str, Any]) -> str:
    """What is to be told while it is not decided: what the autoscaler said last of it."""
    found = {c.get("type"): c for c in status.get("conditions") or ()}
    for kind in ("Provisioned", "Accepted"):
        if text := (found.get(kind) or {}).get("message"):
            return str(text)
    return "nodes have been asked for"


def _update(pod_set: str, found: Json, config: ProvisioningRequestConfigSpec) -> Json:
    """What lets pods use the nodes that were made for them."""
    name, kind = found["metadata"]["name"], config.provisioning_class_name
    notes = {
        key: value
        for group in _CONSUMES
        for key, value in (
            (f"{group}/consume-provisioning-request", name),
            (f"{group}/provisioning-class-name", kind),
        )
    }
    update: Json = {"name": pod_set, "annotations": notes}
    details = (found.get("status") or {}).get("provisioningClassDetails") or {}
    wanted = config.pod_set_updates.node_selector if config.pod_set_updates else []
    selector = {
        one.key: details[one.value_from_provisioning_class_detail]
        for one in wanted
        if one.value_from_provisioning_class_detail in details
    }
    return {**update, **({"nodeSelector": selector} if selector else {})}
