"""The catalog: which priority a job has, and what a namespace makes of its pods."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from typing import Any

import pytest

from federation.core.limit_range import LimitItem
from federation.core.policies import ResourceRules
from federation.edge.catalog import Catalog
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    LIMIT_RANGES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    Json,
)
from tests.fakes.kube_api import FakeKube


@contextlib.asynccontextmanager
async def reading(fake: FakeKube) -> AsyncIterator[Catalog]:
    """A catalog that has read everything."""
    client = KubeClient(Endpoint("https://fake", name="a"), transport=fake)
    catalog = Catalog(client, lambda: None)
    tasks = [asyncio.create_task(informer.run()) for informer in catalog.informers]
    try:
        for informer in catalog.informers:
            await informer.synced.wait()
        yield catalog
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()


async def until(holds: Callable[[], object]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not become so")


def pod_class(fake: FakeKube, name: str, value: int, **more: Any) -> None:
    fake.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, **more})


def workload_class(fake: FakeKube, name: str, value: int) -> None:
    fake.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


def ref(kind: str, name: str) -> Json:
    group = "kueue.x-k8s.io" if kind == "WorkloadPriorityClass" else "scheduling.k8s.io"
    return {"group": group, "kind": kind, "name": name}


async def test_priority_comes_from_the_first_source_that_names_one() -> None:
    """kueue-admission.md §2.4: the label, the pods, the lowest default of the cluster."""
    fake = FakeKube()
    workload_class(fake, "high", 9)
    pod_class(fake, "pods", 5)
    for name, value in (("b", 2), ("c", 3), ("a", 2)):
        pod_class(fake, name, value, globalDefault=True)
    async with reading(fake) as catalog:
        assert catalog.priority("high", "pods") == (9, ref("WorkloadPriorityClass", "high"))
        assert catalog.priority("", "pods") == (5, ref("PriorityClass", "pods"))
        assert catalog.priority("", "") == (2, ref("PriorityClass", "a"))


async def test_priority_without_any_class() -> None:
    """Zero, and nothing is referred to."""
    async with reading(FakeKube()) as catalog:
        assert catalog.priority("", "") == (0, None)


async def test_the_class_called_default() -> None:
    """It is that of jobs that name none, before that of their pods; a label still wins."""
    fake = FakeKube()
    workload_class(fake, "default", -3)
    workload_class(fake, "high", 9)
    pod_class(fake, "pods", 5, globalDefault=True)
    async with reading(fake) as catalog:
        assert catalog.priority("", "pods") == (-3, ref("WorkloadPriorityClass", "default"))
        assert catalog.priority("", "") == (-3, ref("WorkloadPriorityClass", "default"))
        assert catalog.priority("high", "pods")[0] == 9
        fake.delete(WORKLOAD_PRIORITY_CLASSES, "default")
        await until(lambda: catalog.priority("", "")[0] == 5)


async def test_nothing_stands_in_for_a_class_that_is_missing() -> None:
    """A wrong name is an error, not another priority."""
    fake = FakeKube()
    workload_class(fake, "default", 1)
    pod_class(fake, "pods", 5, globalDefault=True)
    async with reading(fake) as catalog:
        with pytest.raises(KeyError):
            catalog.priority("hihg", "pods")
    fake.delete(WORKLOAD_PRIORITY_CLASSES, "default")
    async with reading(fake) as catalog:
        with pytest.raises(KeyError):
            catalog.priority("", "pdos")


def limit_range(fake: FakeKube, name: str, namespace: str = "default", **amounts: Json) -> None:
    item = {"type": "Container", **amounts}
    meta = {"name": name, "namespace": namespace}
    fake.create(LIMIT_RANGES, {"metadata": meta, "spec": {"limits": [item]}})


async def test_defaults_of_a_namespace() -> None:
    """Its LimitRanges together, by name; all RuntimeClasses; the rules that were given."""
    fake = FakeKube()
    limit_range(fake, "b", defaultRequest={"cpu": "2"}, max={"gpu": "3"})
    limit_range(fake, "a", defaultRequest={"cpu": "1"}, max={"gpu": "4"})
    limit_range(fake, "a", "kube-system", max={"gpu": "1"})
    fixed = {"podFixed": {"cpu": "250m"}}
    fake.create(RUNTIME_CLASSES, {"metadata": {"name": "kata"}, "handler": "k", "overhead": fixed})
    fake.create(RUNTIME_CLASSES, {"metadata": {"name": "runc"}, "handler": "r"})
    rules = ResourceRules(("example.com/",))
    async with reading(fake) as catalog:
        found = catalog.pod_defaults("default", rules)
        item = LimitItem(
            "Container",
            maximum={"gpu": Fraction(3)},
            default={"gpu": Fraction(4)},
            default_request={"cpu": Fraction(1), "gpu": Fraction(4)},
        )
        assert found.limits == {"Container": item}
        assert found.overheads == {"kata": {"cpu": Fraction(1, 4)}, "runc": {}}
        assert found.rules == rules
        assert catalog.pod_defaults("elsewhere").limits == {}
        fake.delete(LIMIT_RANGES, "a", "default")
        await until(
            lambda: (
                catalog.pod_defaults("default").limits["Container"].maximum == {"gpu": 3}
                and catalog.pod_defaults("default").limits["Container"].default == {"gpu": 3}
            )
        )


async def test_a_limit_range_that_cannot_be_read() -> None:
    """Is left out, and the reason is kept."""
    fake = FakeKube()
    limit_range(fake, "bad", max={"cpu": "lots"})
    limit_range(fake, "good", max={"cpu": "2"})
    async with reading(fake) as catalog:
        assert catalog.pod_defaults("default").limits["Container"].maximum == {"cpu": 2}
        assert "'lots'" in catalog.unreadable["limitranges", ("default", "bad")]
