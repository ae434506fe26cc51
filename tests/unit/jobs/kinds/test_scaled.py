"""Kinds that nothing holds back but a gate in their templates, or having no pods."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from federation.api.kinds.row import Row
from federation.api.kinds.table import SCALED
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.types import Admission, PodSetAssignment, ResourceFlavor
from federation.jobs.kinds.registry import KINDS
from federation.jobs.mirror import Identity
from tests.fakes.patches import merge
from tests.unit.jobs.kinds.samples import template

Json = dict[str, Any]
GATE = {"name": "kueue.x-k8s.io/admission"}
FLAVOR = ResourceFlavor("gold", node_labels=(("pool", "gold"),))
IDENTITY = Identity("origin", "u", 3, 2, "2026-01-01T00:00:00Z", 5)


def held(cpu: str = "1") -> Json:
    return template(cpu, schedulingGates=[GATE])


SPECS: dict[str, Json] = {
    "StatefulSet": {"replicas": 3, "template": held()},
    "LeaderWorkerSet": {
        "replicas": 2,
        "leaderWorkerTemplate": {
            "size": 4, "leaderTemplate": held("2"), "workerTemplate": held(),
        },
    },
    "Job": {
        "minAvailable": 3, "schedulerName": "volcano",
        "tasks": [
            {"name": "Master", "replicas": 1, "template": held()},
            {"name": "worker", "replicas": 4, "template": held()},
        ],
    },
}  # fmt: skip
POD_SETS = {
    "StatefulSet": {"main": 3},
    "LeaderWorkerSet": {"leader": 2, "worker": 6},
    "Job": {"master": 1, "worker": 4},
}
each = pytest.mark.parametrize("row", SCALED, ids=lambda row: row.kind)
no_pods = pytest.mark.parametrize("row", SCALED[:-1], ids=lambda row: row.kind)


def sample(row: Row, status: Json | None = None) -> Json:
    meta = {
        "name": "j",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"kueue.x-k8s.io/queue-name": "lq"},
    }
    obj = {"apiVersion": row.api_version, "kind": row.kind, "metadata": meta}
    return {**obj, "spec": deepcopy(SPECS[row.kind]), "status": status or {}}


def copied(row: Row) -> Json:
    body = KINDS[row.name].remote_manifest(sample(row), IDENTITY, None, VENDORS)
    body["metadata"] |= {"uid": "c", "resourceVersion": "9"}
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return body


def counts(sets: Any) -> dict[str, int]:
    return {pods.name: pods.count for pods in sets}


@each
def test_at_home(row: Row) -> None:
    """It waits, asks for all of its pods, and shows by a note that it runs elsewhere."""
    kind: Any = KINDS[row.name]
    local = kind.local_job(sample(row, {"readyReplicas": 0}))
    assert (local.problem, local.suspended) == ("", True)
    assert counts(local.pod_sets) == POD_SETS[row.kind]
    assert not kind.local_job(merge(sample(row), kind.local_suspend(suspend=False))).suspended
    assert kind.managed_elsewhere(sample(row))
    bare = kind.with_templates(sample(row), {r.name: template() for r in kind.roles(sample(row))})
    assert "scheduling gate" in kind.local_job(bare).problem
    assert local.status == {}


@no_pods
def test_a_copy_has_no_pods_and_is_started_with_all(row: Row) -> None:
    """As it was submitted, without the gate, on the nodes of its flavors."""
    kind: Any = KINDS[row.name]
    copy = copied(row)
    assert sum(role.count for role in kind.roles(copy)) == 0
    remote = kind.remote_job("w", copy)
    assert (remote.suspended, remote.busy, remote.attempt) == (True, False, 3)
    assert counts(kind.pod_sets(copy)) == POD_SETS[row.kind]
    assert not kind.managed_elsewhere(copy)
    sets = tuple(
        PodSetAssignment(name, count, {"cpu": "gold"}, {})
        for name, count in POD_SETS[row.kind].items()
    )
    patch = kind.admission_patch(copy, Admission("cq", sets), [FLAVOR])
    started = merge(copy, patch)
    assert not kind.suspended(started)
    assert {r.name: r.count for r in kind.roles(started)} == POD_SETS[row.kind]
    assert counts(kind.pod_sets(started)) == POD_SETS[row.kind]
    for role in kind.roles(started):
        assert role.template["spec"]["nodeSelector"] == {"pool": "gold"}
        assert "schedulingGates" not in role.template["spec"]
    assert kind.running(started).active


def test_ready_by_replicas() -> None:
    stateful: Any = KINDS["StatefulSet.v1.apps"]
    copy = merge(copied(stateful.row), {"spec": {"replicas": 3}})
    assert not stateful.ready({**copy, "status": {"readyReplicas": 2}})
    assert stateful.ready({**copy, "status": {"readyReplicas": 3}})
    assert stateful.finished({**copy, "status": {"readyReplicas": 3}}) == ""


def test_notes_that_make_no_sense_change_nothing() -> None:
    kind: Any = KINDS["StatefulSet.v1.apps"]
    copy = copied(kind.row)
    for text in ("{", "[1]", '[[["spec", "x"], 3]]', '[[["spec", "replicas"], "3"]]'):
        copy["metadata"]["annotations"]["fedq.io/replicas"] = text
        assert counts(kind.pod_sets(copy)) == {"main": 0}


BARE: dict[str, Json] = {
    "StatefulSet": {"template": held()},
    "LeaderWorkerSet": {"leaderWorkerTemplate": {"size": 4, "workerTemplate": held()}},
}  # fmt: skip


@no_pods
def test_numbers_that_are_left_out_are_written_down(row: Row) -> None:
    """By default a copy would have pods before it is admitted."""
    kind: Any = KINDS[row.name]
    copy = kind.remote_manifest({**sample(row), "spec": BARE[row.kind]}, IDENTITY, None, VENDORS)
    assert sum(role.count for role in kind.roles(copy)) == 0
    assert kind.original(copy)["spec"]["replicas"] == 1


@each
def test_without_pods_there_is_nothing_to_run(row: Row) -> None:
    kind: Any = KINDS[row.name]
    obj = sample(row)
    obj["spec"] |= {"replicas": 0}
    for task in obj["spec"].get("tasks", ()):
        task["replicas"] = 0
    assert "asks for no pods" in kind.local_job(obj).problem
