"""Every kind of the table: what it asks for, how it starts and is as before, what it says."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.api.kinds.row import Row
from federation.api.kinds.table import ROWS
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import Admission, PodSetAssignment, ResourceFlavor, Toleration
from federation.jobs.kinds.registry import KINDS
from federation.jobs.kinds.unheeding import Unheeding
from federation.jobs.mirror import Identity
from tests.fakes.patches import merge
from tests.unit.jobs.kinds.samples import POD_SETS, SPECS, STATUSES, sample

Json = dict[str, Any]
FLAVOR = ResourceFlavor(
    "gold", node_labels=(("pool", "gold"),), tolerations=(Toleration("t", "Exists"),)
)
IDENTITY = Identity("origin", "u", 3, 2, "2026-01-01T00:00:00Z", 5)
MANAGER = "kueue.x-k8s.io/multikueue"

each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind)


def kind_of(row: Row) -> Any:
    return KINDS[row.name]


def admitted(row: Row, flavor: str = "gold") -> Admission:
    return Admission(
        "cq",
        tuple(
            PodSetAssignment(name, count, {"cpu": flavor}, {"cpu": 1000 * count})
            for name, count in POD_SETS[row.kind].items()
        ),
    )


def test_every_kind_has_a_sample() -> None:
    assert {row.kind for row in ROWS} == SPECS.keys() == POD_SETS.keys() == STATUSES.keys()


@each
def test_pod_sets(row: Row) -> None:
    """Names in small letters, in the order of the table, with their numbers of pods."""
    found = kind_of(row).pod_sets(sample(row))
    assert [(pods.name, pods.count) for pods in found] == list(POD_SETS[row.kind].items())
    assert all(pods.requests.get("cpu", 0) > 0 for pods in found)
    assert kind_of(row).problem(sample(row)) == ""


@each
def test_a_copy_is_suspended_and_has_no_manager(row: Row) -> None:
    obj = sample(row, suspended=False)
    if row.managed_by:
        obj["spec"] = put(obj["spec"], row.managed_by[1:], MANAGER)
    for path in row.dropped:
        obj["spec"] = put(obj["spec"], path[1:], 60)
    copy = kind_of(row).remote_manifest(obj, IDENTITY, None, VENDORS)
    copy["metadata"] |= {"uid": "c", "resourceVersion": "9"}
    remote = kind_of(row).remote_job("w", copy)
    assert (remote.suspended, remote.attempt, remote.kind) == (True, 3, row.name)
    assert not kind_of(row).managed_elsewhere(copy)
    assert copy["spec"] == sample(row)["spec"]
    assert "status" not in copy


def put(spec: Json, path: tuple[str, ...], value: Any) -> Json:
    if len(path) == 1:
        return {**spec, path[0]: value}
    return {**spec, path[0]: put(spec.get(path[0], {}), path[1:], value)}


@each
def test_of_a_copy_that_was_submitted_unmanaged_nothing_is_missing(row: Row) -> None:
    made = kind_of(row).remote_manifest(sample(row), IDENTITY, None, VENDORS)
    assert made["spec"] == sample(row)["spec"]


@each
def test_start_and_restore(row: Row) -> None:
    """Flavors of each pod set reach its template; what is put back is what was submitted."""
    kind, obj = kind_of(row), sample(row)
    update = PodSetUpdate(next(iter(POD_SETS[row.kind])), labels={"check": "ok"})
    patch = kind.admission_patch(obj, admitted(row), [FLAVOR], [update])
    assert patch["metadata"]["resourceVersion"] == "7"
    started = merge(deepcopy(obj), patch)
    assert not kind.suspended(started)
    for role in kind.roles(started):
        if role.name == "submitter":
            continue  # it is not described, so KubeRay makes it as it likes
        assert role.template["spec"]["nodeSelector"]["pool"] == "gold"
        assert {"operator": "Exists", "key": "t"} in role.template["spec"]["tolerations"]
    assert kind.pod_sets(started) == kind.pod_sets(obj)
    assert restored(kind, started) == obj


def restored(kind: Any, started: Json) -> Json:
    suspended = merge(deepcopy(started), {"spec": kind.suspend(suspend=True)})
    after = merge(suspended, kind.restore_patch(suspended))
    after["metadata"].pop("annotations", None)
    return after


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=2)


@each
@given(data=st.data())
def test_any_start_is_undone_exactly(row: Row, data: st.DataObject) -> None:
    """Whatever templates have already, and whatever is added to which pod set."""
    kind, obj = kind_of(row), sample(row)
    before = {}
    for role in kind.roles(obj):
        made = deepcopy(role.template)
        if labels := data.draw(LABELS):
            made["metadata"] = {"labels": labels}
        if data.draw(st.booleans()):
            made["spec"]["nodeSelector"] = data.draw(LABELS) or {"own": "1"}
        if data.draw(st.booleans()):
            made["spec"]["tolerations"] = [{"key": "mine", "operator": "Exists"}]
        before[role.name] = made
    obj = kind.with_templates(obj, before)
    flavors = [
        ResourceFlavor("gold", node_labels=tuple(data.draw(LABELS).items())),
        FLAVOR.__class__("rest", tolerations=FLAVOR.tolerations),
    ]
    updates = [PodSetUpdate(name, labels=data.draw(LABELS)) for name in before]
    admission = admitted(row, data.draw(st.sampled_from(["gold", "rest"])))
    started = merge(deepcopy(obj), kind.admission_patch(obj, admission, flavors, updates))
    assert restored(kind, started) == obj


@each
def test_what_it_says_of_itself(row: Row) -> None:
    """Ready, ended with a reason, or stopped; before that, pods may be there. Its controller may
    have said so too early: whoever removes its copy waits for the pods.
    """
    kind, said = kind_of(row), STATUSES[row.kind]
    for ended in ("Complete", "Failed"):
        if ended in said:
            obj = sample(row, suspended=False, status=said[ended])
            remote = kind.remote_job("w", obj)
            assert (remote.finished, remote.ready, remote.busy) == (ended, True, False)
            assert kind.running(obj).active == 0
    assert ("Complete" in said) == bool(row.complete)
    if "ready" in said:
        assert kind.remote_job("w", sample(row, suspended=False, status=said["ready"])).ready
    served = {"activeServiceStatus": {"rayClusterName": "r"}}
    stopping = sample(row, status=served if row.kind == "RayService" else {"x": 1})
    assert kind.remote_job("w", stopping).busy
    assert not kind.running(stopping).gone
    stopped = sample(row, status=said["stopped"])
    assert kind.remote_job("w", stopped).busy
    assert not kind.remote_job("w", sample(row)).busy
    assert kind.running(stopped).gone
    assert kind.running(sample(row)).gone
    assert kind.finished(stopped) == ""


@each
def test_the_whole_status_comes_back(row: Row) -> None:
    kind = kind_of(row)
    said = "Complete" if isinstance(kind, Unheeding) else "stopped"  # of these only the end does
    status = STATUSES[row.kind][said]
    local = kind.local_job(managed(row))
    remote = kind.remote_job("w", sample(row, suspended=False, status=status))
    assert kind.is_behind(local, remote)
    assert kind.merge_status(local.status, remote.status) == status
    shown = kind.local_job({**managed(row), "status": status})
    assert not kind.is_behind(shown, remote)
    assert kind.reset_status(status, "") == {}


def managed(row: Row) -> Json:
    obj = sample(row)
    if row.managed_by:
        obj["spec"] = put(obj["spec"], row.managed_by[1:], MANAGER)
    return obj


@each
def test_on_the_management_cluster(row: Row) -> None:
    """Managed by Fedq, else its problem says what to do; it shows whether it runs."""
    kind = kind_of(row)
    local = kind.local_job(managed(row))
    assert (local.problem, local.suspended, local.queue, local.kind) == ("", True, "lq", row.name)
    if row.managed_by:
        assert ".".join(row.managed_by) in kind.local_job(sample(row)).problem
    else:
        assert "suspend" in kind.local_job(sample(row, suspended=False)).problem
    running = merge(managed(row), kind.local_suspend(suspend=False))
    assert not kind.local_job(running).suspended
    back = merge(running, kind.local_suspend(suspend=True))
    assert kind.local_job(back).suspended
    assert back["spec"] == managed(row)["spec"]


@each
def test_nothing_is_found_where_nothing_is(row: Row) -> None:
    """Objects that make no sense are told as problems, and break nothing."""
    kind = kind_of(row)
    for spec in ({}, {"components": 3}, {row.suspend[1]: None}):
        obj = {**sample(row), "spec": spec}
        assert kind.local_job(obj).problem
        kind.remote_job("w", obj)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["spec", "template", "containers", "metadata", "labels", "resources"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def spoil(value: Any, path: list[int], junk: Any) -> Any:
    """The value with something else at a place; numbers choose the way."""
    if not path or not isinstance(value, dict | list) or not value:
        return junk
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[path[0] % len(keys)]
    inner = spoil(value[key], path[1:], junk)
    if isinstance(value, dict):
        return {**value, key: inner}
    return [*value[:key], inner, *value[key + 1 :]]


@each
@given(way=st.lists(st.integers(0, 5), min_size=1, max_size=7), junk=JUNK, told=JUNK)
def test_no_object_breaks_the_reader(row: Row, way: list[int], junk: Any, told: Any) -> None:
    """No schema looks into custom resources of others: an object that makes no sense has a
    problem, or asks for something else, and does no harm to others.
    """
    kind = kind_of(row)
    obj = {**managed(row), "status": told if isinstance(told, dict) else {"conditions": told}}
    spec = spoil(obj["spec"], way, junk)
    obj = {**obj, "spec": spec if isinstance(spec, dict) else {}}
    local = kind.local_job(obj)
    kind.remote_job("w", obj)
    kind.running(obj)
    kind.reclaimable(obj, obj)
    if not local.problem:
        kind.remote_manifest(obj, IDENTITY, None, VENDORS)
        kind.admission_patch(obj, admitted(row), [FLAVOR])


def test_patches_of_kueue_stay_where_a_train_job_was_submitted() -> None:
    """Those of others go with the copy."""
    kind: Any = KINDS["TrainJob.v1alpha1.trainer.kubeflow.org"]
    obj, theirs = sample(kind.row), {"manager": "example.com/them"}
    bare = kind.remote_manifest(obj, IDENTITY, None, VENDORS)["spec"]
    here = admitted(kind.row)
    started = merge(deepcopy(obj), kind.admission_patch(obj, here, [FLAVOR]))
    started["spec"]["suspend"] = True
    assert kind.remote_manifest(started, IDENTITY, None, VENDORS)["spec"] == bare
    started["spec"]["runtimePatches"].insert(0, theirs)
    copy = kind.remote_manifest(started, IDENTITY, None, VENDORS)
    assert copy["spec"] == {**bare, "runtimePatches": [theirs]}


def test_a_train_job_is_placed_before_it_is_started() -> None:
    """Its operator takes patches of the runtime only of one that stays suspended."""
    row = next(row for row in ROWS if row.kind == "TrainJob")
    kind, obj = kind_of(row), sample(row)
    patch = kind.admission_patch(obj, admitted(row), [FLAVOR])
    placed, start = kind.start_writes(patch)
    assert merge(deepcopy(obj), placed)["spec"]["suspend"] is True
    assert placed["metadata"] == patch["metadata"]
    both = merge(merge(deepcopy(obj), placed), start)
    assert both["spec"] == merge(deepcopy(obj), patch)["spec"]
    assert kind.start_writes({**patch, "spec": {"suspend": False}})[0]["spec"] == {"suspend": False}


@pytest.mark.parametrize("name", ["JAXJob", "MXJob", "SparkApplication", "TrainJob"])
def test_what_heeds_no_manager_keeps_the_status_of_its_operator(name: str) -> None:
    """Until it has ended: two that write one status would never agree."""
    row = next(row for row in ROWS if row.kind == name)
    kind = kind_of(row)
    held = sample(row, status=STATUSES[name]["stopped"])
    local = kind.local_job(held)
    assert (local.started, local.problem, dict(local.status)) == (False, "", {})
    assert kind.local_job(sample(row, suspended=False)).problem
    runs = kind.remote_job("w", sample(row, suspended=False, status={"x": 1}))
    assert not kind.is_behind(local, runs)
    ended = kind.remote_job("w", sample(row, suspended=False, status=STATUSES[name]["Failed"]))
    assert kind.is_behind(local, ended)
    assert kind.local_job(sample(row, status=STATUSES[name]["Failed"])).finished == "Failed"
