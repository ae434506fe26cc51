"""ResourceQuotas of namespaces in the ledger of cards."""

from __future__ import annotations

from typing import Any

from federation.core.devices.cards import Card, Grant, Host
from federation.core.devices.ledger.holding import Replica, Reservation
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.wants import CardWants, ContainerWants, PodWants
from federation.core.devices.wire.vendor_table import VENDORS
from worker_agent.device_limits import limit_store


def quota(name: str = "q", **hard: str) -> dict[str, Any]:
    keys = {f"limits.nvidia.com/{key}": amount for key, amount in hard.items()}
    return {"metadata": {"namespace": "team", "name": name}, "spec": {"hard": keys}}


def wanted(memory: int, namespace: str = "team") -> Reservation:
    wants = PodWants((ContainerWants("c", cards=(CardWants("NVIDIA", 1, memory),)),))
    grants = ((Grant("GPU-1", "NVIDIA", memory, 0),),)
    return Reservation(Replica("job", 0), namespace, "n", wants, grants, 1e9)


def test_limits_hold_from_the_first_list_to_the_deletion() -> None:
    """Two objects: the tighter one. Each change is news, for what waits may fit now."""
    ledger, news = Ledger(), []
    ledger.set_host(Host("n", (Card("GPU-1", "NVIDIA", "A100", 40960),)))
    store = limit_store(ledger, VENDORS, lambda: news.append(1))
    store.on_list([quota(gpumem="25600"), quota("wide", gpumem="90000")], "1")
    assert "ResourceQuota q allows 25600" in objection(ledger, wanted(30000))
    assert not objection(ledger, wanted(25600))
    assert not objection(ledger, wanted(40960, "other"))
    store.on_event("MODIFIED", quota(gpumem="30Gi"))
    assert not objection(ledger, wanted(30000))
    store.on_event("MODIFIED", quota(gpumem="0"))
    assert objection(ledger, wanted(1))
    store.on_event("DELETED", quota(gpumem="0"))
    assert not objection(ledger, wanted(40960))
    assert len(news) == 5


def test_other_quotas_are_no_news() -> None:
    news: list[int] = []
    store = limit_store(Ledger(), VENDORS, lambda: news.append(1))
    store.on_list([{"metadata": {"namespace": "a", "name": "b"}, "spec": {"hard": {"cpu": 1}}}], "")
    assert not news


def objection(ledger: Ledger, wanted: Reservation) -> str:
    """Why it cannot be reserved; nothing stays reserved."""
    why = ledger.reserve(wanted)
    ledger.cancel(wanted.owner)
    return why
