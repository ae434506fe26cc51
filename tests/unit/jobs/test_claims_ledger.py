"""Published cards and allocated claims in the ledger that annotations are counted in too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from federation.core.devices.cards import Amount, Card, Host
from federation.core.devices.claims.cards import NO_LIMIT, hosts, merged
from federation.core.devices.claims.claims import Device
from federation.core.devices.claims.holdings import holdings_of
from federation.core.devices.claims.pools import complete
from federation.core.devices.ledger.holding import Holding, State
from federation.jobs.claim_objects import read_allocation, read_slice
from tests.unit.jobs.claim_build import (
    DRIVER,
    allocated,
    device,
    resource_slice,
    result,
)

Json = dict[str, Any]
NO_SCHEDULE = {"key": "broken", "effect": "NoSchedule"}
TOLD = {"key": "warm", "effect": "None"}


def published(*items: Json, node: str = "n1") -> tuple[Device, ...]:
    return complete([read_slice(resource_slice("s", node, *items))])


def by_key(devices: Iterable[Device]) -> dict[tuple[str, str, str], Device]:
    return {found.key: found for found in devices}


def held(claim: Json, *items: Json) -> list[Holding]:
    found = read_allocation(claim)
    assert found is not None
    return holdings_of(found, by_key(published(*items)))


def test_published_devices_are_cards_of_their_nodes() -> None:
    found = hosts(published(device(1), device(0, taints=[NO_SCHEDULE]), device(2, taints=[TOLD])))
    assert [card.uuid for card in found["n1"].cards] == ["GPU-0", "GPU-1", "GPU-2"]
    assert [card.cordoned for card in found["n1"].cards] == [True, False, False]
    assert found["n1"].cards[1] == Card(
        "GPU-1", "NVIDIA", "NVIDIA A100-SXM4-40GB", 40960, 100, NO_LIMIT, 1
    )


def test_a_device_of_another_driver_is_no_card() -> None:
    assert hosts([Device("nic.example.com", "n1", "nic-0", "n1")]) == {}


def test_a_card_that_is_registered_and_published_is_one() -> None:
    registered = Host("n1", (Card("GPU-0", "NVIDIA", "A100", 81920, 200, 10),))
    found = merged(registered, hosts(published(device(0, taints=[NO_SCHEDULE]), device(1)))["n1"])
    assert [card.uuid for card in found.cards] == ["GPU-0", "GPU-1"]
    both = found.cards[0]
    assert (both.memory_mib, both.cores, both.slots) == (40960, 100, 10)
    assert both.cordoned
    assert merged(registered, None) is registered


SHARE = {"consumedCapacity": {"memory": "4Gi", f"{DRIVER}/cores": "30"}}


def test_a_claim_holds_its_share() -> None:
    (found,) = held(allocated("c1", result(0, **SHARE), result(1, **SHARE)), device(0), device(1))
    assert (found.owner, found.namespace, found.host) == ("c1", "ns", "n1")
    assert found.state is State.BOUND
    assert found.charge() == {"GPU-0": Amount(1, 4096, 30), "GPU-1": Amount(1, 4096, 30)}


def test_two_shares_of_one_card() -> None:
    (found,) = held(allocated("c1", result(0, **SHARE), result(0, **SHARE)), device(0))
    assert found.charge() == {"GPU-0": Amount(2, 8192, 60)}


def test_without_a_share_it_holds_the_whole_card() -> None:
    (found,) = held(allocated("c1", result(0)), device(0))
    assert found.charge() == {"GPU-0": Amount(1, 40960, 100)}


def test_fractions_of_a_mebibyte_are_rounded_up() -> None:
    (found,) = held(allocated("c1", result(0, consumedCapacity={"memory": "1"})), device(0))
    assert found.charge()["GPU-0"].memory_mib == 1


def test_a_device_that_is_published_no_more_still_counts() -> None:
    claim = allocated("c1", result(7, pool="pool", **SHARE), node="n9")
    (found,) = held(claim)
    assert found.host == "n9"
    assert found.charge() == {f"{DRIVER}/pool/hami-gpu-7": Amount(1, 4096, 30)}
    (found,) = held(allocated("c1", result(7, pool="n4", **SHARE)))
    assert found.host == "n4"


def test_what_holds_no_card() -> None:
    assert held(allocated("c1", result(0, adminAccess=True)), device(0)) == []
    assert held(allocated("c1", {**result(0), "driver": "nic.example.com"})) == []
    assert read_allocation({"metadata": {"uid": "c"}, "status": {}}) is None


def test_a_claim_that_pods_share_is_charged_once() -> None:
    for pods in ((), ("pod-2",), ("pod-2", "pod-1")):
        claim = read_allocation(allocated("c1", result(0, **SHARE), pods=pods))
        assert claim is not None
        assert claim.pods == tuple(sorted(pods))
        (found,) = holdings_of(claim, by_key(published(device(0))))
        assert found.owner == "c1"
