"""One federation of the simulation: clusters, programs, people, and a log of what happens."""

from __future__ import annotations

import base64
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from bench.dst import cards, checks, people
from bench.dst.clock import EPOCH, Host, VirtualLoop
from bench.dst.cluster import IDENTITY, Cluster
from bench.dst.guard import Guard
from bench.dst.index import ShakyIndex
from bench.dst.people import People
from bench.dst.programs import ELECTION, AgentProgram, ManagerProgram, Program, link_to
from bench.dst.records import RecordWatch
from bench.dst.truth import Truth
from federation.api.names import FEDQ_NAMESPACE
from federation.core.failover import DEFAULT, FAST, Tier, Timings
from federation.core.policies import Policies
from federation.edge.resources import MULTIKUEUE_CLUSTERS, SECRETS
from manager.app import Manager
from tests.fakes.kube_api import FakeKube
from tests.fakes.links import Link

BOOKMARK_S = 50.0
WITH_CARDS = 0.4
"""Of the seeds, how many have cards."""
RATE = 1e-3
"""The bound on the error of a clock's rate, as the protocol assumes it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What there is: `quotas` of the ClusterQueues on the management cluster, and `rooms`, the same
    for each worker cluster.
    """

    quotas: dict[str, int]
    rooms: tuple[dict[str, int], ...]
    preemption: str
    strategy: str
    tier: Literal[Tier.AGENT, Tier.GUARD]
    timings: Timings
    managers: int = 1
    racks: cards.Racks | None = None


def has_cards(seed: int) -> bool:
    """Whether the small federation of a seed has cards."""
    return _asks(seed).random() < WITH_CARDS


def _asks(seed: int) -> random.Random:
    """A chance of its own: the seeds without cards are as they were before there were any."""
    return random.Random(f"cards-{seed}")


def drawn(rng: random.Random, asks: random.Random) -> Shape:
    """The small federation of a seed."""
    count = rng.choice((2, 3, 3, 4))
    return Shape(
        {name: rng.choice((3, 4, 6)) for name in people.QUEUES},
        tuple({name: rng.choice((2, 3)) for name in people.QUEUES} for _ in range(count)),
        rng.choice(("Never", "LowerPriority")),
        rng.choice(("StrictFIFO", "BestEffortFIFO")),
        rng.choice((Tier.AGENT, Tier.GUARD)),
        rng.choice((FAST, FAST, FAST, DEFAULT)),
        rng.choice((1, 2)),
        cards.drawn(asks, count) if asks.random() < WITH_CARDS else None,
    )


class World:
    """`seed` decides everything, `shape` apart if it is given. `notes` is the log if `traced`."""

    def __init__(
        self, loop: VirtualLoop, seed: int, *, traced: bool = False, shape: Shape | None = None
    ) -> None:
        self.loop, self.traced = loop, traced
        self.rng = rng = random.Random(f"world-{seed}")
        self.notes: list[str] = []
        self.over = False
        self.violations: list[str] = []
        self.minutes: Counter[int] = Counter()
        """Requests by minute, those apart that programs make at rest."""
        self.truth = Truth(self.violate)
        self.home = FakeKube(
            clock=lambda: datetime.fromtimestamp(EPOCH + loop.now, UTC),
            namespaces=("default", people.NAMESPACE, FEDQ_NAMESPACE),
        )
        asks = _asks(seed)
        own = random.Random(f"checks-{seed}")
        checked = shape is None and own.random() < checks.WITH_CHECKS
        self.shape = shape = shape or drawn(rng, asks)
        self.quotas, self.tier, self.timings = shape.quotas, shape.tier, shape.timings
        people.queues(self.home, self.quotas, shape)
        self.names = [f"w{n}" for n in range(len(shape.rooms))]
        self.clusters: dict[str, Cluster] = {}
        self.checks: list[checks.CheckController] = []
        for name, room in zip(self.names, shape.rooms, strict=True):
            self._cluster(name, room, shape)
            if checked and own.random() < checks.SOME:
                self._checks(name, random.Random(own.getrandbits(64)))
        self.index = ShakyIndex(random.Random(rng.getrandbits(64)))
        self.managers = [self._manager(f"manager-{n}") for n in range(shape.managers)]
        self.agents = {name: self._agent(name) for name in self.names}
        chance = random.Random(rng.getrandbits(64))
        self.people = People(self.home, self.truth, chance, asks if shape.racks else None)
        self.people.sizes.seed(f"sizes-{seed}")
        self.records = RecordWatch(self.home, self.quotas, self.truth, self.violate)
        for cluster in self.clusters.values():
            cluster.on_grown = self.records.grown
        loop.later(BOOKMARK_S, self._bookmark)

    def _cluster(self, name: str, room: dict[str, int], shape: Shape) -> None:
        cluster = Cluster(name, self.loop, self.truth, random.Random(self.rng.getrandbits(64)))
        people.queues(cluster.fake, room, shape)
        if shape.racks is not None:
            nodes = shape.racks.clusters[len(self.clusters)]
            cluster.furnish(cards.Inventory(name, nodes, cluster.fake), shape.racks.binder)
        self.truth.quotas[name] = sum(room.values())
        self.clusters[name] = cluster
        meta = {"name": name, "namespace": FEDQ_NAMESPACE}
        secret = {"kubeconfig": base64.b64encode(b"x").decode()}
        self.home.create(SECRETS, {"metadata": meta, "data": secret})
        self.join(name)

    def _checks(self, name: str, chance: random.Random) -> None:
        fake = self.clusters[name].fake
        found = checks.CheckController(name, fake, self.loop, chance, self.violate)
        self.checks.append(found)

    def join(self, name: str) -> None:
        """Make the MultiKueueCluster."""
        source = {"clusterSource": {"kubeConfig": {"location": name, "locationType": "Secret"}}}
        self.home.create(MULTIKUEUE_CLUSTERS, people.custom("MultiKueueCluster", name, source))

    def _manager(self, own: str) -> ManagerProgram:
        links = {name: self._link(c.fake, f"{own}-{name}") for name, c in self.clusters.items()}
        links[""] = self._link(self.home, f"{own}-home")
        links[ELECTION] = self._link(self.home, f"{own}-election")
        return ManagerProgram(
            self.index, Policies(), self.timings, self.loop, self.host(own), links, self._crashed
        )

    def _agent(self, name: str) -> AgentProgram:
        links = {
            "local": self._link(self.clusters[name].fake, f"agent-{name}"),
            "lease": self._link(self.home, f"lease-{name}"),
        }
        host, cluster = self.host(f"agent-{name}"), self.clusters[name]
        agent = AgentProgram(cluster, self.tier, self.loop, host, links, self._crashed)
        if self.tier is Tier.GUARD:
            Guard(self.loop, host, cluster, agent.note).start()
        return agent

    def _link(self, server: FakeKube, name: str) -> Link:
        link = link_to(server, self.rng)
        link.on_answer = lambda request, status: self._answered(name, request, status)
        return link

    def host(self, name: str) -> Host:
        """A machine with a clock of its own."""
        rate = 1 + self.rng.choice((-1, 1, 0)) * self.rng.choice((RATE, RATE / 10)) * 0.99
        return Host(name, rate, self.rng.uniform(10, 100_000))

    @property
    def programs(self) -> list[Program]:
        """The managers and the agents."""
        return [*self.managers, *self.agents.values()]

    @property
    def leader(self) -> Manager | None:
        """The manager that leads, if one does."""
        return next((m.manager for m in self.managers if m.manager is not None), None)

    def links_of_managers(self, *servers: str) -> list[Link]:
        """Their connections to some servers: clusters, '' or ELECTION."""
        return [manager.links[server] for manager in self.managers for server in servers]

    def start(self) -> None:
        """Start all programs, some earlier than others."""
        for program in self.programs:
            self.loop.later(self.rng.uniform(0, 3), program.start)

    def _bookmark(self) -> None:
        for fake in (self.home, *(c.fake for c in self.clusters.values())):
            fake.bookmark()
        self.loop.later(BOOKMARK_S, self._bookmark)

    # The log

    def note(self, who: str, text: str) -> None:
        """Write to the log."""
        if self.traced:
            self.notes.append(f"{self.loop.now:9.3f} {who:12} {text}")

    def violate(self, rule: str, text: str) -> None:
        """An invariant is broken."""
        self.note("VIOLATION", f"{rule}: {text}")
        line = f"{rule}: {text} (at {self.loop.now:.1f} s)"
        if len(self.violations) < 20:
            self.violations.append(line)

    def _crashed(self, text: str) -> None:
        if not self.over:
            self.violate("crash", text)

    def _answered(self, link: str, request: Any, status: int) -> None:
        path = request.url.raw_path.decode()
        probe = path in ("/readyz", f"/api/v1/namespaces/{IDENTITY}")
        if not (probe or "/leases" in path or "watch=1" in path):
            self.minutes[int(self.loop.now // 60)] += 1
        if self.traced and (request.method != "GET" or status >= 400):
            body = request.content.decode("utf-8", "replace")[:300]
            self.note(link, f"{request.method} {path.partition('?')[0]} -> {status} {body}")
