"""The stage file: kwok's kinds and fields, and the annotations that tests rely on."""

from __future__ import annotations

from typing import Any

import yaml

from fedq.rig.components import STAGES


def stages() -> dict[str, dict[str, Any]]:
    """Stage name → spec."""
    documents = list(yaml.safe_load_all(STAGES.read_text()))
    assert all(
        (document["apiVersion"], document["kind"]) == ("kwok.x-k8s.io/v1alpha1", "Stage")
        for document in documents
    )
    return {document["metadata"]["name"]: document["spec"] for document in documents}


def test_file_holds_the_life_of_nodes_and_pods() -> None:
    """One stage for nodes, three for pods."""
    kinds = {name: spec["resourceRef"]["kind"] for name, spec in stages().items()}

    assert kinds == {
        "node-ready": "Node",
        "pod-running": "Pod",
        "pod-ended": "Pod",
        "pod-deleted": "Pod",
    }


def test_run_time_comes_from_the_annotation_and_else_is_a_second() -> None:
    """kwok parses a duration string, so the unit is added to the number."""
    delay = stages()["pod-ended"]["delay"]

    assert delay["durationMilliseconds"] == 1000
    assert 'annotations["fedq.io/run-seconds"] // "1"' in delay["durationFrom"]["jq"]["expression"]
    assert "fedq.io/exit-code" in str(stages()["pod-ended"]["steps"])


def test_every_status_patch_is_strategic() -> None:
    """A merge patch would wipe the conditions that the scheduler set."""
    patches = [
        step["patch"] for spec in stages().values() for step in spec["steps"] if "patch" in step
    ]

    assert len(patches) == 3
    assert {(patch["type"], patch["subresource"]) for patch in patches} == {("strategic", "status")}


def test_pods_with_a_real_process_are_left_alone() -> None:
    """The runner does all of it: their life has nothing of kwok's timing in it."""
    rule = {
        "key": '.metadata.labels["fedq.io/process"] // ""',
        "operator": "NotIn",
        "values": ["true"],
    }
    for name, spec in stages().items():
        rules = [expression["jq"] for expression in spec["selector"]["matchExpressions"]]
        assert (rule in rules) == (name != "node-ready")
