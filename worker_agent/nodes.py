"""Nodes and pods of this cluster, as far as topology-aware scheduling needs them.

Watched only when some flavor is arranged in a topology, or cards are counted. Of a node labels,
taints and amounts are kept, of a foreign pod its node and what it requests, of a pod that we place
a few fields.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from federation.api.names import Label
from federation.core.quantity import MAX_AMOUNT, QuantityError, parse_resources
from federation.core.topology import HOSTNAME, FlavorTopology, Node
from federation.core.types import ResourceFlavor
from federation.edge.claim_catalog import ClaimCatalog
from federation.edge.informer import Handler, Informer, Key, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import NODES, PODS, Json
from federation.edge.services import vital
from federation.jobs.pod_state import ended
from federation.jobs.pods import pod_requests, taints
from federation.jobs.topology import COMPLETION_INDEX

Amounts = tuple[tuple[str, int], ...]


class Bound(NamedTuple):
    """A pod on a node that was not placed by us, and what it requests."""

    node: str
    requests: Amounts


Watchers = Sequence[tuple[Handler, Handler]]
"""Who hears of all nodes, and who of all pods."""


class Tee:
    """Tells several handlers, in order."""

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = handlers

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """See Handler."""
        for handler in self._handlers:
            handler.on_list(items, resource_version)

    def on_event(self, type: str, obj: Json) -> None:
        """See Handler."""
        for handler in self._handlers:
            handler.on_event(type, obj)


class Nodes:
    """What is known of them, see `topologies` and `pods`."""

    def __init__(
        self,
        client: KubeClient,
        changed: Callable[[], None],
        moved: Callable[[str], None],
        watchers: Watchers = (),
        claims: ClaimCatalog | None = None,
    ) -> None:
        """`changed` hears when placement may find something else, `moved` of the Jobs whose pods
        have changed, by UID. `claims` are wanted and have to be known when nodes are.
        """
        self.ready = False
        """Whether all has been read."""
        self.pods: dict[str, dict[Key, Json]] = {}
        """Pods that we place, by UID of their Job: name, ranks, node, gates, phase."""
        self._changed, self._moved, self._claims = changed, moved, claims
        self._wanted = asyncio.Event()
        self._nodes: Store[Node] = Store(read_node, lambda key, old, new: self._news())
        self._bound: dict[Key, Bound] = {}
        self._job_of: dict[Key, str] = {}
        self._alike: dict[Amounts, Amounts] = {}
        self._informers = [
            Informer(client, NODES, Tee(self._nodes, *(nodes for nodes, _ in watchers))),
            Informer(client, PODS, Tee(self, *(pods for _, pods in watchers))),
        ]

    def want(self) -> None:
        """Some flavor is arranged in a topology, or cards are to be counted."""
        self._wanted.set()

    async def run(self) -> None:
        """Watch from when it is wanted, until cancelled."""
        await self._wanted.wait()
        if self._claims is not None:
            self._claims.want()
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(vital(informer.run(), f"informer/{informer.resource.plural}"))
            for informer in self._informers:
                await informer.synced.wait()
            if self._claims is not None:
                await self._claims.ready()
            self.ready = True
            self._changed()

    def errors(self) -> list[str]:
        """Why there is no contact; empty while there is."""
        return [str(informer.error) for informer in self._informers if informer.error is not None]

    # What topologies are made of

    def topologies(
        self,
        flavors: Iterable[ResourceFlavor],
        levels: Mapping[str, tuple[str, ...]],
        holds: Callable[[str], bool],
        claimed: Iterable[str] = (),
    ) -> dict[str, FlavorTopology]:
        """New ones, with nothing placed on them, by flavor. `levels` are those of the Topologies;
        `holds` says whether a Job holds quota: pods of one that does not are on nobody's account.
        `claimed` are resources of claims: nodes do not say how much of them they have.
        """
        arranged = [flavor for flavor in flavors if flavor.topology in levels]
        if not arranged or not self.ready:
            return {}
        nodes = _unbounded(self._with_usage(holds), set(claimed))
        return {
            flavor.name: FlavorTopology(flavor.topology, levels[flavor.topology], flavor, nodes)
            for flavor in arranged
        }

    def _with_usage(self, holds: Callable[[str], bool]) -> list[Node]:
        used: dict[str, dict[str, int]] = {}
        orphans = (
            Bound(pod["spec"]["nodeName"], pod["requests"])
            for uid, pods in self.pods.items()
            if not holds(uid)
            for pod in pods.values()
            if pod["spec"].get("nodeName")
        )
        for bound in (*self._bound.values(), *orphans):
            of_node = used.setdefault(bound.node, {})
            for resource, amount in (*bound.requests, ("pods", 1)):
                of_node[resource] = of_node.get(resource, 0) + amount
        return [
            Node(n.name, n.labels, n.allocatable, n.taints, n.ready, n.unschedulable, used[n.name])
            if n.name in used
            else n
            for n in self._nodes.items.values()
        ]

    def by_hostname(self) -> dict[str, Node]:
        """All nodes, by the label that assignments name them with."""
        return {node.labels.get(HOSTNAME, node.name): node for node in self._nodes.items.values()}

    # Pods: informer handler

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """All pods there are."""
        present = {_key(item) for item in items}
        for key in [key for key in (*self._bound, *self._job_of) if key not in present]:
            self._forget(key)
        for item in items:
            self.on_event("ADDED", item)

    def on_event(self, type: str, obj: Json) -> None:
        """One change."""
        key = _key(obj)
        job = _job_uid(obj)
        if type == "DELETED" or ended(obj):
            self._forget(key)
        elif job:
            self._place(key, job, obj)
        else:
            self._bind(key, obj)

    def see(self, pod: Json) -> None:
        """What the API server made of a write of ours."""
        if _key(pod) in self._job_of:
            self.on_event("MODIFIED", pod)

    def _place(self, key: Key, job: str, obj: Json) -> None:
        thin = _thin(obj, self._requests(obj))
        pods = self.pods.setdefault(job, {})
        known = pods.get(key)
        if known is not None and known["version"] >= thin["version"]:
            return
        self._job_of[key] = job
        pods[key] = thin
        if known is None or known | {"version": thin["version"]} != thin:
            self._moved(job)

    def _bind(self, key: Key, obj: Json) -> None:
        node = obj["spec"].get("nodeName")
        if not node or key in self._bound:
            return
        self._bound[key] = Bound(node, self._requests(obj))
        self._news()

    def _requests(self, obj: Json) -> Amounts:
        try:
            found = tuple(sorted(pod_requests(obj["spec"]).items()))
        except QuantityError:  # the API server took it: it is of a kind that we do not know
            found = ()
        return self._alike.setdefault(found, found)

    def _forget(self, key: Key) -> None:
        if self._bound.pop(key, None) is not None:
            self._news()
        job = self._job_of.pop(key, "")
        if job:
            self.pods[job].pop(key)
            if not self.pods[job]:
                del self.pods[job]
            self._moved(job)

    def _news(self) -> None:
        if self.ready:
            self._changed()


def _unbounded(nodes: list[Node], resources: set[str]) -> list[Node]:
    """Nodes that have any amount of resources that none of them speaks of."""
    more = resources.difference(*(node.allocatable for node in nodes))
    if not more:
        return nodes
    plenty = dict.fromkeys(more, MAX_AMOUNT)
    return [replace(node, allocatable={**node.allocatable, **plenty}) for node in nodes]


def read_node(obj: Json) -> Node:
    """A node as placement sees it, without what runs on it."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    conditions: Iterable[Mapping[str, Any]] = status.get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    try:
        allocatable = parse_resources(status.get("allocatable"))
    except QuantityError:
        allocatable = {}
    return Node(
        name=obj["metadata"]["name"],
        labels=obj["metadata"].get("labels") or {},
        allocatable=allocatable,
        taints=taints(spec.get("taints")),
        ready=ready,
        unschedulable=bool(spec.get("unschedulable")),
    )


def _key(obj: Json) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _job_uid(pod: Json) -> str:
    """UID of the Job for which we place this pod; '' if we do not."""
    meta = pod["metadata"]
    if Label.POD_SET.value not in (meta.get("labels") or {}):
        return ""
    owners = meta.get("ownerReferences") or ()
    return next((str(o["uid"]) for o in owners if o.get("controller") and o["kind"] == "Job"), "")


def _thin(pod: Json, requests: Amounts) -> Json:
    """The few fields of a pod that matter to its place."""
    meta, spec = pod["metadata"], pod["spec"]
    ranks = {
        part: {COMPLETION_INDEX: meta[part][COMPLETION_INDEX]}
        for part in ("labels", "annotations")
        if COMPLETION_INDEX in (meta.get(part) or {})
    }
    kept = ("nodeName", "nodeSelector", "schedulingGates")
    return {
        "version": int(meta["resourceVersion"]),
        "requests": requests,
        "metadata": {"name": meta["name"], "uid": meta["uid"], **ranks}
        | ({"deletionTimestamp": ""} if "deletionTimestamp" in meta else {}),
        "spec": {name: spec[name] for name in kept if name in spec},
        "status": {"phase": (pod.get("status") or {}).get("phase", "")},
    }
