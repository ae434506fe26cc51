"""Nodes with cards that HAMi's device plugin has registered, and what Jobs ask of them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bench.dst.card_truth import Ask, Card, CardTruth, Limits
from federation.core.topology import HOSTNAME
from federation.edge.resources import NODES
from fedq.rig.gpus import REGISTER, cards
from tests.fakes.kube_api import FakeKube
from worker_agent.binder import Binder

Json = dict[str, Any]

MEMORY_MIB = 16000
CORES = 100
SMALLEST = 2
"""Cards that every cluster has on one node at least, so that any Job finds a place anywhere."""
CPUS, PODS = 64, 50
RESOURCE = "nvidia.com/gpu"
PLENTY = 1000
"""Quota for cards by number: the cards themselves are what is short."""

_SMALL = Ask(1, 4000, 10, {"gpu": "1", "gpumem": "4000", "gpucores": "10"})
_HALF = Ask(1, 8000, 40, {"gpu": "1", "gpumem": "8000", "gpucores": "40"})
_MEMORY = Ask(1, 9000, 0, {"gpu": "1", "gpumem": "9000"})
_TWO = Ask(2, 5000, 25, {"gpu": "2", "gpumem": "5000", "gpucores": "25"})
_WHOLE = Ask(1, MEMORY_MIB, CORES, {"gpu": "1"})
ASKS = (_SMALL, _SMALL, _HALF, _HALF, _MEMORY, _TWO, _WHOLE)
"""What one pod may ask for, with what HAMi makes of it where it is left out."""
MOST_PODS = 2
"""So many pods of any kind fit on the smallest cluster; of those that share two by two, more."""


def pods(rng: random.Random, ask: Ask) -> int:
    """How many pods a Job has that any cluster has cards for."""
    count = rng.choice((1, 1, 2, 3))
    return count if ask in (_SMALL, _HALF) else min(count, MOST_PODS)


class Node(NamedTuple):
    """A node of so many equal cards, each of which so many containers may share."""

    cards: int
    slots: int


@dataclass(frozen=True, slots=True)
class Racks:
    """The nodes with cards of each cluster, and who binds pods there."""

    clusters: tuple[tuple[Node, ...], ...]
    binder: Binder


def drawn(rng: random.Random, clusters: int) -> Racks:
    """Few cards, so that they are short."""

    def node(least: int) -> Node:
        return Node(rng.randint(least, 3), rng.choice((2, 3, 4)))

    nodes = [
        (node(SMALLEST), *(node(1) for _ in range(rng.choice((0, 1, 1))))) for _ in range(clusters)
    ]
    return Racks(tuple(nodes), rng.choice((Binder.HAMI, Binder.AGENT)))


class Inventory:
    """The nodes of one cluster as they stand in its API server; `away` are those that are gone, or
    that nobody hears of.
    """

    FREE: ClassVar = {"cpu": str(1000 * CPUS), "gpu": str(CPUS), "pods": str(PODS)}
    """What each node has beside its cards, as agents count it."""

    def __init__(self, cluster: str, nodes: tuple[Node, ...], fake: FakeKube) -> None:
        self.fake = fake
        self.nodes = {f"{cluster}-n{number}": node for number, node in enumerate(nodes)}
        self.ill: set[tuple[str, int]] = set()
        """Cards that are not healthy, by node and index."""
        self.away: set[str] = set()
        for name in self.nodes:
            self.add(name)

    def add(self, name: str) -> None:
        """A node joins."""
        self.away.discard(name)
        meta = {"name": name, "labels": {HOSTNAME: name}}
        slots = self.nodes[name].cards * self.nodes[name].slots
        amounts = {"cpu": str(CPUS), "pods": str(PODS), "gpu": str(CPUS), RESOURCE: str(slots)}
        self.fake.create(NODES, {"metadata": {**meta, "annotations": self._registration(name)}})
        self._status(name, {"allocatable": amounts, "capacity": amounts, **_ready(True)})

    def remove(self, name: str) -> None:
        """A node is taken away."""
        self.away.add(name)
        self.fake.delete(NODES, name)

    def silence(self, name: str, silent: bool) -> None:
        """Nothing is heard of a node, or it is heard again."""
        (self.away.add if silent else self.away.discard)(name)
        self._status(name, _ready(not silent))

    def sicken(self, name: str, index: int, ill: bool) -> None:
        """A card is not healthy any more, or it is again."""
        (self.ill.add if ill else self.ill.discard)((name, index))
        if ("", name) in self.fake.objects.data[NODES]:
            body = {"metadata": {"annotations": self._registration(name)}}
            self.fake.merge(NODES, name, body)

    def sound(self, name: str, uuids: tuple[str, ...]) -> bool:
        """Whether a node is there, and these of its cards are healthy."""
        ill = {self.uuid(name, index) for node, index in self.ill if node == name}
        return name in self.nodes and name not in self.away and ill.isdisjoint(uuids)

    @staticmethod
    def uuid(name: str, index: int) -> str:
        """Of a card."""
        return str(cards(name, index + 1)[index]["id"])

    def limits(self) -> dict[tuple[str, str], Limits]:
        """What each card has, by node and UUID."""
        return {
            (name, self.uuid(name, index)): Limits(node.slots, MEMORY_MIB, CORES)
            for name, node in self.nodes.items()
            for index in range(node.cards)
        }

    def _registration(self, name: str) -> dict[str, str]:
        node = self.nodes[name]
        shown = cards(name, node.cards, memory_mib=MEMORY_MIB, slots=node.slots)
        for index, card in enumerate(shown):
            card["health"] = (name, index) not in self.ill
        return {REGISTER: json.dumps(shown)}

    def _status(self, name: str, status: Json) -> None:
        self.fake.merge(NODES, name, {"status": status}, status=True)


def _ready(ready: bool) -> Json:
    return {"conditions": [{"type": "Ready", "status": str(ready) if ready else "Unknown"}]}


def register(truth: CardTruth, cluster: str, inventory: Inventory) -> None:
    """Tell the truth what there is."""
    for (node, uuid), limits in inventory.limits().items():
        truth.limits[Card(cluster, node, uuid)] = limits
