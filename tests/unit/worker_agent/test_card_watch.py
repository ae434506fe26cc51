"""The checker of cards finds what it is there to find."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.reference.card_watch import CardWatch, asked, held

CARD = {"id": "g", "count": 2, "devmem": 1000, "devcore": 100}


def node(*cards: Any) -> Any:
    text = json.dumps([{**CARD, "id": name} for name in cards])
    return {"metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": text}}}


def pod(uid: str, given: str, *limits: dict[str, str], init: Any = (), phase: str = "") -> Any:
    containers = [{"name": f"c{i}", "resources": {"limits": lim}} for i, lim in enumerate(limits)]
    notes = {"hami.io/vgpu-node": "n", "hami.io/vgpu-devices-allocated": given}
    return {
        "metadata": {"uid": uid, "name": uid, "namespace": "t", "annotations": notes},
        "spec": {"containers": containers, "initContainers": list(init)},
        "status": {"phase": phase},
    }


def gpu(count: int = 1, memory: int = 0, cores: int = 0) -> dict[str, str]:
    return {
        f"nvidia.com/{name}": str(amount)
        for name, amount in (("gpu", count), ("gpumem", memory), ("gpucores", cores))
        if amount
    }


def watch(*pods: Any) -> list[str]:
    found = CardWatch()
    found.nodes([node("g", "h")])
    for one in pods:
        found.event("ADDED", one)
    return found.problems


def test_what_is_right() -> None:
    assert watch(
        pod("a", "g,NVIDIA,600,60:;", gpu(memory=600, cores=60)),
        pod("b", "g,NVIDIA,400,40:;", gpu(memory=400, cores=40)),
        pod("c", "h,NVIDIA,1000,100:;", gpu()),
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("second", "limits", "why"),
    [
        ("g,NVIDIA,500,0:;", gpu(memory=500), "1100 MiB"),
        ("g,NVIDIA,1,50:;", gpu(memory=1, cores=50), "110 cores"),
        ("x,NVIDIA,1,0:;", gpu(memory=1), "no card"),
        ("g,NVIDIA,100,0:;", gpu(memory=200), "asks"),
        ("g,NVIDIA,100,0:g,NVIDIA,100,0:;", gpu(2, 100), "2 cards asked"),
    ],
)
def test_what_is_wrong(second: str, limits: dict[str, str], why: str) -> None:
    problems = watch(
        pod("a", "g,NVIDIA,600,60:;", gpu(memory=600, cores=60)), pod("b", second, limits)
    )
    assert why in problems[0]


def test_slots_and_what_ended() -> None:
    pods = [pod(name, "g,NVIDIA,1,0:;", gpu(memory=1)) for name in "abc"]
    assert "3 slots" in watch(*pods)[0]
    pods[0]["status"]["phase"] = "Succeeded"
    assert watch(*pods) == []


def test_init_containers_are_peaks_until_they_are_done() -> None:
    init = {"name": "i", "resources": {"limits": gpu(memory=900)}}
    both = pod("a", "g,NVIDIA,900,0:;g,NVIDIA,300,0:;", gpu(memory=300), init=[init])
    assert held(both) == {"g": (1, 900, 0)}
    both["status"]["initContainerStatuses"] = [
        {"name": "i", "state": {"terminated": {"exitCode": 0}}}
    ]
    assert held(both) == {"g": (1, 300, 0)}


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        (gpu(), (1, 0, 100, 100)),
        (gpu(1, 4000), (1, 4000, 0, 0)),
        (gpu(0, 4000), (1, 4000, 0, 0)),
        (gpu(2) | {"nvidia.com/gpumem-percentage": "50"}, (2, 0, 50, 0)),
        ({"nvidia.com/gpucores": "30"}, (1, 0, 100, 30)),
        ({}, (0, 0, 0, 0)),
    ],
)
def test_what_a_container_asks(limits: dict[str, str], want: tuple[int, ...]) -> None:
    assert asked(limits) == want
