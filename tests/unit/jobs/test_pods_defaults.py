"""What RuntimeClasses, LimitRanges and the configuration make of the requests of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.limit_range import LimitItem, summarize
from federation.core.policies import ResourceRules, Transformation, TransformationStrategy
from federation.core.quantity import MAX_AMOUNT, QuantityError, exact_quantity
from federation.jobs.containers import PodDefaults, exact, limit_items, overhead
from federation.jobs.pods import pod_requests, pod_set
from tests.unit.core.build import FEW

Json = dict[str, Any]
CPU, MEM = "cpu", "memory"


def box(requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    given = {"requests": requests, "limits": limits}
    return {"name": "c", "resources": {k: v for k, v in given.items() if v is not None}, **more}


def limit_range(*items: Json) -> Json:
    return {"metadata": {"name": "limits"}, "spec": {"limits": list(items)}}


def container(**amounts: Json) -> Json:
    return {"type": "Container", **amounts}


def defaults(*items: Json, **more: Any) -> PodDefaults:
    return PodDefaults(summarize(limit_items(limit_range(*items))), **more)


KATA = {"kata": exact({CPU: "250m", MEM: "160Mi"})}
CASES: dict[str, tuple[Json, PodDefaults, Json]] = {
    "a RuntimeClass adds its overhead": (
        {"runtimeClassName": "kata", "containers": [box({CPU: "1"})]},
        PodDefaults(overheads=KATA),
        {CPU: 1250, MEM: 160 * 2**20},
    ),
    "an overhead that the pod has already stays": (
        {"runtimeClassName": "kata", "overhead": {CPU: "1"}, "containers": [box({CPU: "1"})]},
        PodDefaults(overheads=KATA),
        {CPU: 2000},
    ),
    "a RuntimeClass that is not there adds nothing": (
        {"runtimeClassName": "none", "containers": [box({CPU: "1"})]},
        PodDefaults(overheads=KATA),
        {CPU: 1000},
    ),
    "default requests for every container, init containers too": (
        {"containers": [box(), box({CPU: "2"})], "initContainers": [box(), box({CPU: "7"})]},
        defaults(container(defaultRequest={CPU: "1", MEM: "5"})),
        {CPU: 7000, MEM: 10},
    ),
    "the pod's limit comes before the default request": (
        {"containers": [box(limits={CPU: "4"})]},
        defaults(container(defaultRequest={CPU: "1"})),
        {CPU: 4000},
    ),
    "a default limit is a default request": (
        {"containers": [box()]},
        defaults(container(default={CPU: "3"})),
        {CPU: 3000},
    ),
    "a maximum is a default limit": (
        {"containers": [box()]},
        defaults(container(max={CPU: "3"})),
        {CPU: 3000},
    ),
    "a minimum is a default request": (
        {"containers": [box()]},
        defaults(container(min={CPU: "2"})),
        {CPU: 2000},
    ),
    "the default wins over maximum and minimum": (
        {"containers": [box()]},
        defaults(container(min={CPU: "1"}, max={CPU: "3"}, default={CPU: "2"})),
        {CPU: 2000},
    ),
    "the first of two LimitRanges' defaults counts": (
        {"containers": [box()]},
        defaults(container(defaultRequest={CPU: "1"}), container(defaultRequest={CPU: "2"})),
        {CPU: 1000},
    ),
    "limits of pods and claims give no defaults": (
        {"containers": [box({CPU: "1"})]},
        defaults({"type": "Pod", "max": {MEM: "3"}}, {"type": "PersistentVolumeClaim"}),
        {CPU: 1000},
    ),
    "sidecars get defaults and run on": (
        {"containers": [box({CPU: "1"})], "initContainers": [box(restartPolicy="Always")]},
        defaults(container(defaultRequest={CPU: "2"})),
        {CPU: 3000},
    ),
    "transformations see overhead and defaults": (
        {"runtimeClassName": "kata", "containers": [box()]},
        defaults(
            container(defaultRequest={CPU: "1750m"}),
            overheads=KATA,
            rules=ResourceRules(
                (MEM,),
                (
                    Transformation(
                        CPU, TransformationStrategy.REPLACE, "", {"credits": exact_quantity("5")}
                    ),
                ),
            ),
        ),
        {"credits": 10},
    ),
    "a negative request does not pay for another": (
        {"containers": [box({CPU: "-4"}), box({CPU: "3"})], "overhead": {CPU: "-1"}},
        PodDefaults(),
        {CPU: 3000},
    ),
    "a negative pod-level request does not replace the containers'": (
        {"containers": [box({CPU: "3"})], "resources": {"requests": {CPU: "-1"}}},
        PodDefaults(),
        {CPU: 3000},
    ),
    "containers are added up before rounding": (
        {"containers": [box({MEM: "0.5"}), box({MEM: "0.5"})]},
        PodDefaults(),
        {MEM: 1},
    ),
    "a pod-level limit does not replace what containers request": (
        {"containers": [box({CPU: "1"})], "resources": {"limits": {CPU: "4", MEM: "7"}}},
        PodDefaults(),
        {CPU: 1000, MEM: 7},
    ),
    "pod-level resources are cpu, memory and huge pages": (
        {
            "containers": [box({"gpu": "1"})],
            "resources": {"requests": {"gpu": "9", "hugepages-2Mi": "4Mi", CPU: "1"}},
        },
        PodDefaults(),
        {"gpu": 1, "hugepages-2Mi": 4 * 2**20, CPU: 1000},
    ),
    "more than can be counted": (
        {"containers": [box({MEM: "9E"}), box({MEM: "9E"})]},
        PodDefaults(),
        {MEM: MAX_AMOUNT},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_requests(name: str) -> None:
    """kueue-admission.md §2.4: defaults first, then sums, then the configuration's rules."""
    spec, given, expected = CASES[name]
    assert pod_requests(spec, given) == expected
    assert pod_set("main", 2, {"spec": spec}, defaults=given).requests == expected


def test_objects_from_the_wire() -> None:
    """A LimitRange without items and a RuntimeClass without overhead are nothing special."""
    assert limit_items({"metadata": {}}) == ()
    assert overhead({"handler": "runc"}) == {}
    assert overhead({"overhead": {"podFixed": {CPU: "1"}}}) == {CPU: 1}
    (item,) = limit_items(limit_range({"type": "Pod", "maxLimitRequestRatio": {CPU: 2}}))
    assert item == LimitItem("Pod", max_ratio={CPU: exact_quantity("2")})
    with pytest.raises(QuantityError, match="cpu: 'lots'"):
        limit_items(limit_range(container(max={CPU: "lots"})))
    with pytest.raises(QuantityError, match="cpu: 'lots'"):
        overhead({"overhead": {"podFixed": {CPU: "lots"}}})


NAMES = st.sampled_from([CPU, MEM, "gpu"])
TEXTS = st.builds(
    lambda sign, number, suffix: f"{sign}{number}{suffix}",
    st.sampled_from(["", "-"]),
    st.integers(0, 10**6),
    st.sampled_from(["", "m", "k", "Gi", "E", "n"]),
)
LISTS = st.dictionaries(NAMES, TEXTS, max_size=2)
BOXES = st.builds(
    lambda requests, limits, policy: box(requests, limits, restartPolicy=policy),
    LISTS,
    LISTS,
    st.sampled_from(["Always", None]),
)
SPECS = st.fixed_dictionaries(
    {
        "containers": st.lists(BOXES, max_size=3),
        "initContainers": st.lists(BOXES, max_size=2),
        "overhead": LISTS,
        "resources": st.fixed_dictionaries({"requests": LISTS, "limits": LISTS}),
        "runtimeClassName": st.sampled_from(["kata", None]),
    }
)
DEFAULTS = st.builds(
    lambda low, high, usual: defaults(container(min=low, max=high, default=usual), overheads=KATA),
    LISTS,
    LISTS,
    LISTS,
)


@FEW
@given(SPECS, DEFAULTS)
def test_never_negative_never_too_large(spec: Json, given: PodDefaults) -> None:
    """Whatever a pod says: whole numbers that can be counted."""
    amounts = pod_requests(spec, given).values()
    assert all(type(n) is int and 0 <= n <= MAX_AMOUNT for n in amounts)


@FEW
@given(SPECS, BOXES)
def test_another_container_never_asks_for_less(spec: Json, more: Json) -> None:
    """Adding a container never lowers a request, unless the pod says what it needs as a whole."""
    spec = {**spec, "resources": None}
    before = pod_requests(spec)
    after = pod_requests({**spec, "containers": [*spec["containers"], more]})
    assert all(after[name] >= amount for name, amount in before.items())
