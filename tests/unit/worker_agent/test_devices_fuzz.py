"""Random Jobs on shares of cards, with restarts between any two steps; a watch over all cards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from federation.core.topology import HOSTNAME
from federation.edge.informer import Informer
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import JOBS, NODES, PODS
from federation.jobs.eviction_note import Eviction
from tests.reference.card_watch import CardWatch
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent import test_devices
from tests.unit.worker_agent.test_devices import Cards, asks
from worker_agent.agent import Agent
from worker_agent.binder import Binder

covered = test_devices._any_resource

KINDS: Sequence[dict[str, int]] = (
    {"gpu": 1, "gpumem": 4000, "gpucores": 10},
    {"gpu": 1, "gpumem": 20480},
    {"gpu": 2, "gpumem": 9000, "gpucores": 25},
    {"gpu": 1},
    {"gpumem": 13000},
)
STEPS = 60


def phase(pod: Any) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


class Watch:
    """Hands pod events to the checker."""

    def __init__(self, watch: CardWatch) -> None:
        self._watch = watch

    def on_list(self, items: Sequence[Any], resource_version: str) -> None:
        for item in items:
            self._watch.event("ADDED", item)

    def on_event(self, type: str, obj: Any) -> None:
        self._watch.event(type, obj)


class City(Cards):
    """Plays Job controller, kube-scheduler and kubelet at random."""

    def __init__(self, seed: int) -> None:
        super().__init__(nodes=2, of=2, binder=Binder.AGENT)
        self.dice = random.Random(seed)
        self.names: list[str] = []
        self.over: set[str] = set()

    def submit(self) -> None:
        name = f"j{len(self.names):02d}"
        pods = self.dice.choice((1, 1, 2, 3))
        self.add(asks(name, pods, None, "1", **self.dice.choice(KINDS)))
        self.names.append(name)

    def open(self) -> list[str]:
        return [name for name in self.names if name not in self.over]

    def control(self) -> None:
        """The Job controller: pods of what runs, none of what is suspended, and the end."""
        for name in self.open():
            body = self.get(name)
            pods = self.pods(name)
            live = [p for p in pods if phase(p) not in ("Succeeded", "Failed")]
            done = sum(phase(p) == "Succeeded" for p in pods)
            if body["spec"]["suspend"]:
                for pod in live:
                    self.fake.delete(PODS, pod["metadata"]["name"], "team")
                if (body.get("status") or {}).get("startTime"):
                    self.stopping(name, 0)
                continue
            missing = body["spec"]["completions"] - done - len(live)
            if done == body["spec"]["completions"]:
                self.end(name)
                self.over.add(name)
            elif missing > 0:
                self.make_pods(name, missing)

    def let_run(self) -> None:
        """kube-scheduler and kubelet: what has no gate runs, if its node is there."""
        nodes = {node["metadata"]["name"] for node in self.fake.items(NODES)}
        for pod in self.fake.items(PODS):
            free = not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName")
            if free and pod["spec"]["nodeSelector"][HOSTNAME] in nodes:
                self.bind(pod, run=self.dice.random() < 0.8)
            elif pod["spec"].get("nodeName") and phase(pod) in ("", "Pending"):
                self.pod_ends(pod, "Running")

    def finish_some(self, share: float) -> None:
        for pod in self.fake.items(PODS):
            if phase(pod) == "Running" and self.dice.random() < share:
                self.pod_ends(pod, "Failed" if self.dice.random() < 0.1 else "Succeeded")

    def evict_one(self, agent: Agent) -> None:
        running = [name for name in self.open() if self.started(name)]
        if running:
            uid = self.get(self.dice.choice(running))["metadata"]["uid"]
            agent.state.evict(uid, Eviction("Preempted", "test", "2026-01-01T00:00:00Z"))

    def delete_one(self) -> None:
        name = self.dice.choice(self.open() or [""])
        if name:
            self.over.add(name)
            for pod in self.pods(name):
                self.fake.delete(PODS, pod["metadata"]["name"], "team")
            self.fake.delete(JOBS, name, "team")

    def cordon(self) -> None:
        name = f"n{self.dice.randrange(2)}"
        value = self.dice.choice((None, f"GPU-{name}-{self.dice.randrange(2)}"))
        patch = {"metadata": {"annotations": {"hami.io/device-cordon": value}}}
        self.fake.merge(NODES, name, patch)

    def step(self, agent: Agent) -> None:
        act = self.dice.choices(
            (self.submit, self.control, self.let_run, self.finish_some, self.evict_one,
             self.delete_one, self.cordon),
            (4, 6, 6, 3, 1, 0.5, 1),
        )[0]  # fmt: skip
        if act == self.finish_some:
            self.finish_some(0.5)
        elif act == self.evict_one:
            self.evict_one(agent)
        else:
            act()

    async def drain(self, agent: Agent) -> None:
        """Let everything finish."""
        for name in ("n0", "n1"):
            patch = {"metadata": {"annotations": {"hami.io/device-cordon": None}}}
            self.fake.merge(NODES, name, patch)
        for _ in range(400):
            self.control()
            self.let_run()
            self.finish_some(1.0)
            await asyncio.sleep(0.01)  # pods run that long; nothing announces their end
            if not self.open():
                return
        waiting = {name: (self.started(name), self.why(name)) for name in self.open()}
        pytest.fail(f"they never finished: {waiting}")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_no_card_is_over_and_all_finish(seed: int) -> None:
    city, watch = City(seed), CardWatch()
    watch.nodes(city.fake.items(NODES))
    client = KubeClient(Endpoint("https://fake", name="w"), transport=city.fake)
    informer = Informer(client, PODS, Watch(watch))
    watching = asyncio.create_task(informer.run())
    try:
        steps = 0
        while steps < STEPS:
            async with city.running() as agent:
                for _ in range(city.dice.randrange(5, 25)):
                    city.step(agent)
                    steps += 1
                    await asyncio.sleep(city.dice.choice((0, 0, 0.005, 0.02)))  # chance of order
                    assert watch.problems == []
        async with city.running() as agent:
            await city.drain(agent)
            await until(lambda: not list(agent.devices.ledger.holdings()), "all given back")
            agent.devices.refresh()
            for name in ("n0", "n1"):
                use, room = agent.devices.fleet.use(name), agent.devices.rooms.room(name)
                assert use is not None
                assert room is not None
                assert not any(any(card.amount) for card in use.uses.values())
                assert (room.free["cpu"], room.free["pods"]) == (16000, 50)
    finally:
        await stop([watching])
        await client.aclose()
    assert watch.problems == []
    assert watch.granted
