"""What is asked of an autoscaler, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.provisioning import ProvisioningRequestConfigSpec
from federation.core.checks import CheckState
from federation.core.types import PodSet
from federation.jobs.provisioning import judged, managed, request, request_name, template_name

PENDING, READY, RETRY, REJECTED = CheckState
CONSUMES = {
    f"{group}/{key}": value
    for group in ("autoscaling.x-k8s.io", "cluster-autoscaler.kubernetes.io")
    for key, value in (
        ("consume-provisioning-request", "wl-prov-1"),
        ("provisioning-class-name", "queued"),
    )
}


def config(**more: Any) -> ProvisioningRequestConfigSpec:
    body = {"provisioningClassName": "queued", **more}
    return ProvisioningRequestConfigSpec.model_validate(body)


def answered(*conditions: tuple[str, str, str], **details: str) -> Any:
    found = [{"type": t, "status": s, "message": m} for t, s, m in conditions]
    status = {"conditions": found, "provisioningClassDetails": details}
    return {"metadata": {"name": "wl-prov-1"}, "status": status}


@pytest.mark.parametrize(
    ("resources", "counts", "names"),
    [
        ([], {"a": 1, "b": 2}, ["a", "b"]),
        (["gpu"], {"a": 1, "b": 2}, ["b"]),
        (["gpu"], {"a": 1, "b": 0}, []),
        (["tpu"], {"a": 1, "b": 2}, []),
    ],
)
def test_who_needs_nodes(resources: list[str], counts: dict[str, int], names: list[str]) -> None:
    """Pod sets with pods that ask for a managed resource; all resources, if none is named."""
    sets = (PodSet("a", 1, {"cpu": 1, "tpu": 0}), PodSet("b", 2, {"cpu": 1, "gpu": 1}))
    assert managed(sets, counts, config(managedResources=resources)) == names


def test_names_are_of_one_attempt() -> None:
    """And stay within what Kubernetes allows, without two being the same."""
    assert request_name("wl", "prov", 2) == "wl-prov-2"
    long = [request_name("w" * 240, "prov", attempt) for attempt in (1, 2)]
    assert len(set(long)) == 2
    sets = ["s" * 62 + end for end in "ab"]
    templates = {template_name(name, pods, uid) for name in long for pods in sets for uid in "xy"}
    assert len(templates) == 8
    assert all(len(name) <= 200 for name in long)
    assert all(len(name) <= 253 for name in templates)


def test_the_request() -> None:
    """Class, parameters of config and job, and a template for each pod set."""
    owner = {"kind": "Workload", "name": "wl", "uid": "u"}
    notes = {"provreq.kueue.x-k8s.io/zone": "b", "other": "x"}
    rules = config(parameters={"zone": "a", "validUntilSeconds": "60"})
    body = request("wl-prov-1", "team", owner, rules, [("ppt", 3)], notes)
    assert body["apiVersion"] == "autoscaling.x-k8s.io/v1"
    assert body["metadata"]["ownerReferences"] == [owner]
    assert body["spec"] == {
        "provisioningClassName": "queued",
        "podSets": [{"podTemplateRef": {"name": "ppt"}, "count": 3}],
        "parameters": {"zone": "b", "validUntilSeconds": "60"},
    }


ANSWERS: dict[str, Any] = {
    "nothing yet": ((), 1, False, PENDING, "nodes have been asked for", None),
    "accepted": ((("Accepted", "True", "in line"),), 1, False, PENDING, "in line", None),
    "on its way": (
        (("Accepted", "True", "in line"), ("Provisioned", "False", "ETA 5 min")),
        1,
        False,
        PENDING,
        "ETA 5 min",
        None,
    ),
    "provisioned": ((("Provisioned", "True", "there"),), 1, False, READY, "there", None),
    "failed": (
        (("Failed", "True", "no quota"),),
        1,
        False,
        RETRY,
        "no quota; that was attempt 1",
        60,
    ),
    "failed again": (
        (("Failed", "True", "no quota"),),
        3,
        False,
        RETRY,
        "no quota; that was attempt 3",
        240,
    ),
    "failed too often": (
        (("Failed", "True", "no quota"),),
        4,
        False,
        REJECTED,
        "no quota; that was attempt 4, the last one",
        None,
    ),
    "booked for nothing": (
        (("Provisioned", "True", "there"), ("BookingExpired", "True", "too late")),
        1,
        False,
        RETRY,
        "too late; that was attempt 1",
        60,
    ),
    "booked, and started in time": (
        (("Provisioned", "True", "there"), ("BookingExpired", "True", "too late")),
        1,
        True,
        READY,
        "there",
        None,
    ),
    "taken back": (
        (("Provisioned", "True", "there"), ("CapacityRevoked", "True", "gone")),
        1,
        True,
        REJECTED,
        "gone",
        None,
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    """Conditions of the request, as a state of the check."""
    conditions, attempt, started, state, message, after = ANSWERS[name]
    said = judged(answered(*conditions), config(), attempt, ["main"], started=started)
    assert (said.state, said.message, said.retry_after_s) == (state, message, after)
    assert bool(said.updates) is (state is READY)


def test_what_lets_pods_use_the_nodes() -> None:
    """The marks that the autoscaler reads, and labels that it tells of."""
    keys = (("pool", "Pool"), ("not", "Told"))
    labels = [{"key": key, "valueFromProvisioningClassDetail": detail} for key, detail in keys]
    update = {"nodeSelector": labels}
    found = answered(("Provisioned", "True", ""), Pool="p7")
    said = judged(found, config(podSetUpdates=update), 1, ["main"])
    assert said.updates == [
        {"name": "main", "annotations": CONSUMES, "nodeSelector": {"pool": "p7"}}
    ]
    assert said.message == "the request is Provisioned"
