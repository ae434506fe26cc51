"""Pods that no quota would help: the sentence that their workload's condition says."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.limit_range import summarize
from federation.jobs.admissibility import problem
from federation.jobs.containers import PodDefaults, limit_items

Json = dict[str, Any]
Sets = list[tuple[str, int, Json]]


def box(requests: Json | None = None, limits: Json | None = None) -> Json:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


def template(*containers: Json, annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": list(containers), **spec},
    }


def one(*containers: Json, **more: Any) -> Sets:
    return [("main", 1, template(*containers, **more))]


def limits(kind: str = "Container", **amounts: Json) -> PodDefaults:
    items = limit_items({"spec": {"limits": [{"type": kind, **amounts}]}})
    return PodDefaults(summarize(items))


FINE: dict[str, tuple[Sets, PodDefaults | None]] = {
    "no pods at all": ([("main", 0, template())], None),
    "two pod sets": ([("a", 1, template(box())), ("b", 2, template(box()))], None),
    "requests equal to limits": (one(box({"cpu": "1"}, {"cpu": "1000m"})), None),
    "within the LimitRange": (one(box({"cpu": "2"})), limits(min={"cpu": "1"}, max={"cpu": "2"})),
    "a container without requests gets the default": (one(box()), limits(min={"cpu": "1"})),
    "a pod within": (one(box({"cpu": "1"}), box({"cpu": "1"})), limits("Pod", max={"cpu": "2"})),
    "claims are no pods": (one(box({"cpu": "1"})), limits("PersistentVolumeClaim", max={"cpu": 0})),
    "a resource called like pods": (one(box({"example.com/pods": "1"})), None),
    "zero": (one(box({"cpu": "0", "gpu": 0})), None),
}


@pytest.mark.parametrize("name", FINE)
def test_nothing_against_it(name: str) -> None:
    assert problem(*FINE[name]) == ""


BAD: dict[str, tuple[Sets, PodDefaults | None, str]] = {
    "a request above its limit": (
        one(box(), box({"cpu": "2"}, {"cpu": "1"})),
        None,
        "pod set main: resource validation failed: containers[1] (c): requests must not exceed"
        " limits: cpu 2 > 1",
    ),
    "of an init container": (
        one(initContainers=[box({"cpu": "2"}, {"cpu": "1"})]),
        None,
        "pod set main: resource validation failed: initContainers[0] (c): requests must not exceed"
        " limits: cpu 2 > 1",
    ),
    "of the pod as a whole": (
        one(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        None,
        "pod set main: resource validation failed: pod-level resources: requests must not exceed"
        " limits: cpu 2 > 1",
    ),
    "a default request above the limit that is given": (
        one(box(limits={"memory": "1"})),
        limits(max={"cpu": "1"}, default={"cpu": "3"}),
        "pod set main: didn't satisfy LimitRange constraints: containers[0] (c): requests must not"
        " be above the LimitRange's max: cpu 3 > 1",
    ),
    "above the max": (
        one(box({"cpu": "2"})),
        limits(max={"cpu": "1"}),
        "pod set main: resource validation failed: containers[0] (c): requests must not exceed"
        " limits: cpu 2 > 1; didn't satisfy LimitRange constraints: containers[0] (c): requests"
        " must not be above the LimitRange's max: cpu 2 > 1",
    ),
    "below the min": (
        one(box({"cpu": "500m"})),
        limits(min={"cpu": "1"}),
        "pod set main: didn't satisfy LimitRange constraints: containers[0] (c): requests must not"
        " be below the LimitRange's min: cpu 500m < 1",
    ),
    "all containers together above the max of a pod": (
        one(box({"cpu": "1"}), box({"cpu": "1001m"})),
        limits("Pod", max={"cpu": "2"}),
        "pod set main: didn't satisfy LimitRange constraints: the whole pod: requests must not be"
        " above the LimitRange's max: cpu 2001m > 2",
    ),
    "overhead counts for a pod's max": (
        one(box({"cpu": "2"}), overhead={"cpu": "1"}),
        limits("Pod", max={"cpu": "2"}),
        "pod set main: didn't satisfy LimitRange constraints: the whole pod: requests must not be"
        " above the LimitRange's max: cpu 3 > 2",
    ),
    "a ratio": (
        one(box({"cpu": "1"}, {"cpu": "4"})),
        limits(maxLimitRequestRatio={"cpu": "2"}),
        "pod set main: didn't satisfy LimitRange constraints: containers[0] (c): limits must not be"
        " more times the requests than the LimitRange's maxLimitRequestRatio: cpu 4 > 2",
    ),
    "a negative request": (
        one(box({"gpu": "-1", "cpu": "-2"})),
        None,
        "pod set main: containers[0] (c): cpu, gpu must not be negative",
    ),
    "a negative overhead": (
        one(overhead={"cpu": "-1"}),
        None,
        "pod set main: overhead: cpu must not be negative",
    ),
    "pods as a resource": (
        one(box({"pods": "1"})),
        None,
        "pod set main: containers[0] (c): the resource name 'pods' is kept for the number of pods:"
        " remove it",
    ),
    "a quantity that cannot be read": (
        one(box({"cpu": "some"})),
        None,
        "pod set main: a resource request is not valid: cpu: 'some' is not a quantity: write for"
        " example 500m, 2, 16Gi",
    ),
    "two pod sets of one name": (
        [("a", 1, template()), ("b", 1, template()), ("a", 1, template())],
        None,
        "two pod sets have the name a: every pod set needs a name of its own",
    ),
    "too many pod sets": (
        [(f"p{n}", 1, template()) for n in range(19)],
        None,
        "a workload has at most 18 pod sets, this one has 19",
    ),
    "fewer than no pods": (
        [("main", -1, template())],
        None,
        "pod set main: its number of pods is negative (-1)",
    ),
    "a topology that contradicts itself": (
        one(annotations={"kueue.x-k8s.io/podset-slice-size": "2"}),
        None,
        "pod set main: annotations kueue.x-k8s.io/podset-slice-required-topology and"
        " kueue.x-k8s.io/podset-slice-size go together, or"
        " kueue.x-k8s.io/podset-slice-required-topology-constraints stands alone",
    ),
    "the second pod set": (
        [("a", 1, template(box())), ("b", 1, template(box({"cpu": "-1"})))],
        None,
        "pod set b: containers[0] (c): cpu must not be negative",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_problems(name: str) -> None:
    """kueue-admission.md §1.5, §2.4 and §10 items 35 and 36."""
    sets, defaults, text = BAD[name]
    assert problem(sets, defaults) == text


def test_what_is_too_long_to_read() -> None:
    """Is a problem of that workload."""
    assert "cpu" in problem(one(box({"cpu": "9" * 5000})))
