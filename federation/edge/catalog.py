"""The queue objects of one cluster, kept up to date: what admission is decided against.

An object that cannot be read is left out, with the reason in `unreadable`; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import structlog
from pydantic import ValidationError

from federation.api import convert
from federation.api.names import KUEUE_GROUP, Label
from federation.core.limit_range import LimitItem, summarize
from federation.core.policies import ResourceRules, StopPolicy
from federation.core.quantity import QuantityError
from federation.core.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from federation.edge.claim_catalog import ClaimCatalog
from federation.edge.informer import Informer, Key, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    Json,
    Resource,
)
from federation.jobs.containers import PodDefaults, limit_items, overhead

log = structlog.get_logger(__name__)
T = TypeVar("T")

DEFAULT_PRIORITY_CLASS = "default"
"""The WorkloadPriorityClass of jobs that name none, if there is one of this name."""


class Catalog:
    """ClusterQueues, Cohorts, LocalQueues, flavors, namespaces and priority classes; LimitRanges
    and RuntimeClasses, which are part of what pods request.
    """

    def __init__(
        self, client: KubeClient, on_change: Callable[[], None], *, management: bool = False
    ) -> None:
        """`on_change` is called on every change of any of them. On a `management` cluster pods are
        only counted: the devices that they claim are elsewhere.
        """
        self._on_change = on_change
        self.on_removed: Callable[[str, Key], None] = lambda plural, key: None
        """Called with the plural, and namespace and name, of what was deleted."""
        self.unreadable: dict[tuple[str, Key], str] = {}
        self.informers: list[Informer] = []
        self.claims = ClaimCatalog(client, on_change, elsewhere=management)
        self._by_name: dict[Any, dict[str, Any]] = {}
        self._client = client
        self._queues = self._keep(CLUSTER_QUEUES, convert.to_cluster_queue)
        self._cohorts = self._keep(COHORTS, convert.to_cohort)
        self._local_queues = self._keep(LOCAL_QUEUES, convert.to_local_queue)
        self._flavors = self._keep(RESOURCE_FLAVORS, convert.to_flavor)
        self._namespaces = self._keep(NAMESPACES, _labels)
        self._workload_priorities = self._keep(WORKLOAD_PRIORITY_CLASSES, _value)
        self._pod_priorities = self._keep(PRIORITY_CLASSES, _pod_priority)
        self._topologies = self._keep(TOPOLOGIES, _levels)
        self._limit_ranges = self._keep(LIMIT_RANGES, limit_items)
        self._runtime_classes = self._keep(RUNTIME_CLASSES, overhead)

    def _keep(self, resource: Resource, read: Callable[[Json], T]) -> Store[T]:
        def project(obj: Json) -> T | None:
            meta = obj["metadata"]
            key = (resource.plural, (meta.get("namespace", ""), meta["name"]))
            self.unreadable.pop(key, None)
            try:
                return read(obj)
            except (ValidationError, QuantityError, ValueError) as error:
                self.unreadable[key] = str(error)
                log.error("catalog.unreadable", kind=key[0], object=key[1], error=str(error))
                return None

        def changed(key: Key, old: object, new: object) -> None:
            if new is None:
                self.on_removed(resource.plural, key)
            self._by_name.clear()
            self._on_change()

        store: Store[T] = Store(project, changed)
        self.informers.append(Informer(self._client, resource, store))
        return store

    def _named(self, store: Store[T]) -> dict[str, T]:
        """What a store of cluster-scoped objects holds, by name; made again after a change."""
        if store not in self._by_name:
            self._by_name[store] = {name: value for (_, name), value in store.items.items()}
        return self._by_name[store]

    @property
    def queues(self) -> dict[str, ClusterQueue]:
        """By name; not to be changed."""
        return self._named(self._queues)

    @property
    def flavors(self) -> dict[str, ResourceFlavor]:
        """By name; not to be changed."""
        return self._named(self._flavors)

    @property
    def topologies(self) -> dict[str, tuple[str, ...]]:
        """Levels (node label keys, widest first) by name; not to be changed."""
        return self._named(self._topologies)

    @property
    def local_queues(self) -> dict[Key, LocalQueue]:
        """By namespace and name."""
        return self._local_queues.items

    @property
    def cohorts(self) -> Iterable[Cohort]:
        """All Cohort objects."""
        return self._cohorts.items.values()

    @property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """Labels by name; not to be changed."""
        return self._named(self._namespaces)

    def pod_defaults(self, namespace: str, rules: ResourceRules | None = None) -> PodDefaults:
        """What becomes of the requests of pods in a namespace; `rules` are the configuration's."""
        return PodDefaults(
            summarize(self._limits.get(namespace, ())),
            self._named(self._runtime_classes),
            rules or ResourceRules(),
            self.claims.of(namespace, rules.devices) if rules else None,
        )

    @property
    def _limits(self) -> dict[str, list[LimitItem]]:
        """Items of LimitRanges by namespace, in the order of the LimitRanges' names."""
        if "limits" not in self._by_name:
            items: dict[str, list[LimitItem]] = {}
            for (namespace, _), found in sorted(self._limit_ranges.items.items()):
                items.setdefault(namespace, []).extend(found)
            self._by_name["limits"] = items
        return self._by_name["limits"]

    def queue_problem(self, namespace: str, name: str) -> str:
        """Why jobs in this LocalQueue cannot be queued; '' if they can."""
        local = self.local_queues.get((namespace, name))
        if local is None:
            return (
                f"LocalQueue {namespace}/{name} does not exist: create it, or correct the label"
                f" {Label.QUEUE_NAME}"
            )
        if local.stop is not StopPolicy.NONE:
            return f"LocalQueue {namespace}/{name} is stopped ({local.stop}): see spec.stopPolicy"
        if ("", local.cluster_queue) not in self._queues.items:
            reason = self.unreadable.get((CLUSTER_QUEUES.plural, ("", local.cluster_queue)))
            if reason:
                return f"ClusterQueue {local.cluster_queue} cannot be read: {reason}"
            return f"ClusterQueue {local.cluster_queue} of LocalQueue {name} does not exist"
        return ""

    def priority(self, workload_class: str, pod_class: str) -> tuple[int, Json | None]:
        """Priority and priorityClassRef of a job: its WorkloadPriorityClass, else the one called
        `default`, else its pods' class, else the cluster's default (the lowest, if there are
        several), else 0. Raises KeyError when a class that is named is missing: nothing stands in.
        """
        if not workload_class and ("", DEFAULT_PRIORITY_CLASS) in self._workload_priorities.items:
            workload_class = DEFAULT_PRIORITY_CLASS
        if workload_class:
            ref = {"group": KUEUE_GROUP, "kind": "WorkloadPriorityClass"}
            return self._workload_priorities.items["", workload_class], ref | {
                "name": workload_class
            }
        ref = {"group": "scheduling.k8s.io", "kind": "PriorityClass"}
        if pod_class:
            return self._pod_priorities.items["", pod_class][0], ref | {"name": pod_class}
        if not (name := self.default_pod_class):
            return 0, None
        return self._pod_priorities.items["", name][0], ref | {"name": name}

    @property
    def default_pod_class(self) -> str:
        """The PriorityClass that the API server gives to pods that name none: the lowest default;
        '' if there is none.
        """
        defaults = [
            (value, name)
            for (_, name), (value, default) in self._pod_priorities.items.items()
            if default
        ]
        return min(defaults)[1] if defaults else ""


def _labels(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _levels(obj: Json) -> tuple[str, ...]:
    return tuple(level["nodeLabel"] for level in obj["spec"]["levels"])


def _value(obj: Json) -> int:
    return int(obj["value"])


def _pod_priority(obj: Json) -> tuple[int, bool]:
    return int(obj.get("value", 0)), bool(obj.get("globalDefault"))
