"""`resources.deviceClassMappings`: what is read, and what is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.configuration import ConfigurationError, read, to_resource_rules
from federation.core.devices.claims.claims import (
    ClaimPolicy,
    DeviceClassMapping,
    DeviceRules,
    Source,
    SourceKind,
)

Json = dict[str, Any]
EXPRESSION = "device.driver == 'gpu.example.com'"


def rules(*mappings: Json, version: str = "v1beta2", **gates: bool) -> DeviceRules:
    found = read({
        "apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration",
        "featureGates": gates, "resources": {"deviceClassMappings": list(mappings)},
    })  # fmt: skip
    assert not found.notices
    return to_resource_rules(found.configuration).devices


def source(kind: str, name: str, **more: Any) -> Json:
    selector = {"cel": {"expression": EXPRESSION}}
    return {kind: {"name": name, "driver": "gpu.example.com", "deviceSelector": selector, **more}}


def mapping(name: str, *sources: Json, classes: tuple[str, ...] = ("gpu.example.com",)) -> Json:
    found: Json = {"name": name, "deviceClassNames": list(classes)}
    return {**found, "sources": list(sources)} if sources else found


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_by_number(version: str) -> None:
    assert rules(mapping("whole-gpus"), version=version) == DeviceRules(
        (DeviceClassMapping("whole-gpus", ("gpu.example.com",)),)
    )


def test_by_capacity_and_counter() -> None:
    found = rules(
        mapping("gpu.memory", source("capacity", "gpu.example.com/memory")),
        mapping("mig.memory", source("counter", "memory"), classes=("mig.example.com",)),
    )
    assert [of.sources for of in found.mappings] == [
        (Source(SourceKind.CAPACITY, "gpu.example.com/memory", "gpu.example.com", EXPRESSION),),
        (Source(SourceKind.COUNTER, "memory", "gpu.example.com", EXPRESSION),),
    ]


def test_a_class_may_be_counted_by_several_things() -> None:
    """By number, memory and compute at once; Kueue has that for counters only."""
    found = rules(
        mapping("cards"),
        mapping("memory", source("capacity", "memory")),
        mapping("cores", source("capacity", "cores")),
    )
    assert [of.resource for of in found.of_class("gpu.example.com")] == ["cards", "memory", "cores"]


def test_gates() -> None:
    assert rules().policy is ClaimPolicy.COUNT
    assert rules(KueueDRAIntegration=False).policy is ClaimPolicy.REFUSE
    off = rules(KueueDRAIntegration=False, KueueDRARejectWorkloadsWhenDRADisabled=False)
    assert off.policy is ClaimPolicy.IGNORE
    assert rules(DynamicResourceAllocation=False).policy is ClaimPolicy.REFUSE
    assert rules(KueueDRAIntegrationPrioritizedList=True).alternatives
    assert not rules().alternatives


REFUSED = {
    "two mappings of a resource": ([mapping("a"), mapping("a", classes=("b",))], "two mappings"),
    "a class counted twice": ([mapping("a"), mapping("b")], "already mapped to resource a"),
    "one capacity twice": (
        [
            mapping("a", source("capacity", "memory")),
            mapping("b", source("capacity", "gpu.example.com/memory")),
        ],
        "already mapped to resource a",
    ),
    "no class": ([mapping("a", classes=())], ""),
    "too many classes": ([mapping("a", classes=tuple("abcdefghi"))], "8 items at most"),
    "a class named twice": ([mapping("a", classes=("c", "c"))], "named twice"),
    "too many mappings": (
        [mapping(f"r{n}", classes=(f"c{n}",)) for n in range(17)], "16 items at most",
    ),
    "a name that is none": ([mapping("a b")], "resource name"),
    "both kinds in an entry": (
        [mapping("a", {**source("capacity", "m"), **source("counter", "m")})], "exactly one source",
    ),
    "neither kind in an entry": ([mapping("a", {})], "exactly one source"),
    "kinds mixed in a mapping": (
        [mapping("a", source("capacity", "m"), source("counter", "n"))], "cannot mix",
    ),
    "no driver": ([mapping("a", {"capacity": {"name": "m"}})], ""),
    "a selector that is no CEL": (
        [mapping("a", source("capacity", "m", deviceSelector={"cel": {"expression": "x y"}}))],
        "not a CEL expression",
    ),
    "a selector of another kind": (
        [mapping("a", source("capacity", "m", deviceSelector={"label": "x"}))], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    mappings, text = REFUSED[name]
    with pytest.raises(ConfigurationError) as found:
        rules(*mappings)
    (problem, *_) = found.value.problems
    assert problem.path[:2] == ("resources", "deviceClassMappings")
    assert text in problem.message
