"""Short ways to write down nodes in racks, requests to place pods on them, and the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from federation.core.topology import HOSTNAME, FlavorTopology, Node, TopologyFailure
from federation.core.types import (
    PodSet,
    ResourceFlavor,
    TopologyAssignment,
    TopologyMode,
    TopologyRequest,
)

LEVELS = ("block", "rack", HOSTNAME)
FLAVOR = ResourceFlavor("f", (("pool", "x"),), topology="T")

Racks = Mapping[str, Iterable[int]]
"""Cards of each host, by rack."""


def node(path: str, gpu: int = 1, labels: Mapping[str, str] | None = None, **more: Any) -> Node:
    """`node("b1/r1/h1", 8)`: a node of the flavor with that many cards and room for 100 pods."""
    block, rack, host = path.split("/")
    known = {"pool": "x", "block": block, "rack": rack, HOSTNAME: host}
    fields: dict[str, Any] = {"allocatable": {"gpu": gpu, "pods": 100}, **more}
    return Node(host, known | dict(labels or {}), **fields)


def nodes(**blocks: Racks) -> list[Node]:
    """`nodes(b1={"r1": (4, 2)})`: hosts r1h1 with four cards and r1h2 with two."""
    return [
        node(f"{block}/{rack}/{rack}h{number}", gpu)
        for block, racks in blocks.items()
        for rack, hosts in racks.items()
        for number, gpu in enumerate(hosts, 1)
    ]


def topology(
    given: Iterable[Node], levels: tuple[str, ...] = LEVELS, flavor: ResourceFlavor = FLAVOR
) -> FlavorTopology:
    """The topology T of these nodes."""
    return FlavorTopology("T", levels, flavor, given)


def required(level: str, *slices: tuple[str, int]) -> TopologyRequest:
    """All in one domain of `level`."""
    return TopologyRequest(TopologyMode.REQUIRED, level, slices)


def preferred(level: str, *slices: tuple[str, int]) -> TopologyRequest:
    """In one domain of `level` if possible, otherwise of a higher one."""
    return TopologyRequest(TopologyMode.PREFERRED, level, slices)


def unconstrained(*slices: tuple[str, int]) -> TopologyRequest:
    """Anywhere; slices each in one domain."""
    return TopologyRequest(TopologyMode.UNCONSTRAINED, "", slices)


def workers(request: TopologyRequest | None = None, name: str = "main", **more: Any) -> PodSet:
    """Pods that ask for one card each, unless `requests` says otherwise."""
    requests = more.pop("requests", {"gpu": 1})
    return PodSet(name, 1, requests, topology=request, **more)


Answer = list[TopologyAssignment] | TopologyAssignment | TopologyFailure


def where(answer: Answer) -> dict[str, int]:
    """Pods per lowest value, for an answer about one pod set. Fails with the message if none."""
    assert not isinstance(answer, TopologyFailure), answer.message
    if isinstance(answer, list):
        (answer,) = answer
    return {values[-1]: count for values, count in answer.domains}


def message(answer: Answer) -> str:
    """The text of a failure."""
    assert isinstance(answer, TopologyFailure), answer
    return answer.message


def put(
    given: FlavorTopology, request: TopologyRequest | None, count: int, **more: Any
) -> dict[str, int]:
    """Where `count` pods of one card go."""
    return where(given.place([(workers(request, **more), count)]))


def refuse(given: FlavorTopology, request: TopologyRequest | None, count: int, **more: Any) -> str:
    """Why `count` pods of one card go nowhere."""
    return message(given.place([(workers(request, **more), count)]))
