"""Claims of pods from the wire to quota: templates, extended resources, and what keeps them out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.api.configuration import read, to_resource_rules
from federation.core.devices.claims.inventory import Inventory
from federation.core.devices.claims.pools import complete
from federation.core.policies import ResourceRules
from federation.jobs import admissibility
from federation.jobs.claim_objects import read_allocation, read_class, read_slice, read_template
from federation.jobs.claims import Claims, concerns
from federation.jobs.containers import PodDefaults
from federation.jobs.pods import pod_requests, pod_set
from tests.unit.jobs.claim_build import DRIVER, device, device_class, resource_slice, template

Json = dict[str, Any]
GI = 2**30


def capacity(name: str, resource: str) -> Json:
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    source = {"capacity": {"name": name, "driver": DRIVER, "deviceSelector": selector}}
    return {"name": resource, "deviceClassNames": ["hami-gpu"], "sources": [source]}


MAPPINGS = [
    {"name": "cards", "deviceClassNames": ["hami-gpu"]},
    capacity("memory", "gpu-memory"),
    capacity(f"{DRIVER}/cores", "gpu-cores"),
]


def rules(mappings: list[Json] | None = None, **gates: bool) -> ResourceRules:
    found = read({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "featureGates": gates,
        "resources": {"deviceClassMappings": MAPPINGS if mappings is None else mappings},
    })  # fmt: skip
    assert not found.notices
    return to_resource_rules(found.configuration)


TEMPLATES = [template("two", 2, memory="4Gi", cores="30"), template("whole")]


def world(given_rules: ResourceRules | None = None, extended: str = "", **more: Any) -> PodDefaults:
    """Two cards of one class."""
    parts = [read_slice(resource_slice("s", "n1", device(0), device(1)))]
    inventory = Inventory(complete(parts), [read_class(device_class(extended=extended))])
    known = {obj["metadata"]["name"]: read_template(obj) for obj in TEMPLATES}
    found = given_rules or rules()
    return PodDefaults(
        rules=found, claims=Claims(found.devices, more.get("templates", known), inventory)
    )


def pod(*templates: str, requests: Json | None = None, claims: list[Json] | None = None) -> Json:
    named = [{"name": f"c{n}", "resourceClaimTemplateName": t} for n, t in enumerate(templates)]
    box = {"name": "main", "resources": {"requests": requests or {"cpu": "1"}}}
    return {"containers": [box, {"name": "beside"}], "resourceClaims": claims or named}


def test_claims_count_once_for_the_pod() -> None:
    assert pod_requests(pod("two", "whole"), world()) == {
        "cpu": 1000, "cards": 3, "gpu-memory": 48 * GI, "gpu-cores": 160,
    }  # fmt: skip


def test_the_same_template_twice_is_two_claims() -> None:
    assert pod_requests(pod("two", "two"), world())["gpu-memory"] == 16 * GI


def test_memory_of_two_cards() -> None:
    by_memory = rules([capacity("memory", "gpu-memory")])
    assert pod_requests(pod("two"), world(by_memory))["gpu-memory"] == 8589934592


def test_the_pod_set_is_charged_for_each_pod() -> None:
    assert pod_set("main", 3, {"spec": pod("two")}, defaults=world()).requests["cards"] == 2


def problem(spec: Json, defaults: PodDefaults) -> str:
    return admissibility.problem([("main", 1, {"spec": spec})], defaults)


def test_a_pod_that_can_be_counted_has_no_problem() -> None:
    assert problem(pod("two", "whole"), world()) == ""


PROBLEMS = {
    "template missing": (pod("three"), world(), "ResourceClaimTemplate three: it does not exist"),
    "template unreadable": (
        pod("bad"), world(templates={"bad": "memory: 'x' is not a quantity"}), "cannot be read",
    ),
    "claim by name": (
        pod(claims=[{"name": "c", "resourceClaimName": "mine"}]), world(),
        "does not support use of resource claims: ResourceClaim mine",
    ),
    "class without a mapping": (
        pod("two"), world(rules([])), "hami-gpu is not mapped in DRA configuration",
    ),
    "integration turned off": (
        pod("two"), world(rules(KueueDRAIntegration=False)), "feature gate is not enabled",
    ),
    "an entry that is none": (pod(claims=["c"]), world(), "resourceClaims[0]: it is no object"),
    "claims that are no list": (
        {"containers": [], "resourceClaims": {"a": 1}}, world(), "it is no list",
    ),
    "more cards than there are, as an extended resource": (
        pod(requests={"x/gpu": "3"}), world(extended="x/gpu"), "2 device(s) match",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem(name: str) -> None:
    spec, defaults, text = PROBLEMS[name]
    assert text in problem(spec, defaults)


def test_why_there_are_no_claims_here() -> None:
    defaults = PodDefaults(claims=Claims(absent="this cluster does not serve it"))
    assert "ResourceClaimTemplate two: this cluster does not serve it" in problem(
        pod("two"), defaults
    )


def test_what_cannot_be_counted_counts_nothing_and_is_told() -> None:
    assert pod_requests(pod("three"), world()) == {"cpu": 1000}


def test_turned_off_and_let_through() -> None:
    let = rules(KueueDRAIntegration=False, KueueDRARejectWorkloadsWhenDRADisabled=False)
    assert problem(pod("two"), world(let)) == ""
    assert pod_requests(pod("two"), world(let)) == {"cpu": 1000}


def test_an_extended_resource_that_a_class_serves() -> None:
    """Counted as the claim that the scheduler makes of it, under the names of the mappings, and
    not under its own beside that. Transformations still see it.
    """
    asked = {"x/gpu": "2", "x/part": "3"}
    assert pod_requests(pod(requests=asked), world(extended="x/gpu")) == {
        "cards": 2, "gpu-memory": 80 * GI, "gpu-cores": 200, "x/part": 3,
    }  # fmt: skip
    found = read({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
        "resources": {
            "deviceClassMappings": MAPPINGS[:1],
            "transformations": [{
                "input": "x/part", "strategy": "Replace", "multiplyBy": "x/gpu",
                "outputs": {"x/parts": "1"},
            }],
        },
    })  # fmt: skip
    both = world(to_resource_rules(found.configuration), extended="x/gpu")
    assert pod_requests(pod(requests=asked), both) == {"cards": 2, "x/parts": 6}


def test_the_implicit_extended_resource_of_a_class() -> None:
    asked = {"deviceclass.resource.kubernetes.io/hami-gpu": "1"}
    assert pod_requests(pod(requests=asked), world(rules(MAPPINGS[:1]))) == {"cards": 1}


def test_an_extended_resource_of_a_class_without_a_mapping_stays_what_it_is() -> None:
    defaults = world(rules([]), extended="x/gpu")
    assert pod_requests(pod(requests={"x/gpu": "2"}), defaults) == {"x/gpu": 2}


def test_a_claim_beside_an_extended_resource() -> None:
    found = pod_requests(pod("two", requests={"x/gpu": "1"}), world(extended="x/gpu"))
    assert found == {"cards": 3, "gpu-memory": 48 * GI, "gpu-cores": 160}


def test_which_pods_a_change_concerns() -> None:
    known = world(extended="x/gpu").claims
    assert known is not None
    assert concerns(pod("two"), Claims())
    assert concerns(pod(requests={"x/gpu": "1"}), Claims(), known)
    assert not concerns(pod(requests={"x/gpu": "1"}), Claims())
    assert not concerns(pod(requests={"cpu": "1"}), known)


def test_an_incomplete_pool_has_no_devices() -> None:
    one = read_slice(resource_slice("a", "n1", device(0), resourceSliceCount=2))
    two = read_slice(resource_slice("b", "n1", device(1), resourceSliceCount=2))
    newer = read_slice(resource_slice("c", "n1", device(2), generation=2, resourceSliceCount=2))
    assert complete([one]) == ()
    assert [found.name for found in complete([two, one])] == ["hami-gpu-0", "hami-gpu-1"]
    assert complete([one, two, newer]) == ()
    twin = read_slice(resource_slice("d", "n1", device(0), resourceSliceCount=2))
    assert complete([one, twin]) == ()


def test_a_device_from_the_wire() -> None:
    found = complete([read_slice(resource_slice("a", "n1", device(3)))])[0]
    assert found.node == "n1"
    assert found.shared
    assert found.attributes[f"{DRIVER}/minor"] == 3
    assert found.capacity[f"{DRIVER}/memory"].step == Fraction(2**20)


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": {"memory": {"value": "much"}}},
        {"capacity": {"memory": {"value": "1e999999999"}}},
        {"capacity": [1]},
        {"attributes": {"minor": {"int": "3"}}},
        {"attributes": {"v": {"version": "x"}}},
        {"taints": {"key": "k"}},
        {"consumesCounters": [{"counters": {"memory": {"value": "?"}}}]},
    ],
)
def test_a_device_that_cannot_be_read(change: Json) -> None:
    with pytest.raises(ValueError):
        read_slice(resource_slice("a", "n1", device(0, **change)))


WORDS = [
    *("spec", "devices", "requests", "exactly", "count", "capacity", "selectors", "cel", "status"),
    *("allocation", "results", "firstAvailable", "name", "driver", "pool", "metadata", "uid"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_strange_objects_are_read_or_refused(wire: object) -> None:
    for read_it in (read_template, read_class, read_slice, read_allocation):
        obj = {"spec": wire, "status": wire, "metadata": {"name": "x", "uid": "u"}}
        try:
            read_it(obj)
        except (ValueError, KeyError):
            continue
