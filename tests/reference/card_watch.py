"""Whether cards are ever given to more than they hold: reckoned from annotations alone.

Knows nothing of Fedq: node registrations and pod annotations are read as HAMi writes them, each
with a few lines of its own. Every pod event is a moment at which all cards are looked at.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

REGISTER = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
NODE = "hami.io/vgpu-node"
PREFIX = "nvidia.com/"


@dataclass(frozen=True)
class Limits:
    """What one card has."""

    slots: int
    memory: int
    cores: int


@dataclass
class CardWatch:
    """Feed it nodes and pod events; `problems` says what was wrong, and when."""

    cards: dict[tuple[str, str], Limits] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    events: int = 0
    granted: set[str] = field(default_factory=set)
    """UIDs of all pods that were ever given cards."""
    most_shared: int = 0

    def nodes(self, nodes: Iterable[Json]) -> None:
        """The cards that nodes register."""
        for node in nodes:
            name, notes = node["metadata"]["name"], node["metadata"].get("annotations") or {}
            for card in json.loads(notes.get(REGISTER, "[]")):
                limits = Limits(card.get("count", 0), card["devmem"], card["devcore"])
                self.cards[name, card["id"]] = limits

    def event(self, type: str, pod: Json) -> None:
        """One change of one pod."""
        self.events += 1
        uid = pod["metadata"]["uid"]
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        before = self.pods.pop(uid, None)
        if type == "DELETED" or ended:
            return
        if ALLOCATED in (pod["metadata"].get("annotations") or {}):
            self.pods[uid] = pod
            self.granted.add(uid)
            if before is None:
                self._check_grants(pod)
        self._check_cards()

    def _check_cards(self) -> None:
        used: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        sharing: dict[tuple[str, str], int] = defaultdict(int)
        for pod in self.pods.values():
            node = pod["metadata"]["annotations"][NODE]
            if pod["spec"].get("nodeName", node) != node:
                self._problem(f"{_name(pod)} runs on {pod['spec']['nodeName']}, not on {node}")
            for uuid, amounts in held(pod).items():
                sharing[node, uuid] += 1
                for index, amount in enumerate(amounts):
                    used[node, uuid][index] += amount
        for key, (slots, memory, cores) in used.items():
            limits = self.cards.get(key)
            if limits is None:
                self._problem(f"{key} is no card")
            elif slots > limits.slots or memory > limits.memory or cores > limits.cores:
                self._problem(f"{key}: {slots} slots, {memory} MiB, {cores} cores of {limits}")
        self.most_shared = max(self.most_shared, *sharing.values(), 0)

    def _check_grants(self, pod: Json) -> None:
        """Each container got so many different cards, and as much of each, as it asks for."""
        node = pod["metadata"]["annotations"][NODE]
        for container, grants in zip(_containers(pod), _grants(pod), strict=True):
            limits = (container.get("resources") or {}).get("limits") or {}
            count, memory, percent, cores = asked(limits)
            if len(grants) != count or len({grant[0] for grant in grants}) != count:
                self._problem(f"{_name(pod)}/{container['name']}: {count} cards asked, {grants}")
            for uuid, given, compute in grants:
                card = self.cards.get((node, uuid))
                if card is None:
                    self._problem(f"{_name(pod)}: {uuid} is no card of {node}")
                elif (given, compute) != (memory or card.memory * percent // 100, cores):
                    self._problem(f"{_name(pod)}/{container['name']}: asks {limits}, got {grants}")

    def _problem(self, text: str) -> None:
        self.problems.append(f"event {self.events}: {text}")


def asked(limits: Json) -> tuple[int, int, int, int]:
    """Cards, MiB, percent and cores of one container, with the defaults of HAMi's webhook."""
    count, memory, percent, cores = (
        _number(str(limits.get(PREFIX + name, 0)))
        for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores")
    )
    named = PREFIX + "gpu" in limits
    if not named and (memory or percent or cores):
        count = 1
    if not count:
        return 0, 0, 0, 0
    bare = PREFIX + "gpucores" not in limits and named
    if bare and (percent == 100 or not (memory or percent)):
        cores = 100
    return count, memory, percent if memory or percent else 100, cores


def _number(text: str) -> int:
    """The API server writes 9000 as 9k."""
    return int(text.removesuffix("k")) * (1000 if text.endswith("k") else 1)


def held(pod: Json) -> dict[str, tuple[int, int, int]]:
    """Slots, MiB and cores that a pod holds of each card now, by UUID."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    prepared = {s["name"] for s in statuses if "terminated" in (s.get("state") or {})}
    steady: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    peaks: list[dict[str, list[int]]] = []
    inits = len(pod["spec"].get("initContainers") or ())
    for index, grants in enumerate(_grants(pod)):
        container = _containers(pod)[index]
        passing = index < inits and container.get("restartPolicy") != "Always"
        if passing and container["name"] in prepared:
            continue
        into = {uuid: list(steady[uuid]) for uuid, *_ in grants} if passing else steady
        for uuid, memory, cores in grants:
            into[uuid] = [a + b for a, b in zip(into[uuid], (1, memory, cores), strict=True)]
        if passing:
            peaks.append(into)
    for peak in peaks:
        for uuid, amounts in peak.items():
            steady[uuid] = [max(a, b) for a, b in zip(steady[uuid], amounts, strict=True)]
    return {uuid: (slots, memory, cores) for uuid, (slots, memory, cores) in steady.items()}


def _containers(pod: Json) -> list[Json]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def _grants(pod: Json) -> list[list[tuple[str, int, int]]]:
    """Per container the (UUID, MiB, cores) of its cards; text is `uuid,TYPE,mem,cores:;`."""
    text = pod["metadata"]["annotations"][ALLOCATED]
    containers = []
    for part in text.removesuffix(";").split(";"):
        entries = [entry.split(",") for entry in part.split(":") if entry]
        containers.append([(uuid, int(mem), int(cores)) for uuid, _, mem, cores in entries])
    return containers


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
