"""The openb trace: hosts, pods, arrival orders, published results.

A folder has `openb_node_list_gpu_node.csv`, and per list `openb_pod_list_NAME.csv` (at least the
columns name, cpu_milli, memory_mib, num_gpu, gpu_milli) with `order_NAME.txt.gz`.
"""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from federation.core.devices.cards import Card, Host
from federation.core.devices.fleet.types import Room, Shape
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Wishes

MILLI = 1000
_MIB = 2**20
_VENDOR = "NVIDIA"


@dataclass(frozen=True, slots=True)
class Node:
    """A line of the node list."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: int
    model: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A line of a pod list; `models` empty means any."""

    cpu_milli: int
    memory_mib: int
    cards: int
    gpu_milli: int
    models: tuple[str, ...]

    @property
    def milli(self) -> int:
        """All it asks of cards, in thousandths of one."""
        return self.cards * self.gpu_milli


@dataclass(frozen=True, slots=True)
class Order:
    """A run: indices of pods as they arrive, and the number of each node, by which equals go."""

    arrivals: tuple[int, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """One list: nodes and pods sorted by name, and its runs by seed."""

    name: str
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    orders: dict[int, Order]

    @property
    def milli(self) -> int:
        """All cards, in thousandths."""
        return sum(node.cards for node in self.nodes) * MILLI


def lists(folder: Path) -> list[str]:
    """The lists in a folder that have arrival orders."""
    names = (path.name[len("openb_pod_list_") : -4] for path in folder.glob("openb_pod_list_*.csv"))
    return sorted(name for name in names if (folder / f"order_{name}.txt.gz").exists())


def load(folder: Path, name: str) -> Trace:
    """A list with its runs. OSError or ValueError (with the file and what is wrong)."""
    nodes = [
        Node(
            row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"]
        )
        for row in _rows(folder / "openb_node_list_gpu_node.csv")
    ]
    rows = _rows(folder / f"openb_pod_list_{name}.csv")
    pods = [_pod(row) for row in sorted(rows, key=lambda row: str(row["name"]))]
    orders = _orders(folder / f"order_{name}.txt.gz", len(pods), len(nodes))
    nodes.sort(key=lambda node: node.name)
    return Trace(name, tuple(nodes), tuple(pods), orders)


def published(folder: Path) -> Any:
    """list → policy → seed → arrived % → allocated %; empty if the folder has none."""
    path = folder / "published_allocation.json"
    return json.loads(path.read_text()) if path.exists() else {}


def host(node: Node, number: int) -> tuple[str, Host, Room]:
    """A node as the product sees it: a card has a thousand MiB, and slots to spare."""
    name = f"{number:05d}-{node.name}"
    cards = tuple(
        Card(f"{node.name}-{index}", _VENDOR, node.model, MILLI, slots=MILLI, index=index)
        for index in range(node.cards)
    )
    return name, Host(name, cards), Room({"cpu": node.cpu_milli, "memory": node.memory_mib * _MIB})


def shape(pod: Pod) -> Shape:
    """A pod as the product sees it."""
    cards = (CardWants(_VENDOR, pod.cards, memory_mib=pod.gpu_milli),) if pod.cards else ()
    wants = PodWants((ContainerWants("main", cards=cards),), Wishes(use_models=pod.models))
    return Shape(wants, (("cpu", pod.cpu_milli), ("memory", pod.memory_mib * _MIB)))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _pod(row: dict[str, str]) -> Pod:
    cards = int(row["num_gpu"])
    models = tuple(word for word in (row.get("gpu_spec") or "").split("|") if word)
    return Pod(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        cards,
        int(row["gpu_milli"]) if cards else 0,
        models if cards else (),
    )


def _orders(path: Path, pods: int, nodes: int) -> dict[int, Order]:
    found: dict[str, dict[int, tuple[int, ...]]] = {"A": {}, "N": {}}
    with gzip.open(path, "rt") as file:
        for line in file:
            kind, number, *rest = line.split()
            found[kind][int(number)] = tuple(map(int, rest))
    for seed, arrivals in found["A"].items():
        if max(arrivals) >= pods or len(found["N"].get(seed, ())) != nodes:
            raise ValueError(f"{path}: seed {seed} does not belong to these pods and nodes")
    return {seed: Order(arrivals, found["N"][seed]) for seed, arrivals in found["A"].items()}
