"""What a drill stands on: a rig with Fedq on it, jobs, faults, and what was seen meanwhile."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from federation.api.names import Order
from federation.core.failover import Timings
from federation.edge.errors import NotFound
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.machine import boottime
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    NAMESPACES,
    Resource,
)
from fedq.drill.faults.link import Link, Way, partition
from fedq.drill.history import Submitted, read_history, runs
from fedq.drill.jobs import CARDS_OF_A_WORKER, Plan, priority_classes, queues
from fedq.drill.result import Expectations
from fedq.drill.runs import Run
from fedq.drill.timeline import Timeline, What
from fedq.drill.witness import Witness, attempt, bound
from fedq.following import watching
from fedq.stack import Stack

LOOK_S = 0.1
"""Seconds between two looks at a condition: the resolution of what is measured here."""
CREATORS = 8


class Stuck(Exception):
    """Something that the drill waits for did not come in time: its text says what."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a drill runs under. `tier` is `A`, or `B` when node guards run. `jobs` is how many a
    drill has whose number of jobs matters.
    """

    profile: str
    timings: Timings
    tier: str = "A"
    endurance: bool = False
    jobs: int = 1000


@dataclass(slots=True)
class Ground:
    """Made by `standing`. Clusters are called by name; moments are CLOCK_BOOTTIME in seconds."""

    stack: Stack
    link: Link
    conditions: Conditions
    namespace: str
    clients: dict[str, KubeClient]
    tell: Callable[[str], None]
    timeline: Timeline = field(default_factory=Timeline)
    expect: Expectations = field(default_factory=Expectations)
    submitted: dict[str, Submitted] = field(default_factory=dict)
    """Name of a job → what the checker has to know of it."""
    plans: dict[str, Plan] = field(default_factory=dict)
    victims: list[str] = field(default_factory=list)
    """The clusters that the fault hits; set by `strike`."""
    fault_at: float = 0.0
    unseen_s: float = 0.0
    """For how long a given-up attempt may run beside a later one: what woke after the end of the
    lease runs until the guard has seen it. Not 0 only where a drill says so, and then it is one of
    its findings.
    """
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.timeline)

    @property
    def timings(self) -> Timings:
        """The times of the profile."""
        return self.conditions.timings

    @property
    def management(self) -> KubeClient:
        """Admin of the management cluster."""
        return self.clients[self.stack.rig.management]

    # Jobs

    async def submit(self, plan: Plan) -> list[str]:
        """Create Jobs; returns their names. Those that are to start on one cluster are bound to it
        when this returns: the others are cordoned meanwhile. Raises Stuck if they are not.
        """
        if not plan.on:
            return await self._create(plan)
        async with self.cordoned(*(w for w in self.stack.rig.workers if w != plan.on)):
            names = await self._create(plan)

            def all_bound() -> bool:
                return all(bound(self.witness.workloads.get(name)) for name in names)

            await self.until(all_bound, 30 + plan.count / 5, f"jobs to be bound to {plan.on}")
        astray = [name for name in names if self._cluster(name) != plan.on]
        if astray:
            raise Stuck(f"{', '.join(astray)} went elsewhere though all but {plan.on} are cordoned")
        return names

    def _cluster(self, name: str) -> str:
        binding = bound(self.witness.workloads.get(name))
        return binding[0] if binding else ""

    async def _create(self, plan: Plan) -> list[str]:
        limit = asyncio.Semaphore(CREATORS)

        async def one(body: dict[str, object]) -> str:
            async with limit:
                made = await self.management.create(JOBS, body)
            name = str(made["metadata"]["name"])
            if plan.process:
                self.submitted[name] = Submitted(made["metadata"]["uid"], plan.pods, plan.pods)
            self.plans[name] = plan
            return name

        return list(await asyncio.gather(*(one(m) for m in plan.manifests(self.namespace))))

    def runs(self) -> list[Run]:
        """The runs of this drill's jobs by now, from the records of their processes."""
        mine = {job.uid for job in self.submitted.values()}
        found = runs(read_history(self.stack.history), boottime())
        return [run for run in found if run.subject.job in mine]

    def runs_of(self, name: str) -> list[Run]:
        """The runs of one job."""
        return [run for run in self.runs() if run.subject.job == self.submitted[name].uid]

    def place(self, name: str) -> str:
        """The cluster on which a job runs or ran last; empty when it never ran."""
        found = self.runs_of(name)
        return found[-1].subject.cluster if found else ""

    async def running(self, names: Iterable[str], patience: float = 60.0) -> None:
        """Until a process of each job has started."""
        wanted = {self.submitted[name].uid for name in names if name in self.submitted}

        def all_run() -> bool:
            return not wanted - {run.subject.job for run in self.runs()}

        await self.until(all_run, patience, f"{len(wanted)} jobs to run", every=0.5)

    async def complete(self, names: Iterable[str], patience: float) -> None:
        """Until each Job is Complete on the management cluster. What fails is no reason to stop."""
        wanted = set(names)

        def done() -> bool:
            return not wanted - {mark.job for mark in self.timeline.find(What.FINISHED)}

        await self.until(done, patience, "all jobs to finish")

    async def settled(self, cluster: str, patience: float) -> None:
        """Until every copy on a cluster is one that the management cluster knows: nothing is left
        there of what was moved or deleted.
        """

        def clean() -> bool:
            for (where, name), copy in self.witness.copies.items():
                local = self.witness.locals.get(name)
                if where == cluster and (local is None or not self._current(cluster, name, copy)):
                    return False
            return True

        await self.until(clean, patience, f"{cluster} to be cleaned of old copies")

    def _current(self, cluster: str, name: str, copy: dict[str, object]) -> bool:
        status = (self.witness.workloads.get(name) or {}).get("status") or {}
        binding = status.get("fedq") or {}
        return binding.get("cluster") == cluster and binding.get("attempt") == attempt(copy)

    def other(self, cluster: str) -> str:
        """A worker that is not this one."""
        return next(worker for worker in self.stack.rig.workers if worker != cluster)

    @asynccontextmanager
    async def cordoned(self, *clusters: str) -> AsyncIterator[None]:
        """These get no new work while the block runs."""
        try:
            for cluster in clusters:
                await self._cordon(cluster, "a drill places its jobs")
            yield
        finally:
            for cluster in clusters:
                await self._cordon(cluster, None)

    async def _cordon(self, cluster: str, why: str | None) -> None:
        body = {"metadata": {"annotations": {Order.CORDON.value: why}}}
        await self.management.patch(MULTIKUEUE_CLUSTERS, cluster, body)

    # Time

    async def until(
        self, condition: Callable[[], bool], patience: float, what: str, every: float = LOOK_S
    ) -> None:
        """Wait for a condition. Raises Stuck when it does not come within `patience` seconds."""
        deadline = boottime() + patience
        while not condition():
            if boottime() > deadline:
                raise Stuck(f"waited {patience:.0f} s for {what}")
            await asyncio.sleep(every)  # a poll interval inside a bounded wait

    def elapsed(self) -> float:
        """Seconds since the fault."""
        return boottime() - self.fault_at

    async def past(self, seconds: float) -> None:
        """Until so many seconds have passed since the fault: how long it is to last."""
        await asyncio.sleep(max(0.0, self.fault_at + seconds - boottime()))

    # Faults

    def strike(self, *clusters: str, note: str = "") -> None:
        """The fault begins now; times are counted from here."""
        self.victims = list(clusters)
        self.fault_at = self.timeline.mark(What.FAULT, clusters[0] if clusters else "", "", note).at
        self.tell(f"  {note or 'fault'}")

    def heal(self, note: str = "") -> None:
        """The fault has ended."""
        self.timeline.mark(What.HEALED, self.victims[0] if self.victims else "", "", note)
        self.tell(f"  {note or 'healed'}")

    def note(self, text: str) -> None:
        """A moment worth telling."""
        self.timeline.mark(What.NOTE, self.victims[0] if self.victims else "", "", text)

    @asynccontextmanager
    async def cut(self, *clusters: str, way: Way = Way.BOTH) -> AsyncIterator[None]:
        """These clusters are cut off while the block runs."""
        async with partition(self.link, *clusters, way=way):
            self.strike(*clusters, note=f"{', '.join(clusters)} cut off {way.value}")
            yield
        self.heal(f"{', '.join(clusters)} joined again")

    # What was seen

    def since(self, what: What, *, cluster: str = "", detail: str = "") -> float | None:
        """Seconds from the fault to the first such mark after it; None if there is none."""
        found = self.timeline.find(what, cluster=cluster, detail=detail, after=self.fault_at)
        return found[0].at - self.fault_at if found else None

    def shown(self, cluster: str, *phases: str) -> float | None:
        """Seconds from the fault until the manager showed a cluster in one of these phases."""
        found = self.timeline.find(What.PHASE, cluster=cluster, after=self.fault_at)
        moments = [mark.at for mark in found if mark.detail.lower() in phases]
        return min(moments) - self.fault_at if moments else None


@asynccontextmanager
async def standing(
    stack: Stack, link: Link, conditions: Conditions, name: str, tell: Callable[[str], None]
) -> AsyncIterator[Ground]:
    """Ground with queues and watches of its own, which go away with their jobs afterwards."""
    rig = stack.rig
    # A namespace of that name may still be ending.
    namespace = f"drill-{name}-{secrets.token_hex(2)}"
    async with AsyncExitStack() as exits:
        clients = {}
        for cluster in rig.clusters:
            client = KubeClient(load_endpoint(rig.kubeconfig(cluster)), user_agent="fedq-drill")
            clients[cluster] = await exits.enter_async_context(client)
        total = CARDS_OF_A_WORKER * len(rig.workers)
        for cluster in rig.clusters:
            cards = total if cluster == rig.management else CARDS_OF_A_WORKER
            objects = queues(namespace, cards)
            if cluster == rig.management:
                objects += priority_classes()
            await asyncio.to_thread(stack.apply, cluster, objects)
        ground = Ground(stack, link, conditions, namespace, clients, tell)
        informers = ground.witness.informers(clients, rig.management, namespace)
        for informer in await exits.enter_async_context(watching(informers)):
            await asyncio.wait_for(informer.synced.wait(), 30)
        try:
            yield ground
        finally:
            await _clear(ground)


async def _clear(ground: Ground) -> None:
    """Delete the jobs, wait until no copy is left, then delete the queues.

    A namespace and a ClusterQueue whose deletion takes longer are left to the API server.
    """
    for job in list(ground.witness.locals.values()):
        await _gone(ground.management, JOBS, job["metadata"]["name"], ground.namespace)
    patience = 120 + len(ground.plans) / 5
    await ground.until(lambda: not ground.witness.copies, patience, "copies of deleted jobs to go")
    for client in ground.clients.values():
        await _gone(client, NAMESPACES, ground.namespace)
        await _gone(client, CLUSTER_QUEUES, ground.namespace)


async def _gone(
    client: KubeClient, resource: Resource, name: str, space: str | None = None
) -> None:
    try:
        await client.delete(resource, name, space)
    except NotFound:
        return
