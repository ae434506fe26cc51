"""AppWrapper as its own controller and webhook (1.2) want it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from federation.api.kinds.table import ROWS
from federation.api.names import Label
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import Admission, PodSetAssignment, ResourceFlavor, Toleration
from federation.jobs.kinds.registry import KINDS
from federation.jobs.mirror import Identity
from tests.fakes.patches import merge
from tests.unit.jobs.kinds.samples import sample, template

Json = dict[str, Any]
ROW = next(row for row in ROWS if row.kind == "AppWrapper")
KIND = KINDS[ROW.name]
FLAVOR = ResourceFlavor(
    "gold", node_labels=(("pool", "gold"),), tolerations=(Toleration("t", "Exists"),)
)
TOLERATION = {"operator": "Exists", "key": "t"}


def wrapping(*components: Json, status: Json | None = None) -> Json:
    obj = sample(ROW, status=status)
    obj["spec"]["components"] = list(components)
    return obj


def component(api_version: str, kind: str, spec: Json, *paths: str) -> Json:
    wrapped = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    declared = [{"replicas": 2, "path": path} for path in paths]
    return {"template": wrapped, **({"podSets": declared} if declared else {})}


def job(**labels: str) -> Json:
    made = component("batch/v1", "Job", {"template": template()})
    made["template"]["metadata"]["labels"] = labels
    return made


def admitted(obj: Json) -> Admission:
    given = (
        PodSetAssignment(role.name, role.count, {"cpu": "gold"}, {"cpu": 1000})
        for role in KIND.roles(obj)
    )
    return Admission("cq", tuple(given))


def test_a_start_adds_to_pod_sets_and_changes_nothing_that_is_wrapped() -> None:
    """The webhook refuses all else. What was added before stays, in the order of the pod sets."""
    obj = sample(ROW)
    obj["spec"]["components"][0]["podSetInfos"] = [{}, {"labels": {"mine": "1"}}]
    update = PodSetUpdate("j-2", labels={"check": "ok"}, annotations={"note": "x"})
    patch = KIND.admission_patch(obj, admitted(obj), [FLAVOR], [update])
    started = merge(deepcopy(obj), patch)
    placed = {"nodeSelector": {"pool": "gold"}, "tolerations": [TOLERATION]}
    assert [one.get("podSetInfos") for one in started["spec"]["components"]] == [
        [placed, {"labels": {"mine": "1"}, **placed}],
        [{"labels": {"check": "ok"}, "annotations": {"note": "x"}, **placed}],
        None,
    ]
    for part in ("template", "podSets"):
        assert [one.get(part) for one in started["spec"]["components"]] == [
            one.get(part) for one in obj["spec"]["components"]
        ]
    held = merge(deepcopy(started), {"spec": KIND.suspend(suspend=True)})
    assert merge(held, KIND.restore_patch(held))["spec"] == obj["spec"]


def test_what_a_template_has_is_not_added() -> None:
    own = component("batch/v1", "Job", {"template": template()})
    own["template"]["spec"]["template"]["spec"] |= {
        "nodeSelector": {"pool": "gold"},
        "tolerations": [TOLERATION],
    }
    obj = wrapping(own)
    started = merge(deepcopy(obj), KIND.admission_patch(obj, admitted(obj), [FLAVOR]))
    assert started["spec"]["components"] == [own]


def test_a_copy_to_be_made_has_all_in_its_templates() -> None:
    """Nobody has seen it yet, so that its containers can be others, too."""
    copy = KIND.remote_manifest(wrapping(job()), Identity("o", "u", 1, 1, "", 0), None, VENDORS)
    made = template()
    made["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    made["metadata"] = {"labels": {"a": "b"}}
    (found,) = KIND.with_templates(copy, {"j-0": made})["spec"]["components"]
    assert found["template"]["spec"]["template"] == made
    assert "podSetInfos" not in found


def test_paths_have_indices() -> None:
    jobs = [{"name": str(n), "template": {"spec": {"template": template()}}} for n in range(2)]
    paths = [f"template.spec.replicatedJobs[{n}].template.spec.template" for n in (1, 0)]
    obj = wrapping(
        component("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}, *paths)
    )
    assert KIND.problem(obj) == ""
    assert [(role.name, role.count) for role in KIND.roles(obj)] == [("j-0", 2), ("j-1", 2)]
    obj["spec"]["components"][0]["podSets"][0]["path"] = paths[0].replace("1", "2")
    for odd in ("9" * 5000, "²", "", "1][0"):
        obj["spec"]["components"][0]["podSets"][0]["path"] = paths[0].replace("[1]", f"[{odd}]")
        assert "podSets[0].path" in KIND.problem(obj)
        assert len(KIND.roles(obj)) == 1


@pytest.mark.parametrize(
    ("api_version", "kind"), [("kubeflow.org/v1", "TFJob"), ("apps/v1", "ReplicaSet")]
)
def test_kinds_whose_pods_its_controller_does_not_find_need_pod_sets(
    api_version: str, kind: str
) -> None:
    """It would take them for done at once, and place nothing."""
    spec = {"template": template()}
    assert f"a {kind} needs podSets" in KIND.problem(wrapping(component(api_version, kind, spec)))
    declared = wrapping(component(api_version, kind, spec, "template.spec.template"))
    assert KIND.problem(declared) == ""


def test_a_part_that_would_be_queued_once_more_is_told() -> None:
    named = {Label.QUEUE_NAME.value: "lq"}
    assert "spec.components[0].template has the label" in KIND.problem(wrapping(job(**named)))
    assert KIND.problem(wrapping(job())) == ""
    pods = template() | {"metadata": {"labels": named}}
    served = component("apps/v1", "Deployment", {"template": pods})
    assert "spec.components[1].template.spec.template" in KIND.problem(wrapping(job(), served))
    own = component("v1", "Pod", template()["spec"])
    own["template"]["metadata"]["labels"] = named
    assert KIND.problem(wrapping(own)) == ""


def test_one_that_failed_has_not_ended_while_it_has_pods() -> None:
    """Its controller keeps them for a time, if it says so, and then deletes them."""

    def said(deployed: str) -> Json:
        conditions = [
            {"type": "ResourcesDeployed", "status": deployed},
            {"type": "Unhealthy", "status": "True", "reason": "Oh", "message": "one has failed"},
        ]
        return wrapping(job(), status={"phase": "Failed", "conditions": conditions})

    busy, over = said("True"), said("False")
    assert (KIND.finished(busy), KIND.running(busy).active) == ("", 1)
    assert (KIND.finished(over), KIND.running(over).active) == ("Failed", 0)
    assert KIND.remote_job("w", over).ending == "Oh: one has failed"


def test_its_own_controller_named_is_nobody_named() -> None:
    assert ROW.controller == "workload.codeflare.dev/appwrapper-controller"
