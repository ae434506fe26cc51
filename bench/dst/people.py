"""People: they submit Jobs, and change their minds."""

from __future__ import annotations

import random
from typing import Any, Protocol

from bench.dst import cards
from bench.dst.truth import Traits, Truth
from federation.api.names import KUEUE_API, Annotation, Label, Option, Order
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from federation.jobs import batch_job
from tests.fakes.kube_api import FakeKube

Json = dict[str, Any]
QUEUES = ("one", "two")
NAMESPACE = "team"
ASKING = 0.7
"""Of the Jobs where there are cards, how many ask for some."""
CHARGED = "gpu"
"""The resource whose quota is short."""
ELASTIC = 0.4
"""Of the Jobs without cards, how many are elastic."""
MOST_PODS = 3
FITS = 4
"""Of what is short, so much fits into the smallest cluster."""
GRACE_S = 34
"""What pods may take to end: K of the protocol less what agent and controller need meanwhile."""


class Rules(Protocol):
    """What queues are like everywhere; see `bench.dst.world.Shape`."""

    @property
    def preemption(self) -> str:
        """The policy of both kinds."""

    @property
    def strategy(self) -> str:
        """The queueing strategy."""

    @property
    def racks(self) -> cards.Racks | None:
        """Cards, if there are any."""


def custom(kind: str, name: str, spec: Json, namespace: str = "") -> Json:
    """An object of Kueue's API."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": KUEUE_API, "kind": kind, "metadata": meta, "spec": spec}


def queues(fake: FakeKube, nominal: dict[str, int], shape: Rules) -> None:
    """Two ClusterQueues in a cohort, and a LocalQueue of the same name for each."""
    plenty = {cards.RESOURCE: cards.PLENTY} if shape.racks else {}
    if not any(n["metadata"]["name"] == NAMESPACE for n in fake.items(NAMESPACES)):
        fake.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    fake.create(RESOURCE_FLAVORS, custom("ResourceFlavor", "f", {}))
    for name, amount in nominal.items():
        amounts = {CHARGED: amount, **plenty}
        quotas = [{"name": of, "nominalQuota": n} for of, n in amounts.items()]
        group = {"coveredResources": [*amounts], "flavors": [{"name": "f", "resources": quotas}]}
        rules = {
            "resourceGroups": [group],
            "namespaceSelector": {},
            "cohortName": "all",
            "queueingStrategy": shape.strategy,
            "preemption": {
                "withinClusterQueue": shape.preemption,
                "reclaimWithinCohort": shape.preemption,
            },
        }
        fake.create(CLUSTER_QUEUES, custom("ClusterQueue", name, rules))
        fake.create(LOCAL_QUEUES, custom("LocalQueue", name, {"clusterQueue": name}, NAMESPACE))
    for name, value in (("low", -5), ("high", 5)):
        body = {"metadata": {"name": name}, "value": value}
        fake.create(WORKLOAD_PRIORITY_CLASSES, body)


class People:
    """What they do on the management cluster, at moments that the plan of the run names."""

    def __init__(
        self, home: FakeKube, truth: Truth, rng: random.Random, asks: random.Random | None
    ) -> None:
        """`asks` is the chance of what Jobs ask of cards, if there are any."""
        self.home, self.truth, self.rng, self.asks = home, truth, rng, asks
        self.sizes = random.Random("sizes")
        """A chance of its own: what else people do is as it was before Jobs had sizes."""
        self.uids: dict[str, str] = {}

    def submit(self, number: int) -> str:
        """Create a Job; its name."""
        rng, name = self.rng, f"j{number:02}"
        pods = rng.choice((1, 1, 1, 2))
        policy = rng.choice(("stop", "stop", "stop", "stop", "keep", "duplicate-ok"))
        traits = Traits(
            name,
            rng.choice((1, 1, 2)),
            rng.choice((rng.uniform(2, 20), rng.uniform(20, 200), rng.uniform(100, 300))),
            rng.choice(("Complete",) * 7 + ("Failed",)),
            rng.choice((0.2, rng.uniform(0, 20), rng.uniform(20, GRACE_S))),
            policy,
            rng.choice((None, 60.0)) if policy == "keep" else None,
            retries=number % 3 != 0,
        )
        if self.asks is not None and self.asks.random() < ASKING:
            traits.ask, traits.amount = self.asks.choice(cards.ASKS), 1
            pods = cards.pods(self.asks, traits.ask)
        traits.elastic = traits.ask is None and self.sizes.random() < ELASTIC
        return self.create(traits, pods)

    def create(self, traits: Traits, pods: int) -> str:
        """Create such a Job; its name."""
        made = self.home.create(JOBS, self._manifest(traits, pods))
        uid = made["metadata"]["uid"]
        self.uids[traits.name] = uid
        self.truth.traits[uid] = traits
        return traits.name

    def _manifest(self, traits: Traits, pods: int) -> Json:
        rng = self.rng
        labels = {Label.QUEUE_NAME.value: rng.choice(QUEUES)}
        if (of := rng.choice(("", "", "low", "high"))) != "":
            labels[Label.PRIORITY_CLASS.value] = of
        notes = {}
        if traits.policy != "stop" or rng.random() < 0.5:
            notes[Option.ON_DISCONNECT.value] = traits.policy
        if traits.rerun_after is not None:
            notes[Option.RERUN_AFTER.value] = f"{traits.rerun_after:.0f}s"
        if traits.elastic:
            notes[Annotation.ELASTIC_JOB.value] = "true"
        limits = (
            {f"nvidia.com/{of}": n for of, n in traits.ask.limits.items()} if traits.ask else {}
        )
        resources = {"requests": {CHARGED: str(traits.amount), **limits}}
        if limits:
            resources["limits"] = limits
        container = {"name": "c", "image": "i", "resources": resources}
        pod = {"restartPolicy": "Never", "containers": [container]}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": traits.name,
                "namespace": NAMESPACE,
                "labels": labels,
                "annotations": notes,
            },
            "spec": {
                "suspend": True,
                "parallelism": pods,
                "completions": MOST_PODS if traits.elastic else pods,
                "backoffLimit": 0,
                "managedBy": batch_job.MANAGED_BY,
                "template": {"spec": pod | {"terminationGracePeriodSeconds": GRACE_S}},
            },
        }

    def job(self, name: str) -> Json | None:
        """A Job as it is stored."""
        return self.home.objects.data.get(JOBS, {}).get((NAMESPACE, name))

    def workload(self, name: str) -> Json | None:
        """The Workload of a Job."""
        uid = self.uids[name]
        for obj in self.home.objects.data.get(WORKLOADS, {}).values():
            if any(o["uid"] == uid for o in obj["metadata"].get("ownerReferences", ())):
                return obj
        return None

    def delete(self, name: str) -> str:
        """Somebody deletes a Job."""
        if self.job(name) is not None:
            self.truth.traits[self.uids[name]].gone = True
            self.home.objects.delete(JOBS, (NAMESPACE, name), {"propagationPolicy": "Background"})
        return name

    def change_priority(self, name: str) -> str:
        """Somebody gives a Job another priority."""
        if self.job(name) is not None:
            labels = {Label.PRIORITY_CLASS.value: self.rng.choice(("low", "high"))}
            self.home.merge(JOBS, name, {"metadata": {"labels": labels}}, NAMESPACE)
        return name

    def scale(self, name: str) -> str:
        """Somebody changes the number of pods of an elastic Job."""
        traits = self.truth.traits[self.uids[name]]
        pods = self.sizes.randint(1, min(MOST_PODS, FITS // traits.amount))
        if traits.elastic and self.job(name) is not None:
            self.home.merge(JOBS, name, {"spec": {"parallelism": pods}}, NAMESPACE)
        return f"{name} to {pods}"

    def switch(self, name: str, active: bool) -> str:
        """Somebody sets spec.active of the Workload."""
        if (found := self.workload(name)) is not None:
            key = found["metadata"]["name"]
            self.home.merge(WORKLOADS, key, {"spec": {"active": active}}, NAMESPACE)
        return name

    def move(self, name: str, cluster: str) -> str:
        """An operator orders that a Job runs on a cluster."""
        if (found := self.workload(name)) is not None:
            notes = {Order.MOVE_TO.value: cluster}
            key = found["metadata"]["name"]
            self.home.merge(WORKLOADS, key, {"metadata": {"annotations": notes}}, NAMESPACE)
        return f"{name} to {cluster}"

    def unsuspend(self, name: str) -> str:
        """Somebody starts a Job past the queue."""
        job = self.job(name)
        if job is not None and not batch_job.finished(job.get("status") or {}):
            self.home.merge(JOBS, name, {"spec": {"suspend": False}}, NAMESPACE)
        return name
