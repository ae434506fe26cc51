"""Where HAMi's scheduler errs, and what is right: recorded small cases, each as a test of its own.

From annotation texts and pod specs on. Those about the life of a reservation (d22, d23, r00 to
r02, x00 to x02) are in test_ledger.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from federation.core.devices.asking.asking import WantsError
from federation.core.devices.cards import Allocation, Amount, CardUse, Host, HostUse
from federation.core.devices.host.fit import find
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.ledger.charge import charge, occupied
from federation.core.devices.wants import PodWants
from federation.core.devices.wire import allocation_note, registration
from federation.core.devices.wire.vendor_table import NVIDIA
from federation.jobs.devices import card_wants

RECORDED = Path(__file__).parents[5] / "shared/conformance/vgpu-defects.jsonl"
IN_TEST_LEDGER = {"d22", "d23", "r00", "r01", "r02", "x00", "x01", "x02"}

A100 = {"count": 10, "devmem": 40960, "devcore": 100, "type": "NVIDIA A100-SXM4-40GB"}
MIG = [
    ("1g.5gb", 4864, 15, 1, [(start, 1) for start in range(7)]),
    ("2g.10gb", 9984, 29, 2, [(0, 2), (2, 2), (4, 2)]),
    ("3g.20gb", 20096, 43, 3, [(0, 4), (4, 4)]),
    ("7g.40gb", 40192, 100, 7, [(0, 8)]),
]

GPU, MEMORY = "nvidia.com/gpu", "nvidia.com/gpumem"
CORES, PERCENT = "nvidia.com/gpucores", "nvidia.com/gpumem-percentage"


class Nodes:
    """What stands on nodes, and the pods that were placed there."""

    def __init__(self, *registers: list[dict[str, Any]]) -> None:
        self.hosts = [
            Host(f"n{number}", registration.decode(json.dumps(cards), NVIDIA))
            for number, cards in enumerate(registers)
        ]
        self.pods: dict[str, tuple[str, PodWants, Allocation, bool]] = {}

    def admit(self, name: str, *limits: dict[str, str], **more: Any) -> bool:
        """Place a pod with these app containers, if it fits somewhere."""
        wants = card_wants(template(*limits, **more))
        for host in self.hosts:
            found = find(self.use(host), wants)
            if not isinstance(found, Misfit):
                self.pods[name] = (host.name, wants, found, False)
                return True
        return False

    def use(self, host: Host) -> HostUse:
        uses: dict[str, CardUse] = {}
        for node, wants, allocation, done in self.pods.values():
            if node != host.name:
                continue
            places = occupied(allocation)
            for uuid, amount in charge(wants.roles, allocation, init_done=done).items():
                held = uses.get(uuid, CardUse())
                closed = held.closed or wants.wishes.mutex
                slices = (*held.slices, *places.get(uuid, ()))
                uses[uuid] = CardUse(held.amount.plus(amount), slices, closed)
        return HostUse(host, uses)

    def init_done(self, name: str) -> None:
        node, wants, allocation, _ = self.pods[name]
        self.pods[name] = (node, wants, allocation, True)

    def charge(self, name: str) -> dict[str, Amount]:
        _, wants, allocation, done = self.pods[name]
        return charge(wants.roles, allocation, init_done=done)

    def annotation(self, name: str) -> str:
        return allocation_note.encode(self.pods[name][2])

    def uuids(self, name: str) -> set[str]:
        return set(self.charge(name))


def template(
    *limits: dict[str, str],
    init: tuple[dict[str, str], ...] = (),
    sidecar: bool = False,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {
            "initContainers": [
                {"name": f"i{number}", "resources": {"limits": given}, **restart}
                for number, given in enumerate(init)
            ],
            "containers": [
                {"name": f"c{number}", "resources": {"limits": given}}
                for number, given in enumerate(limits)
            ],
        },
    }


def card(number: int = 0, **rest: Any) -> dict[str, Any]:
    return {
        "id": f"GPU-{number}",
        "index": number,
        "health": True,
        "mode": "hami-core",
        **A100,
        **rest,
    }


def mig_card() -> dict[str, Any]:
    profiles = [
        {
            "name": name,
            "memoryMB": memory,
            "core": cores,
            "sliceCount": slices,
            "placements": [{"start": start, "size": size} for start, size in places],
        }
        for name, memory, cores, slices, places in MIG
    ]
    return card(count=7, mode="mig", migProfiles=profiles)


def gpu(memory: str = "", cards: str = "1", **rest: str) -> dict[str, str]:
    return {GPU: cards} | ({MEMORY: memory} if memory else {}) | rest


def test_d01_an_init_container_without_cards_shifts_nothing() -> None:
    nodes = Nodes([card()])
    assert nodes.admit("p", gpu("16384"), gpu("16384"), init=({},))
    assert nodes.charge("p") == {"GPU-0": Amount(2, 32768, 0)}
    assert nodes.annotation("p") == ";GPU-0,NVIDIA,16384,0:;GPU-0,NVIDIA,16384,0:;"
    assert not nodes.admit("q", gpu("24576"))


def test_d02_the_app_is_charged_when_such_an_init_container_has_ended() -> None:
    nodes = Nodes([card()])
    assert nodes.admit("p", gpu("16384"), init=({},))
    nodes.init_done("p")
    assert nodes.charge("p") == {"GPU-0": Amount(1, 16384, 0)}
    assert not nodes.admit("q", gpu("40960"))


def test_d04_memory_in_bytes_is_counted() -> None:
    nodes = Nodes([card()])
    assert nodes.admit("full", gpu())
    assert not nodes.admit("p", gpu("20Gi"))
    assert not nodes.admit("q", gpu("3G"))
    empty = Nodes([card()])
    assert empty.admit("p", gpu("20Gi"))
    assert empty.charge("p") == {"GPU-0": Amount(1, 20480, 0)}


def test_d05_a_model_is_a_word() -> None:
    nodes = Nodes([card(type="NVIDIA H200", devmem=143771)], [card()])
    for word in ("H20", "A10"):
        assert not nodes.admit("p", gpu("1000"), annotations={"nvidia.com/use-gputype": word})
    for word in ("H200", "A100"):
        assert nodes.admit(word, gpu("1000"), annotations={"nvidia.com/use-gputype": word})


def test_d07_numa_bind_finds_the_node_that_has_enough_cards() -> None:
    nodes = Nodes([card(0), card(1), card(2, numa=1), card(3, numa=1)])
    assert nodes.admit("x", gpu(), annotations={"nvidia.com/use-gpuuuid": "GPU-0"})
    bind = {"nvidia.com/numa-bind": "true"}
    best = {**bind, "hami.io/gpu-scheduler-policy": "topology-aware"}
    assert nodes.admit("p", gpu("4000", "2"), annotations=best)
    assert nodes.uuids("p") == {"GPU-2", "GPU-3"}
    assert nodes.admit("q", gpu("4000", "2"), annotations=bind)
    assert nodes.uuids("q") == {"GPU-2", "GPU-3"}


def test_d08_a_percentage_of_0_is_as_if_not_given() -> None:
    nodes = Nodes([card()])
    assert nodes.admit("p", gpu(**{PERCENT: "0"}))
    assert nodes.charge("p") == {"GPU-0": Amount(1, 40960, 100)}
    assert not nodes.admit("q", gpu("1"))


def test_d10_a_card_stays_closed_while_who_wants_it_alone_lives() -> None:
    nodes = Nodes([card()])
    mutex = {"hami.io/gpu-scheduler-policy": "mutex"}
    assert nodes.admit("p", gpu("4000"), annotations=mutex)
    assert not nodes.admit("q", gpu("4000"))
    assert not nodes.admit("r", gpu("4000"), annotations=mutex)
    del nodes.pods["p"]
    assert nodes.admit("q", gpu("4000"))
    assert not nodes.admit("r", gpu("4000"), annotations=mutex)


def test_d11_small_instances_leave_a_place_for_a_large_one() -> None:
    nodes = Nodes([mig_card()])
    for number in range(4):
        assert nodes.admit(f"p{number}", gpu("4864"))
    starts = sorted(
        places[0].start
        for _, _, allocation, _ in nodes.pods.values()
        for places in occupied(allocation).values()
    )
    assert starts == [0, 1, 2, 3]
    assert nodes.admit("q", gpu("20096"))


def test_d13_a_free_instance_is_free_whatever_the_sum_of_cores() -> None:
    nodes = Nodes([mig_card()])
    for number in range(7):
        assert nodes.admit(f"p{number}", gpu("4000", **{CORES: "15"}))
    assert not nodes.admit("p7", gpu("4000"))


def test_d14_the_whole_of_a_mig_card_is_its_largest_instance() -> None:
    nodes = Nodes([mig_card()])
    assert nodes.admit("p", gpu())
    assert nodes.charge("p") == {"GPU-0": Amount(1, 40192, 100)}
    assert nodes.pods["p"][2][0][0].slice == ("7g.40gb", 0, 8)


def test_d16_an_earlier_container_leaves_the_card_that_a_later_one_needs() -> None:
    nodes = Nodes([card(0), card(1)])
    assert nodes.admit("x", gpu("20480"), annotations={"nvidia.com/use-gpuuuid": "GPU-1"})
    assert nodes.admit("p", gpu("4000"), gpu())
    assert nodes.annotation("p") == "GPU-1,NVIDIA,4000,0:;GPU-0,NVIDIA,40960,100:;"


def test_d17_a_sidecar_runs_with_the_app() -> None:
    nodes = Nodes([card()])
    assert nodes.admit("p", gpu("10240"), init=(gpu("10240"),), sidecar=True)
    assert nodes.charge("p") == {"GPU-0": Amount(2, 20480, 0)}
    assert not nodes.admit("q", gpu("30720"))


def test_d19_and_d25_cards_are_routed_by_the_annotation_and_not_by_their_text() -> None:
    for model in ("Tesla T4", "Not-really-nvidia-X1"):
        nodes = Nodes([card(type=model)])
        assert nodes.admit("p", gpu("1000"))
    dcu = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1000"}
    assert not Nodes([card(type="NVIDIA DCU")]).admit("p", dcu)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hami.io/gpu-scheduler-policy", "bin-pack"),
        ("hami.io/device-scoring-weights", "slot=1,core=1"),
    ],
)
def test_d20_what_is_not_understood_is_refused_with_the_reason(key: str, value: str) -> None:
    with pytest.raises(WantsError, match=key):
        Nodes([card()]).admit("p", gpu("1000"), annotations={key: value})


def test_every_recorded_defect_has_a_test() -> None:
    if not RECORDED.exists():
        pytest.skip("the recorded cases are not here")
    recorded = {json.loads(line)["id"] for line in RECORDED.read_text().splitlines()}
    here = {
        part
        for name in globals()
        if name.startswith("test_d")
        for part in name.split("_")
        if part[0] == "d" and part[1:].isdigit()
    }
    assert recorded <= here | IN_TEST_LEDGER
    ledger = (Path(__file__).parent / "test_ledger.py").read_text()
    assert "x00 to x02" in ledger
    assert all(name in ledger for name in IN_TEST_LEDGER if name[0] != "x")
