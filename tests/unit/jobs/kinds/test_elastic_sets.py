"""Worker groups of a RayCluster whose numbers change while it runs: what stands on its copy."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.api.kinds.table import ROWS
from federation.api.names import Mirror
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.sizes import Asked, Size
from federation.core.types import Admission, PodSetAssignment
from federation.jobs import elastic
from federation.jobs.batch_job import decode_admission
from federation.jobs.kinds.registry import KINDS
from federation.jobs.mirror import Identity
from tests.fakes.patches import merge
from tests.unit.jobs.kinds.samples import sample

Json = dict[str, Any]
RAY: Any = KINDS["RayCluster.v1.ray.io"]
IDENTITY = Identity("origin", "u", 1, 1, "2026-01-01T00:00:00Z", 0)
WHOLE = {"head": 1, "small": 3, "slices": 8}


def ray(*, elastic: bool = True, **fields: Any) -> Json:
    """A RayCluster; `fields` are those of its first worker group."""
    obj = sample(RAY.row)
    obj["spec"]["workerGroupSpecs"][0].update(fields)
    if elastic:
        obj["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    return obj


def admitted(**counts: int) -> Admission:
    sets = (PodSetAssignment(k, n, {"cpu": "f"}, {"cpu": 1000 * n}) for k, n in counts.items())
    return Admission("cq", tuple(sets))


def groups(obj: Json) -> list[Json]:
    found: list[Json] = obj["spec"]["workerGroupSpecs"]
    return found


def replicas(obj: Json) -> list[int]:
    return [group["replicas"] for group in groups(obj)]


def told(copy: Json, said: Any) -> Json:
    """The copy with a request of the manager."""
    text = said if isinstance(said, str) else json.dumps(said)
    notes = {**copy["metadata"].get("annotations", {}), Mirror.GROW_TO.value: text}
    return {**copy, "metadata": {**copy["metadata"], "annotations": notes}}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind)
def test_which_kinds_can(row: Any) -> None:
    """The operator follows the numbers of a RayCluster that runs, not those of what makes one."""
    obj = sample(row)
    obj["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    found = KINDS[row.name]
    assert found.elastic(obj) is (row.kind == "RayCluster")
    assert found.local_job(obj).elastic is found.elastic(obj)
    assert not found.elastic(sample(row))


def test_how_large_a_copy_is() -> None:
    """By pod set, in pods; without the annotation nothing follows."""
    assert RAY.remote_job("w", ray()).size == Size(WHOLE, WHOLE, WHOLE, {"slices": 4})
    assert RAY.remote_job("w", ray(elastic=False)).size is None
    assert RAY.at_once(ray(elastic=False)) == WHOLE


BOUNDS: dict[str, tuple[Json, int, Json]] = {
    "none": ({}, 5, {"replicas": 5, "minReplicas": 0, "maxReplicas": None}),
    "those of now": (
        {"minReplicas": 1, "maxReplicas": 9},
        5,
        {"replicas": 5, "minReplicas": 1, "maxReplicas": 9},
    ),
    "fewer than the least": (  # it was not given them: the operator must not make them
        {"minReplicas": 4, "maxReplicas": 9},
        2,
        {"replicas": 2, "minReplicas": 2, "maxReplicas": 9},
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_go_with_the_number(name: str) -> None:
    fields, pods, said = BOUNDS[name]
    found = RAY.resized(ray(**fields), {**WHOLE, "small": pods})
    assert found["small"] == said
    copy = merge(deepcopy(ray()), {"spec": RAY.resize(ray(), found)})
    assert {key: groups(copy)[0].get(key) for key in said} == said


def test_hosts() -> None:
    """A replica of a group with several hosts is so many pods."""
    said = RAY.resized(ray(), {**WHOLE, "slices": 12})
    assert said["slices"]["replicas"] == 3
    assert RAY.sized(ray(), said) == {**WHOLE, "slices": 12}


def test_only_numbers_change() -> None:
    """The list is written as a whole, as it is on the copy."""
    copy = ray(minReplicas=0)
    groups(copy)[0]["template"]["spec"]["nodeSelector"] = {"pool": "gold"}
    patch = RAY.resize(copy, {"small": {"replicas": 1}})
    expected = deepcopy(copy)
    groups(expected)[0]["replicas"] = 1
    assert patch == {"workerGroupSpecs": groups(expected)}
    assert RAY.resize(copy, {"small": {"replicas": 3}}) == {}


@given(small=st.integers(0, 99), slices=st.integers(0, 99))
def test_a_request_says_what_it_is_read_as(small: int, slices: int) -> None:
    counts = {"head": 1, "small": small, "slices": 4 * slices}
    said = RAY.resized(ray(), counts)
    copy = merge(deepcopy(ray()), elastic.ask_patch(said))
    assert elastic.asked(copy, RAY.sized) == Asked(counts)
    assert RAY.at_once(merge(copy, {"spec": RAY.resize(copy, said)})) == counts


REQUESTS: dict[str, Any] = {
    "another group": {"big": {"replicas": 2}},
    "the head": {"head": {"replicas": 2}},
    "no object": {"small": 2},
    "no number": {"small": {"replicas": "2"}},
    "none": {"small": {"minReplicas": 2}},
    "below none": {"small": {"replicas": -1}},
    "bounds that are none": {"small": {"replicas": 2, "maxReplicas": "x"}},
    "nothing": {},
    "a list": [],
    "no JSON": "two",
    "that of a Job": {"parallelism": 2},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_what_cannot_be_read(name: str) -> None:
    """Counts as refused: the manager takes it away."""
    found = elastic.asked(told(ray(), REQUESTS[name]), RAY.sized)
    assert found.pods == {}
    assert found.refused.startswith("Misconfigured: ")


def test_a_copy_is_never_larger_than_what_was_given() -> None:
    """Whatever the RayCluster asks for since; one that is not elastic leaves its cluster anyway."""
    given = admitted(head=1, small=2, slices=8)
    made = RAY.remote_manifest(ray(), IDENTITY, given, VENDORS)
    assert replicas(made) == [2, 2]
    same = RAY.remote_manifest(ray(), IDENTITY, admitted(**WHOLE), VENDORS)
    assert groups(same) == groups(ray())
    fixed = RAY.remote_manifest(ray(elastic=False), IDENTITY, given, VENDORS)
    assert replicas(fixed) == [3, 2]


def test_a_copy_that_has_grown() -> None:
    """Its note says what is charged, and still what its start replaced."""
    copy = merge(deepcopy(ray()), RAY.admission_patch(ray(), admitted(**WHOLE), ()))
    more = {**WHOLE, "small": 5}
    copy = told(copy, RAY.resized(copy, more))
    patch = elastic.grown_patch(RAY, copy, admitted(**more))
    assert patch["metadata"]["resourceVersion"] == "7"
    grown = merge(deepcopy(copy), patch)
    assert replicas(grown) == [5, 2]
    notes = grown["metadata"]["annotations"]
    assert decode_admission(notes[Mirror.ADMISSION]) == admitted(**more)
    assert Mirror.GROW_TO not in notes
    assert not RAY.suspended(grown)


def test_what_was_not_charged_is_cut() -> None:
    patch = elastic.cut_patch(RAY, ray(replicas=9), {**WHOLE, "small": 2})
    assert replicas(merge(deepcopy(ray(replicas=9)), patch)) == [2, 2]
    assert patch["metadata"]["resourceVersion"] == "7"
