"""Copies with cards that stand still: their seats stay theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.api.names import Mirror, Pin
from federation.core.holding import Lease, Terms
from federation.core.topology import HOSTNAME
from federation.edge.resources import JOBS, NODES, PODS
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import mirrored
from tests.unit.worker_agent.test_devices import Cards, _any_resource, asks
from worker_agent.binder import Binder
from worker_agent.facts import Stage, worker_job

TERMS = Terms(renew=5.0, lease=30.0, kill=45.0)

__all__ = ["_any_resource"]


class LeasedCards(Cards):
    """Nodes with cards, and a lease that ends when the test says so."""

    def __init__(self, nodes: int = 1, of: int = 1, binder: Binder = Binder.AGENT) -> None:
        super().__init__(nodes, of, binder)
        self.boot = 1000.0
        self.state = Lease().renewal(self.boot, 1, TERMS)
        self.lease = lambda: self.state
        self.settings = replace(self.settings, boottime=lambda: self.boot)

    def tell(self, *, renewed: bool) -> None:
        self.boot += TERMS.lease
        if renewed:
            self.state = self.state.renewal(self.boot, 1, TERMS)
        self.agent.lease_changed()

    def stage(self, name: str) -> Stage:
        found = worker_job(self.get(name))
        assert found is not None
        return found.stage

    async def pods_go(self, name: str) -> None:
        """The Job controller deletes them."""
        for pod in self.pods(name):
            self.fake.delete(PODS, pod["metadata"]["name"], "team")
        self.stopping(name, 0)


def copy(name: str, pods: int = 1, **limits: int) -> Any:
    body = mirrored(name)
    body["spec"] = asks(name, pods, **limits)["spec"]
    return body


@pytest.mark.parametrize("binder", [Binder.HAMI, Binder.AGENT])
@pytest.mark.parametrize("pods", [1, 3])
async def test_the_cards_of_what_is_held_stay_its_own(binder: Binder, pods: int) -> None:
    """A Job of the cluster does not get them in between; the pods get the same seats again."""
    worker = LeasedCards(nodes=pods, binder=binder)
    async with worker.running() as agent:
        worker.add(copy("a", pods, gpu=1, gpumem=40960))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        note = worker.get("a")["metadata"]["annotations"][Pin.DEVICES.value]
        spec = worker.get("a")["spec"]
        for pod in worker.pods("a"):
            worker.bind(pod)
        worker.tell(renewed=False)
        await until(lambda: worker.stage("a") is Stage.HELD)
        await worker.pods_go("a")
        worker.add(asks("local", gpu=1, gpumem=1000))
        await until(lambda: "fits" in worker.why("local") or "free" in worker.why("local"))
        await worker.at_rest()
        assert not worker.started("local")
        assert len(list(agent.devices.ledger.holdings())) == pods
        worker.tell(renewed=True)
        await until(lambda: worker.started("a"))
        assert worker.get("a")["metadata"]["annotations"][Pin.DEVICES.value] == note
        assert worker.get("a")["spec"] == spec
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        assert not worker.started("local")


async def test_a_restart_finds_the_cards_of_what_is_held() -> None:
    worker = LeasedCards()
    async with worker.running():
        worker.add(copy("a", gpu=1, gpumem=40960))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        worker.tell(renewed=False)
        await until(lambda: worker.stage("a") is Stage.HELD)
        await worker.pods_go("a")
    async with worker.running() as agent:
        worker.add(asks("local", gpu=1, gpumem=1000))
        await until(lambda: worker.why("local"))
        assert len(list(agent.devices.ledger.holdings())) == 1
        worker.fake.delete(JOBS, "a", "team")
        await until(lambda: worker.started("local"))


@pytest.mark.parametrize(("pods", "nodes"), [(2, 3), (1, 2)])
async def test_a_node_that_is_gone_when_it_goes_on(pods: int, nodes: int) -> None:
    """Pods that wait at their gate get other cards; a Job whose template names the node is stopped
    for good, and its manager has it run elsewhere.
    """
    worker = LeasedCards(nodes, binder=Binder.HAMI)
    async with worker.running():
        worker.add(copy("a", pods, gpu=1, gpumem=40960))
        await until(lambda: worker.started("a"))
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        gone = worker.pods("a")[0]["spec"]["nodeSelector"][HOSTNAME]
        worker.tell(renewed=False)
        await until(lambda: worker.stage("a") is Stage.HELD)
        await worker.pods_go("a")
        worker.fake.delete(NODES, gone)
        await worker.at_rest()
        assert worker.stage("a") is Stage.HELD
        worker.tell(renewed=True)
        await until(lambda: worker.started("a"))
        if pods == 1:
            worker.run_pods("a")
            await until(lambda: "NodeFailures" in worker.note_of("a", Mirror.EVICTED))
            return
        worker.make_pods("a")
        await until(lambda: worker.seated("a"))
        hosts = {pod["spec"]["nodeSelector"][HOSTNAME] for pod in worker.pods("a")}
        assert len(hosts) == 2
        assert gone not in hosts
