"""Pods that are jobs: alone, in Kueue's groups, and with YuniKorn's task groups."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.failover import OnDisconnect
from federation.core.types import Admission, PodSetAssignment, ResourceFlavor
from federation.core.wishes import Disconnect
from federation.jobs.kinds.pod_groups import bundle, group_of, newcomers, own_job
from federation.jobs.kinds.registry import KINDS
from federation.jobs.mirror import Identity
from federation.jobs.offer import copy_of
from tests.fakes.patches import merge
from tests.unit.jobs.test_offer import held

Json = dict[str, Any]
PODS: Any = KINDS["Pod.v1"]
GATE = {"name": "kueue.x-k8s.io/admission"}
FLAVOR = ResourceFlavor("gold", node_labels=(("pool", "gold"),))
IDENTITY = Identity(
    "o", "u-a", 2, 1, "2026-01-01T00:00:00Z", 0, Disconnect(OnDisconnect.STOP, None)
)


def pod(name: str, *, cpu: str = "1", phase: str = "", **more: Any) -> Json:
    """A gated pod; with `total` of a group."""
    notes: Json = dict(more.get("annotations", {}))
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    if total := more.get("total"):
        labels["kueue.x-k8s.io/pod-group-name"] = "g"
        notes["kueue.x-k8s.io/pod-group-total-count"] = str(total)
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": cpu}},
        "env": [{"name": "RANK", "value": name}],
        "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/t"}],
    }
    made: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"u-{name}",
            "resourceVersion": str(more.get("version", 5)),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": notes,
        },
        "spec": {
            "containers": [container],
            "priority": 7,
            "schedulingGates": [GATE] if more.get("gated", True) else [],
            "volumes": [{"name": "kube-api-access-x"}],
        },
    }
    return {**made, "status": {"phase": phase}} if phase else made


def trio(**more: Any) -> Json:
    return bundle([pod(n, cpu=c, total=3, **more) for n, c in (("c", "2"), ("a", "1"), ("b", "1"))])


def admitted(obj: Json) -> Admission:
    sets = PODS.pod_sets(obj)
    return Admission(
        "cq", tuple(PodSetAssignment(p.name, p.count, {"cpu": "gold"}, {}) for p in sets)
    )


def test_a_plain_pod_is_a_group_of_one() -> None:
    obj = bundle([pod("a")])
    assert [(p.name, p.count, p.requests["cpu"]) for p in PODS.pod_sets(obj)] == [("main", 1, 1000)]
    local = PODS.local_job(obj)
    assert (local.uid, local.problem, local.suspended, local.kind) == ("u-a", "", True, "Pod.v1")


def test_a_group_is_known_by_its_lowest_name_and_has_a_pod_set_for_each_role() -> None:
    obj = trio()
    assert sorted((p.count, p.requests["cpu"]) for p in PODS.pod_sets(obj)) == [
        (1, 2000),
        (2, 1000),
    ]
    assert PODS.local_job(obj).uid == "u-a"
    assert PODS.problem(obj) == ""
    missing = bundle([pod("a", total=3), pod("b", total=3)])
    assert "has 2 pods, and says that 3" in PODS.problem(missing)


def test_yunikorn_task_groups_are_a_group() -> None:
    """The application id is its name, the least members of its task groups its number of pods."""
    groups = json.dumps([{"name": "driver", "minMember": 1}, {"name": "worker", "minMember": 4}])
    notes = {"yunikorn.apache.org/app-id": "app", "yunikorn.apache.org/task-groups": groups}
    assert group_of(pod("a", annotations=notes)) == ("team", "app/app", 5)
    bad = {**notes, "yunikorn.apache.org/task-groups": "{"}
    assert group_of(pod("a", annotations=bad)).total == 0
    assert group_of(pod("a", annotations={"yunikorn.apache.org/app-id": "app"})).total == 1


def test_pods_of_something_larger_are_no_jobs_but_those_of_deployments_are() -> None:
    owner = {"kind": "Job", "controller": True}
    owned = pod("a")
    owned["metadata"]["ownerReferences"] = [owner]
    assert not own_job(owned)
    owned["metadata"]["ownerReferences"] = [{**owner, "kind": "ReplicaSet"}]
    assert own_job(owned)


def test_a_pod_without_the_gate_is_not_managed() -> None:
    obj = bundle([pod("a", gated=False)])
    assert "scheduling gate" in PODS.local_job(obj).problem
    assert PODS.managed_elsewhere(obj)
    assert not PODS.managed_elsewhere(trio())


def test_copies_are_gated_and_have_nothing_of_one_cluster() -> None:
    """Each with its own environment and the token; the same roles as at home."""
    made = copy_of(trio(), IDENTITY, held(), kind=PODS, vendors=VENDORS)
    assert [p["metadata"]["name"] for p in made["spec"]["pods"]] == ["a", "b", "c"]
    for copy in made["spec"]["pods"]:
        assert copy["spec"]["schedulingGates"] == [GATE]
        assert "priority" not in copy["spec"]
        assert copy["spec"]["volumes"] == []
        env = {e["name"]: e["value"] for e in copy["spec"]["containers"][0]["env"]}
        assert env["RANK"] == copy["metadata"]["name"]
        assert env["FEDQ_ATTEMPT"] == "2"
        assert copy["metadata"]["annotations"]["fedq.io/local-uid"] == "u-a"
    assert made["metadata"]["name"] == "a"
    stored = stored_copy(made)
    assert PODS.pod_sets(stored) == PODS.pod_sets(trio())
    assert PODS.remote_job("w", stored).suspended


def stored_copy(body: Json) -> Json:
    pods = deepcopy(body["spec"]["pods"])
    for found in pods:
        found["metadata"] |= {
            "uid": f"r-{found['metadata']['name']}",
            "resourceVersion": "9",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
    return bundle(pods)


def started(obj: Json) -> Json:
    patch = PODS.admission_patch(obj, admitted(obj), [FLAVOR])
    pods = [
        merge(deepcopy(p), patch["spec"]["pods"][p["metadata"]["name"]])
        for p in obj["spec"]["pods"]
    ]
    head = merge(pods[0], {"metadata": {"annotations": patch["metadata"]["annotations"]}})
    return bundle([head, *pods[1:]])


def test_a_start_lets_each_go_to_its_flavor() -> None:
    """What they ask for stays the same, and the head remembers what was charged."""
    obj = trio()
    after = started(obj)
    for found in after["spec"]["pods"]:
        assert found["spec"]["schedulingGates"] == []
        assert found["spec"]["nodeSelector"] == {"pool": "gold"}
    names = {(p.name, p.count) for p in PODS.pod_sets(obj)}
    assert {(p.name, p.count) for p in PODS.pod_sets(after)} == names
    assert not PODS.suspended(after)
    assert not PODS.managed_elsewhere(after)
    assert PODS.restore_patch(after) is None


def with_phases(**phases: str) -> Json:
    return bundle([pod(n, phase=p, total=len(phases), gated=False) for n, p in phases.items()])


def test_it_ends_when_all_have() -> None:
    assert PODS.finished(with_phases(a="Succeeded", b="Running")) == ""
    assert PODS.finished(with_phases(a="Succeeded", b="Succeeded")) == "Complete"
    waits = PODS.remote_job("w", with_phases(a="Succeeded", b="Failed"))
    assert (waits.finished, waits.busy) == ("", False)  # another pod may take the place of b
    final = with_phases(a="Succeeded", b="Failed")
    final["spec"]["pods"][0]["metadata"]["annotations"][RETRIABLE] = "false"
    failed = PODS.remote_job("w", final)
    assert (failed.finished, failed.ending.startswith("1 of 2 pods failed")) == ("Failed", True)
    assert PODS.finished(bundle([pod("a", phase="Failed", gated=False)])) == "Failed"
    serving = with_phases(a="Succeeded")
    serving["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-serving"] = "true"
    assert PODS.finished(serving) == ""


def test_pods_that_have_succeeded_need_no_quota() -> None:
    found = with_phases(a="Succeeded", b="Running")
    (name,) = {p.name for p in PODS.pod_sets(found)}
    assert PODS.reclaimable(found, found) == {name: 1}
    assert not PODS.running(found).gone
    assert PODS.running(trio()).gone


def test_status_of_each_comes_back_and_is_reset() -> None:
    local = PODS.local_job(with_phases(a="Pending", b="Pending"))
    remote = PODS.remote_job("w", with_phases(a="Running", b="Pending"))
    assert PODS.is_behind(local, remote)
    assert PODS.merge_status(local.status, remote.status)["pods"]["a"] == {"phase": "Running"}
    reset = PODS.reset_status(local.status, "2026-01-01T00:00:00Z")["pods"]["a"]
    assert reset["conditions"][0]["reason"] == "SchedulingGated"
    assert not PODS.is_behind(local, PODS.remote_job("w", trio()))


def test_one_that_is_being_deleted_ends_the_group() -> None:
    members = [pod("a", total=2), pod("b", total=2)]
    members[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert PODS.local_job(bundle(members)).terminating


RETRIABLE = "kueue.x-k8s.io/retriable-in-group"


def failing() -> Json:
    """A group at home whose head has failed, and was replaced by c."""
    phases = {"a": "Failed", "b": "Running", "c": ""}
    return bundle([pod(n, phase=p, total=2) for n, p in phases.items()])


def test_a_head_that_was_replaced_does_not_count() -> None:
    """It stands for the group all the same, while that runs."""
    found = failing()
    assert [p.count for p in PODS.pod_sets(found)] == [2]
    assert PODS.problem(found) == ""
    assert PODS.local_job(found).uid == "u-a"
    found["spec"]["pods"][0]["status"]["phase"] = "Pending"
    assert "has 3 pods, and says that 2" in PODS.problem(found)


@pytest.mark.parametrize(
    ("a", "b", "lacking"),
    [
        ("Failed", "Failed", True),
        ("Failed", "Succeeded", True),
        ("Failed", "Running", False),
        ("Failed", "Pending", False),
        ("Succeeded", "Succeeded", False),
    ],
)
def test_a_group_of_which_nothing_runs_and_something_failed(a: str, b: str, lacking: bool) -> None:
    """It waits for other pods, unless it says that none may come: then it has failed."""
    group = with_phases(a=a, b=b)
    found = PODS.remote_job("w", group)
    assert (found.lacking, found.finished == "Failed") == (lacking, False)
    group["spec"]["pods"][1]["metadata"]["annotations"][RETRIABLE] = "false"
    found = PODS.remote_job("w", group)
    assert (found.lacking, found.finished == "Failed") == (False, lacking)


def test_who_is_new_where_the_group_runs() -> None:
    """What has run, or is known there, is never made again."""
    found = newcomers(failing(), ["a", "b"])
    assert found is not None
    assert [p["metadata"]["name"] for p in found["spec"]["pods"]] == ["c"]
    assert newcomers(failing(), ["a", "b", "c"]) is None
    assert newcomers(failing(), []) is None
    assert newcomers(with_phases(a="Running", b="Failed"), ["b"]) is None


def test_a_copy_knows_which_pods_it_was_made_of() -> None:
    """Another one in the place of one that failed is news to it."""
    before, after = (with_phases(**dict.fromkeys(names, "Pending")) for names in ("ab", "ac"))
    one, two = PODS.local_job(before).live, PODS.local_job(after).live
    assert len({one, two, ""}) == 3
    made = copy_of(before, IDENTITY, held(), kind=PODS, vendors=VENDORS)
    assert PODS.remote_job("w", stored_copy(made)).live == one
    assert PODS.live_patch(after) == {"metadata": {"annotations": {"fedq.io/live": two}}}
    assert PODS.local_job(bundle([pod("a")])).live == ""


def test_a_latecomer_goes_where_the_others_went() -> None:
    """One for each that was charged and does not run; none before the group is started."""
    assert PODS.late_patch(trio(), [FLAVOR]) is None
    after = started(trio())
    assert PODS.late_patch(after, [FLAVOR]) is None
    late = pod("d", cpu="1", total=3)
    others = [p for p in after["spec"]["pods"] if p["metadata"]["name"] != "b"]
    patch = PODS.late_patch(bundle([*others, late]), [FLAVOR])
    assert patch is not None
    assert list(patch["spec"]["pods"]) == ["d"]
    gone = merge(deepcopy(late), patch["spec"]["pods"]["d"])
    assert gone["spec"]["schedulingGates"] == []
    assert gone["spec"]["nodeSelector"] == {"pool": "gold"}
    assert "annotations" not in patch["metadata"]
    assert PODS.late_patch(bundle([*others, gone]), [FLAVOR]) is None
    assert PODS.late_patch(bundle([*after["spec"]["pods"], late]), [FLAVOR]) is None
    other = pod("d", cpu="9", total=3)
    assert PODS.late_patch(bundle([*others, other]), [FLAVOR]) is None


ROLE = "kueue.x-k8s.io/role-hash"


def test_what_pods_say_of_their_role_is_not_heeded() -> None:
    """Else large pods would be charged as the small one of their group."""
    forged = {ROLE: "same"}
    obj = bundle([pod(n, cpu=c, total=2, annotations=forged) for n, c in (("a", "1"), ("b", "64"))])
    asked = sorted((p.count, p.requests["cpu"]) for p in PODS.pod_sets(obj))
    assert asked == [(1, 1000), (1, 64000)]


def test_a_copy_keeps_its_role_but_not_for_what_asks_for_something_else() -> None:
    made = copy_of(trio(), IDENTITY, held(), kind=PODS, vendors=VENDORS)
    assert PODS.problem(stored_copy(made)) == ""
    after = started(stored_copy(made))
    assert PODS.problem(after) == ""
    half = [*after["spec"]["pods"][1:], stored_copy(made)["spec"]["pods"][0]]
    assert PODS.problem(bundle(half)) == ""
    for found in made["spec"]["pods"]:
        found["metadata"]["annotations"][ROLE] = "same"
    assert f"{ROLE} same do not ask for the same" in PODS.problem(stored_copy(made))


@pytest.mark.parametrize(
    "more",
    [
        {"overhead": {"cpu": "8"}},
        {"resources": {"requests": {"cpu": "8"}}},
        {"resourceClaims": [{"name": "c", "resourceClaimName": "cards"}]},
        {
            "initContainers": [
                {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
            ]
        },
    ],
)
def test_pods_that_are_charged_differently_are_not_alike(more: Json) -> None:
    one, two = pod("a", total=2), pod("b", total=2)
    one["spec"]["initContainers"] = deepcopy(more.get("initContainers") or [])
    for container in one["spec"]["initContainers"]:
        del container["restartPolicy"]
    two["spec"] |= more
    assert [p.count for p in PODS.pod_sets(bundle([one, two]))] == [1, 1]


def test_pods_of_a_group_are_in_one_queue() -> None:
    members = [pod("a", total=2), pod("b", total=2)]
    members[1]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "other"
    assert "different queues (lq, other)" in PODS.local_job(bundle(members)).problem


def test_a_serving_group_keeps_its_quota() -> None:
    found = with_phases(a="Succeeded", b="Running")
    found["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-serving"] = "true"
    assert PODS.reclaimable(found, found) == {}
