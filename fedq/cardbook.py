"""The cards of one cluster and who holds them, read from its nodes, pods, Jobs and claims.

By the same code as the agent's, once over a list of everything: what it would count, not what any
running agent has counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any

from federation.api.names import Pin
from federation.core.devices.ledger.holding import Holding, Replica
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.wire.plan_note import PlanNoteError
from federation.core.policies import ResourceRules
from federation.edge.claim_catalog import ClaimCatalog
from federation.edge.informer import Key
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, NODES, PODS
from fedq.gpuview import CardView, HolderView, InstanceView, NamelessView, NodeView, state_of
from worker_agent.device_claims import DeviceClaims
from worker_agent.device_nodes import DeviceNodes
from worker_agent.device_pods import job_of, shape_of
from worker_agent.device_watch import DevicePods
from worker_agent.facts import worker_job
from worker_agent.plans import needed, read_plan
from worker_agent.rooms import Amounts, Rooms

Json = dict[str, Any]

RULES = ResourceRules()
"""Names of cards are HAMi's own: how a worker is configured is not to be seen from outside."""
CLAIMS_TAKE_S = 5.0
"""Seconds to wait for resource claims: not every cluster serves them, nor may everybody read."""


class CardBook:
    """What is known of one cluster; `problem` says what could not be read."""

    def __init__(self, client: KubeClient) -> None:
        self.ledger, self.rooms = Ledger(), Rooms()
        self.nodes = DeviceNodes(self.ledger, self.rooms, _nothing, time.time)
        self.pods = DevicePods(
            self.ledger, self.rooms, self.nodes, RULES, lambda job: None, _nothing
        )
        self.problem = ""
        self._catalog = ClaimCatalog(client, _nothing)
        self._claims = DeviceClaims(self.ledger, self._catalog, self.nodes)
        self._jobs: dict[str, Key] = {}
        self._job_of: dict[str, str] = {}
        self._seats: dict[Replica, Amounts] = {}

    def take(self, nodes: Iterable[Json], jobs: Iterable[Json], pods: Iterable[Json]) -> None:
        """All that there is."""
        self.nodes.on_list(list(nodes), "")
        for job in jobs:
            self._take_job(job)
        listed = list(pods)
        self._job_of = {pod["metadata"]["uid"]: job_of(pod) for pod in listed}
        self.pods.on_list(listed, "")
        for seat, requests in self._seats.items():
            holding = self.ledger.holding(seat)
            if holding is not None:
                self.rooms.put(seat, holding.host, requests)

    def _take_job(self, job: Json) -> None:
        meta = job["metadata"]
        self._jobs[meta["uid"]] = meta["namespace"], meta["name"]
        note = (meta.get("annotations") or {}).get(Pin.DEVICES.value, "")
        facts = worker_job(job) if note else None
        if facts is None:
            return
        try:
            plan = read_plan(facts, note, ())
        except PlanNoteError:
            return  # no agent could read it either
        self.ledger.recall(plan.reservations(facts.uid, float("inf")))
        self.ledger.need(facts.uid, needed(facts))
        requests = shape_of(job["spec"]["template"], RULES).requests
        self._seats |= {Replica(facts.uid, n): requests for n in range(len(plan.seats))}

    async def take_claims(self) -> None:
        """Claims of `resource.k8s.io`, where the cluster has such."""
        self._catalog.want()
        task = asyncio.create_task(self._catalog.run())
        try:
            async with asyncio.timeout(CLAIMS_TAKE_S):
                await self._catalog.settled.wait()
        except TimeoutError:
            why = "; ".join(self._catalog.errors()) or "no answer"
            self.problem = f"resource claims could not be read, and are not counted: {why}"
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    def views(self, cluster: str = "") -> list[NodeView]:
        """Nodes with cards, by name."""
        return [self._node(name, cluster) for name in self.ledger.hosts()]

    def _node(self, name: str, cluster: str) -> NodeView:
        use = self.ledger.use(name)
        assert use is not None
        cards = []
        for card in use.host.cards:
            held = use.use(card.uuid)
            holders = self.ledger.holders(name, card.uuid).values()
            cards.append(
                CardView(
                    card.uuid,
                    card.vendor,
                    card.model,
                    card.index,
                    card.numa,
                    card.mode,
                    *state_of(card, held),
                    card.memory_mib,
                    held.amount.memory_mib,
                    card.cores,
                    held.amount.cores,
                    card.slots,
                    held.amount.slots,
                    max((s + n for p in card.profiles for s, n in p.placements), default=0),
                    sorted(self._holder(holding, card.uuid) for holding in holders),
                )
            )
        room = self.rooms.room(name)
        ready = room is not None and room.ready
        fence, nameless = use.fence, []
        for pod, unnamed in self.ledger.nameless(name).items():
            namespace, word = self.pods.keys.get(str(pod), ("", str(pod)))
            job = self._jobs.get(self._job_of.get(str(pod), ""), ("", ""))[1]
            fence = fence.replace(f"pod {pod} ", f"pod {namespace}/{word} ")
            nameless += [
                NamelessView(namespace, word, job, *kind, count) for kind, count in unnamed.items()
            ]
        problems = list(self.nodes.problems(name))
        return NodeView(cluster, name, ready, fence, problems, cards, sorted(nameless))

    def _holder(self, holding: Holding, uuid: str) -> HolderView:
        amount = holding.charge()[uuid]
        kind, (namespace, name), job = self.owner(holding)
        places = [InstanceView(*place) for place in holding.occupied().get(uuid, ())]
        state = holding.state.name.lower()
        return HolderView(kind, namespace, name, job, state, *amount[1:], amount.slots, places)

    def owner(self, holding: Holding) -> tuple[str, Key, str]:
        """Kind, namespace and name of what holds, and the name of its Job ('' if it is of none)."""
        owner, space = holding.owner, holding.namespace
        if isinstance(owner, Replica):
            job = self._jobs.get(owner.job, (space, owner.job))
            return "Seat", (job[0], f"{job[1]}[{owner.number}]"), job[1]
        if owner in self.pods.keys:
            job = self._jobs.get(self._job_of.get(owner, ""), ("", ""))
            return "Pod", self.pods.keys[owner], job[1]
        claim = owner.partition("@")[0]
        if claim in self._claims.keys:
            return "Claim", self._claims.keys[claim], ""
        return "Unknown", (space, owner), ""


async def read_cards(client: KubeClient) -> CardBook:
    """Read everything of one cluster. Raises ApiError."""
    book = CardBook(client)
    nodes, jobs, pods, _ = await asyncio.gather(
        client.list(NODES), client.list(JOBS), client.list(PODS), book.take_claims()
    )
    book.take(nodes.items, jobs.items, pods.items)
    return book


def _nothing() -> None:
    """Nobody has to hear of it."""
