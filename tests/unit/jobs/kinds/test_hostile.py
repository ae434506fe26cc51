"""What no schema checks and no controller would write: it is told, and breaks nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.bound import has_pods
from federation.core.facts import JobState
from federation.core.types import PodSet
from federation.jobs import token
from federation.jobs.kinds.pod_groups import group_of
from federation.jobs.kinds.registry import KINDS
from manager.statuses import end_message
from tests.unit.jobs.kinds import test_scaled
from tests.unit.jobs.kinds.samples import SPECS, sample, template
from worker_agent.facts import worker_job

Json = dict[str, Any]
MANAGER = "kueue.x-k8s.io/multikueue"
NOTE = "fedq.io/admission"
DEEP = "[" * 200_000


def row(kind: str) -> Any:
    return next(k.row for k in KINDS if k.kind == kind and hasattr(k, "row"))


def wrapped(pod: Json, **component: Any) -> Json:
    """An AppWrapper around a Pod: the API server takes anything inside."""
    inner = {"apiVersion": "v1", "kind": "Pod", **pod}
    spec = {"managedBy": MANAGER, "suspend": True, "components": [{"template": inner, **component}]}
    return {**sample(row("AppWrapper")), "spec": spec}


def of(kind: str, **spec: Any) -> Json:
    """The sample of a kind, as it would be managed, with some fields of its spec."""
    obj = sample(row(kind))
    return {**obj, "spec": {**obj["spec"], "managedBy": MANAGER, **spec}}


def told(obj: Json) -> str:
    return KINDS.of(obj).local_job(obj).problem


def hashes(sets: tuple[PodSet, ...]) -> int:
    """The scheduler looks pod sets up by what they ask for."""
    return hash(tuple((s.node_selector, s.affinity, s.tolerations) for s in sets))


def affinity(*values: Any) -> Json:
    match = {"key": "k", "operator": "In", "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [match]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": ["a"]}]},
        {"tolerations": [{"key": "a", "value": {"b": 1}}]},
        {"affinity": affinity({"a": 1})},
        {"affinity": affinity(["a"])},
        {"runtimeClassName": {"a": 1}},
        {"priorityClassName": ["a"]},
        {"schedulingGates": [{"name": ["a"]}]},
        {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": ["b"]}]},
    ],
)
def test_values_in_templates_that_are_no_text(spec: Json) -> None:
    obj = wrapped(template(**spec))
    local = KINDS.of(obj).local_job(obj)
    assert local.problem
    hashes(local.pod_sets)


def test_a_template_whose_metadata_is_null() -> None:
    body = template()
    body["metadata"] = None
    token.add(body, test_scaled.IDENTITY)
    assert body["metadata"]["annotations"]["fedq.io/attempt"] == "3"


@pytest.mark.parametrize("absent", ["5", '{"a": 1}', '"spec"', "[[1]]"])
def test_a_forged_note_of_a_start(absent: str) -> None:
    obj = of("JobSet")
    text = f'{{"original": {{"templates": {{"workers": {{"absent": {absent}}}}}}}}}'
    obj["metadata"]["annotations"] = {NOTE: text}
    assert told(obj) == ""
    assert KINDS.of(obj).pod_sets(obj) == KINDS.of(obj).pod_sets(of("JobSet"))


@pytest.mark.parametrize("note", [DEEP, '[[["spec", {}], 0]]', '[[["spec", []], 0]]', "7"])
def test_a_forged_note_of_replicas(note: str) -> None:
    obj = test_scaled.sample(row("StatefulSet"))
    obj["metadata"]["annotations"] = {"fedq.io/replicas": note}
    assert [pods.count for pods in KINDS.of(obj).pod_sets(obj)] == [3]


@pytest.mark.parametrize("groups", [DEEP, '[{"minMember": Infinity}]', '[{"minMember": "x"}]'])
def test_task_groups_that_are_none(groups: str) -> None:
    notes = {"yunikorn.apache.org/app-id": "a", "yunikorn.apache.org/task-groups": groups}
    meta = {"name": "p", "namespace": "team", "annotations": notes}
    assert group_of({"metadata": meta}).total == 0


@pytest.mark.parametrize(
    ("field", "text"),
    [("memory", "9" * 5000 + "g"), ("memoryOverhead", "9" * 5000), ("memory", "²g")],
)
def test_amounts_of_spark_beyond_counting(field: str, text: str) -> None:
    obj = sample(row("SparkApplication"))
    obj["spec"]["driver"][field] = text
    assert f"spec.driver.{field}" in told(obj)


@pytest.mark.parametrize("factor", ["1e999999999", "9" * 5000, "much"])
def test_a_factor_of_spark_beyond_counting(factor: str) -> None:
    obj = sample(row("SparkApplication"))
    obj["spec"]["memoryOverheadFactor"] = factor
    assert "spec.memoryOverheadFactor" in told(obj)


NO_ROOM = template(nodeSelector={"a": None})
"""The API server takes null for an empty text."""


def typed(kind: str) -> Json:
    return {"apiVersion": row(kind).api_version, "kind": kind}


WHOLE = "needs podSets here"


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (wrapped(NO_ROOM), "spec.components[0]: cannot be read as a pod template"),
        (
            wrapped(template(), podSets=[{"path": "template.gone"}]),
            "spec.components[0]: what podSets[0].path leads to (template.gone)",
        ),
        (
            wrapped(template(), podSets=[{"path": "template", "replicas": "3"}]),
            "podSets[0].replicas is '3'",
        ),
        (wrapped(template(), podSets={"path": "template"}), "podSets is no list"),
        (
            wrapped({"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}),
            WHOLE,
        ),
        (wrapped({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}), WHOLE),
        (of("JobSet", replicatedJobs=[3]), "spec.replicatedJobs[0] is no object"),
    ],
)
def test_pods_that_cannot_be_counted(obj: Json, why: str) -> None:
    """Beside others that can be: to pass them over would let them run without quota."""
    more = {"template": {"apiVersion": "v1", "kind": "Pod", **template()}}
    for field, item in (("components", more), ("replicatedJobs", replicated())):
        if field in obj["spec"]:
            obj["spec"][field].append(item)
    assert why in told(obj)


def replicated(**fields: Any) -> Json:
    job = {key: fields.pop(key) for key in ("parallelism", "completions") if key in fields}
    return {"name": "a", "template": {"spec": {"template": template(), **job}}, **fields}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"replicas": "4"}, "spec.replicatedJobs[0].replicas is '4'"),
        ({"replicas": 2.5}, "spec.replicatedJobs[0].replicas is 2.5"),
        ({"parallelism": "4"}, "spec.replicatedJobs[0].template.spec.parallelism is '4'"),
        ({"replicas": -1}, "negative"),
        ({"replicas": -2, "parallelism": -3}, "negative"),
        ({"replicas": 2**31}, "beyond what can be counted"),
        ({"replicas": 2**30, "parallelism": 4}, "beyond what can be counted"),
        ({"name": "my_job"}, "a pod set would have the name 'my_job'"),
        ({"name": "a" * 64}, "a pod set would have the name"),
        ({"name": ""}, "a pod set would have the name ''"),
    ],
)
def test_numbers_and_names_of_pods(fields: Json, why: str) -> None:
    assert why in told(of("JobSet", replicatedJobs=[replicated(**fields)]))


def test_numbers_that_are_null_are_not_set() -> None:
    nulls = dict.fromkeys(("replicas", "parallelism", "completions"))
    obj = of("JobSet", replicatedJobs=[replicated(**nulls)])
    assert (told(obj), [pods.count for pods in KINDS.of(obj).pod_sets(obj)]) == ("", [1])


each = pytest.mark.parametrize("kind", [k for k in KINDS if not k.bundled and k.plural != "jobs"])


@each
@pytest.mark.parametrize("spec", [None, 3, [], "x"])
def test_objects_without_a_spec(kind: Any, spec: Any) -> None:
    """Not every CRD requires one."""
    obj = sample(row("JobSet")) | {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
    assert kind.local_job(obj).problem
    kind.remote_job("w", obj)
    found = worker_job(obj)
    assert found is None or found.problem
    del obj["spec"]
    assert kind.local_job(obj).problem


@each
@pytest.mark.parametrize("status", [3, ["x"], "x", {"conditions": [3, {}, {"type": ["x"]}]}])
def test_statuses_that_are_none(kind: Any, status: Any) -> None:
    obj = sample(kind.row) if kind.row.kind in SPECS else test_scaled.sample(kind.row)
    obj["status"] = status
    local, remote = kind.local_job(obj), kind.remote_job("w", obj)
    kind.is_behind(local, remote)
    assert not has_pods(remote) or kind.row.stopped
    worker_job(obj)
    state = JobState(remotes={"w": replace(remote, finished="Complete")})
    assert (
        end_message(state, "Complete", "w") == "the job ended as Complete on cluster w, attempt 0"
    )
